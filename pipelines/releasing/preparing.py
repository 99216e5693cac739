"""A release made ready: manifest and card, from the ledger's own record of what was charged."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from typing import Any

import numpy as np

from understudy.pipelines.counting.quality import DEVIATIONS, qualities_of
from understudy.pipelines.counting.released import (
    KIND,
    RESIDUALS,
    counts_entities,
    noisy_total,
    released_entities,
    released_marginals,
    title,
)
from understudy.pipelines.counting.triples import chosen_triples
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.verdict import measured_verdict
from understudy.pipelines.methods.base import Agreement, MethodPlan, NoiseLine
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.card import MeasuredColumn, render_card
from understudy.pipelines.publishing.lineage.contracts import contract_files
from understudy.pipelines.publishing.manifest import (
    AccountState,
    ColumnFitness,
    Manifest,
    UnlistedFact,
    charged_event,
    guarantee_of,
    noise_facts,
    public_spec,
    quality_facts,
    software_versions,
    verdict_fact,
)
from understudy.pipelines.publishing.measured import measured_fact, measured_files
from understudy.pipelines.publishing.targets.base import PreparedRelease, release_id
from understudy.pipelines.releasing.approving import Approval, loss_without, settled, settled_charges
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.rolling import declared_steps
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.fitness import fitness_of
from understudy.pipelines.table.synthetic import Synthetic

MUCH_UNLISTED = 0.02
"""Above this share of a discovered column's rows that are `other`, people are told."""


def prepare_release(
    synthetic: Synthetic,
    measured: Measurement,
    agreements: list[Agreement],
    planned: Planned,
    approval: Approval,
    ledger: Ledger,
) -> PreparedRelease:
    """Manifest and card, from the ledger's own record of what was charged, not from what this run believes."""
    spec, drawn, names = planned.spec, _as_drawn(planned, measured), synthetic.parts.schema.names
    charges = [*settled(ledger, planned.bought), *settled_charges(ledger, approval)]
    balance = ledger.balance(spec.privacy.account)
    before = loss_without(ledger, spec.privacy.account, (*planned.bought, *approval.mids))
    loss = composed_loss([c.event for c in charges], float(spec.privacy.delta), spec.privacy.relation)
    files = measured_files(measured, planned.domain, spec.privacy.protected_unit.max_rows)
    known = _measured_columns(measured, planned.domain)
    manifest = Manifest(
        name=spec.name,
        release_id=release_id(spec, approval.mids),
        snapshot=spec.source.snapshot,
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        guarantee=guarantee_of(
            loss, spec, [charged_event(c.stage, c.mid, c.event, c.measurement_sha256 or "") for c in charges]
        ),
        account=AccountState(
            name=balance.account.name,
            cap_epsilon=str(balance.account.cap.epsilon),
            cap_delta=str(balance.account.cap.delta),
            spent_epsilon=balance.spent.epsilon,
            filter=balance.account.filter.name,
            theorem=balance.account.filter.theorem,
            releases_charged=balance.charges,
            history_head=balance.history_head,
        ),
        method=spec.method.name,
        steps=drawn.steps,
        noise=noise_facts(drawn),
        counted="entities" if counts_entities(measured) else "rows",
        quality=quality_facts(qualities_of(measured, planned.domain)),
        unlisted=_unlisted(known, planned),
        left_out=tuple(name for name in planned.discovered if name not in names),
        rows=synthetic.rows,
        columns=tuple(names),
        spec_hash=approval.requests[0].spec_hash,
        spec=public_spec(spec),
        versions=software_versions(),
        fitness=tuple(ColumnFitness(**vars(one)) for one in fitness_of(spec, planned.domain)),
        verdict=verdict_fact(measured_verdict(measured, planned.domain.names)),
        measured=measured_fact(files, measured),
    )
    card = render_card(manifest, synthetic, known, agreements, before.epsilon)
    beside = (*files, *contract_files(manifest, spec))
    return PreparedRelease(manifest, synthetic.parts, card, measured=beside)


def _unlisted(known: dict[str, MeasuredColumn], planned: Planned) -> tuple[UnlistedFact, ...]:
    """Discovered columns of which so much is `other` that noise does not explain it."""
    found = []
    for column in planned.domain.columns:
        if column.name not in planned.discovered or column.name not in known or column.other_code is None:
            continue
        share, std = float(known[column.name].shares[column.other_code]), known[column.name].std
        if share - DEVIATIONS * std > MUCH_UNLISTED:
            found.append(UnlistedFact(column=column.name, share=round(share, 6), std=round(std, 6)))
    return tuple(found)


def _as_drawn(planned: Planned, measured: Measurement) -> MethodPlan[Any]:
    """The plan with the noise of what is published: an earlier version may have drawn it by another plan, and triples
    that were chosen are known only now."""
    plan, chosen = planned.plan, chosen_triples(measured)
    if planned.spec.method.name == "privpgd" and plan.rows_a_count != 1.0 and not counts_entities(measured):
        plan = _of_rows(planned)
    if measured.kind != KIND and chosen is None:
        return plan
    released = {title(clique, planned.domain): (cells, std) for clique, cells, std in _noise_of(measured)}
    lines = [replace(line, std=released[line.query][1] if line.query in released else line.std) for line in plan.noise]
    names = [title(triple, planned.domain) for triple in chosen or ()]
    why = "chosen: its pairs do not explain it"
    lines += [NoiseLine(name, *released[name], why) for name in names if name in released]
    return replace(plan, noise=tuple(lines))


def _noise_of(measured: Measurement) -> list[tuple[Clique, int, float]]:
    """The marginals that were asked for over columns: their cells and the noise of each, in what was counted."""
    if not counts_entities(measured):
        return [(clique, noisy.size, std) for clique, noisy, std in released_marginals(measured)]
    counted = released_entities(measured)
    told = counted.residuals
    return [
        (clique, math.prod(told.sizes[column] for column in clique), math.sqrt(told.variance(clique)))
        for clique in counted.asked
    ]


def _of_rows(planned: Planned) -> MethodPlan[Any]:
    """What an entity's rows were measured by before entities were counted; steps of a series stay."""
    method = type(planned.spec.method).model_validate({**planned.spec.method.model_dump(), "count": "rows"})
    plan = planned.method.plan(planned.spec.model_copy(update={"method": method}), planned.domain)
    return replace(plan, steps=(*plan.steps, *declared_steps(planned.spec)))


def _measured_columns(measured: Measurement, domain: TableDomain) -> dict[str, MeasuredColumn]:
    """The noisy one-way shares, where the method bought one-way marginals."""
    if measured.kind not in (KIND, RESIDUALS):
        return {}
    total = noisy_total(measured)
    return {
        domain.names[clique[0]]: MeasuredColumn(np.asarray(noisy, dtype=float) / total, std / total)
        for clique, noisy, std in released_marginals(measured)
        if len(clique) == 1
    }

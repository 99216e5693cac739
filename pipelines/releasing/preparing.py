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
from understudy.pipelines.methods.base import Agreement, MethodPlan, NoiseLine
from understudy.pipelines.methods.tree.released import is_tree, released_tree
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.card.parts import MeasuredColumn
from understudy.pipelines.publishing.card.rendering import render_tables
from understudy.pipelines.publishing.lineage.contracts import contract_files
from understudy.pipelines.publishing.manifest import (
    AccountState,
    ColumnFitness,
    Manifest,
    ReleaseFile,
    TableFact,
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
from understudy.pipelines.publishing.measured_tree import tree_fact, tree_files
from understudy.pipelines.publishing.targets.base import PreparedRelease, release_id
from understudy.pipelines.releasing.approving import Approval, loss_without, settled, settled_charges
from understudy.pipelines.releasing.judging import verdict_of_measured
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.rolling import declared_steps
from understudy.pipelines.table.fitness import fitness_of
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree, tables_of

MUCH_UNLISTED = 0.02
"""Above this share of a discovered column's rows that are `other`, people are told."""


def prepare_release(
    synthetic: Made,
    measured: Measurement,
    agreements: list[Agreement],
    planned: Planned,
    approval: Approval,
    ledger: Ledger,
) -> PreparedRelease:
    """Manifest and card, from the ledger's own record of what was charged, not from what this run believes."""
    spec, drawn, tables = planned.spec, _as_drawn(planned, measured), tables_of(synthetic)
    names = [
        f"{name}.{column}" if name else column for name, one in tables.items() for column in one.parts.schema.names
    ]
    charges = [*settled(ledger, planned.bought), *settled_charges(ledger, approval)]
    balance = ledger.balance(spec.privacy.account)
    before = loss_without(ledger, spec.privacy.account, (*planned.bought, *approval.mids))
    loss = composed_loss([c.event for c in charges], float(spec.privacy.delta), spec.privacy.relation)
    files = _measured_files(measured, planned)
    known = {name: _measured_columns(measured, planned, name) for name in tables}
    verdict = verdict_of_measured(measured, planned)
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
        counted="entities" if counts_entities(measured) or is_tree(measured) else "rows",
        quality=quality_facts(qualities_of(measured, planned.domain)),
        unlisted=_unlisted(known.get("", {}), planned),
        left_out=tuple(name for name in planned.discovered if name not in names),
        rows=synthetic.rows,
        columns=tuple(names),
        tables=_table_facts(synthetic, planned),
        spec_hash=approval.requests[0].spec_hash,
        spec=public_spec(spec),
        versions=software_versions(),
        fitness=_fitness(planned),
        verdict=verdict_fact(verdict),
        measured=tree_fact(measured) if is_tree(measured) else measured_fact(files, measured),
    )
    shows = None if verdict is None else {pair.name: pair.stands_out for pair in verdict.pairs}
    card = render_tables(tables, known, manifest, agreements, before.epsilon, shows)
    rows, *more = (one.parts for one in tables.values())
    beside = (*files, *(contract_files(manifest, spec, planned.domain) if spec.tables is None else ()))
    return PreparedRelease(manifest, rows, card, measured=beside, more=tuple(more))


def _measured_files(measured: Measurement, planned: Planned) -> tuple[ReleaseFile, ...]:
    if is_tree(measured) and planned.spec.tree is not None:
        return tree_files(measured, planned.spec.tree, planned.domains)
    return measured_files(measured, planned.domain, planned.spec.privacy.protected_unit.max_rows)


def _table_facts(synthetic: Made, planned: Planned) -> tuple[TableFact, ...]:
    """Of several tables; nothing of one that is alone."""
    tree = planned.spec.tree
    if tree is None or not isinstance(synthetic, SyntheticTree):
        return ()
    return tuple(
        TableFact(
            name=table.name,
            rows=synthetic.tables[table.name].rows,
            columns=tuple(synthetic.tables[table.name].parts.schema.names),
            key=table.key,
            parent=table.parent,
            by=table.by,
            max_rows=table.max_rows if table.parent is not None else None,
        )
        for table in tree.tables
    )


def _fitness(planned: Planned) -> tuple[ColumnFitness, ...]:
    """What each column is good for; of several tables they are called by their table."""
    if planned.spec.tables is None:
        return tuple(ColumnFitness(**vars(one)) for one in fitness_of(planned.spec, planned.domain))
    return tuple(
        ColumnFitness(**{**vars(one), "column": f"{name}.{one.column}"})
        for name, domain in planned.domains.items()
        for one in fitness_of(planned.spec.table(name), domain)
    )


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
    if is_tree(measured):
        return plan
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


def _measured_columns(measured: Measurement, planned: Planned, name: str) -> dict[str, MeasuredColumn]:
    """The noisy one-way shares, where the method bought one-way marginals; of several tables, those of the root: rows
    below it were weighed, and their shares are not those of the rows that are shown."""
    domain = planned.domain
    if is_tree(measured):
        return (
            _of_root(measured, planned) if planned.spec.tree is not None and name == planned.spec.tree.root.name else {}
        )
    if measured.kind not in (KIND, RESIDUALS):
        return {}
    total = noisy_total(measured)
    return {
        domain.names[clique[0]]: MeasuredColumn(np.asarray(noisy, dtype=float) / total, std / total)
        for clique, noisy, std in released_marginals(measured)
        if len(clique) == 1
    }


def _of_root(measured: Measurement, planned: Planned) -> dict[str, MeasuredColumn]:
    root = released_tree(measured).views[0]
    total = max(1.0, root.residuals.total)
    return {
        planned.domains[column.table].names[column.column]: MeasuredColumn(
            root.residuals.marginal((place,)) / total, math.sqrt(root.residuals.variance((place,))) / total
        )
        for place, column in enumerate(root.view.columns)
        if column.role == "own"
    }

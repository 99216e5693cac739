"""`understudy generate`: further synthetic tables from a measurement that is paid for. Spends nothing, reads no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from understudy.cli.environment import prepare
from understudy.pipelines.errors import SpecError, ValidationFailed
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.ledger import Charge, ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.targets.base import Published, open_target
from understudy.pipelines.releasing.approving import Approval
from understudy.pipelines.releasing.rolling import charged_to
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain


def generate_from(
    measurement: str, method: str | None, rows: int | None, to: Path, options: dict[str, Any]
) -> Published:
    """Generate, check and publish as a release would, from the stored measurement alone."""
    workspace = Workspace.from_environment()
    ledger = Ledger(workspace.ledger_url)
    charge = _charge_of(measurement, ledger)
    measured = MeasurementStore(workspace.measurements).load(charge.mid, charge.measurement_sha256 or "")
    spec = _remembered_spec(measured, charge, method, rows, to, options)
    prepare(workspace)
    from understudy.tasks.publish import prepare as prepare_release
    from understudy.tasks.validate import failures_of

    domain, chosen = TableDomain.of(spec), method_named(spec.method.name)
    synthetic = chosen.generate(measured, spec, domain, rows, lambda done, steps, note: None)
    agreements, failures = failures_of(synthetic, measured, spec)
    if failures:
        raise ValidationFailed(
            f"the table breaks its contract: {'; '.join(failures)}", "nothing was written; run again"
        )
    approval = _approval_of(charge, ledger)
    release = prepare_release(synthetic, measured, agreements, spec, chosen.plan(spec, domain), approval)
    published = open_target(spec, Path()).publish(release)
    click.echo(
        f"spent      nothing: {charge.stage} of {charge.release}, snapshot {charge.snapshot}, was paid for before"
    )
    click.echo(f"published  {synthetic.num_rows:,} rows x {synthetic.num_columns} columns")
    click.echo(f"where      {published.location}")
    return published


def _charge_of(measurement: str, ledger: Ledger) -> Charge:
    """A measurement is named by its directory, or by the first digits of its charge's id."""
    wanted = Path(measurement).name if Path(measurement).is_dir() else measurement
    charges = [c for account in ledger.accounts() for c in ledger.charges(account.name)]
    matches = [charge for charge in charges if wanted and charge.mid.startswith(wanted)]
    if len(matches) != 1 or matches[0].measurement_sha256 is None:
        raise SpecError(
            f"{measurement!r} names no stored measurement of {ledger.where}",
            "give its directory, or the id that `understudy ledger history ACCOUNT` shows for a measured charge",
        )
    return matches[0]


def _remembered_spec(
    measured: Measurement, charge: Charge, method: str | None, rows: int | None, to: Path, options: dict[str, Any]
) -> ReleaseSpec:
    """The spec the measurement was bought for, with new `generate` and `publish` parts."""
    if "spec" not in measured.facts:
        raise SpecError(f"{charge.stage!r} alone is no complete measurement", "name one whose charge bought everything")
    stored = dict(measured.facts["spec"])
    if method is not None and method != stored["method"]["name"]:
        raise SpecError(
            f"a measurement of {stored['method']['name']} cannot feed the method {method}", "leave --method out"
        )
    stored["columns"] = dict(stored["columns"])
    stored["source"] = {**stored["source"], "uri": "measurement"}
    stored["generate"] = {
        **stored.get("generate", {}),
        **{key: value for key, value in options.items() if value is not None},
    }
    # A period's account is no name that a spec may give, so the spec is read with its parent's and then charged to it.
    stored["privacy"] = {**stored["privacy"], "account": parent_of(stored["privacy"]["account"])}
    spec = ReleaseSpec.model_validate({**stored, "publish": {"to": str(to.absolute()), "rows": rows}})
    return charged_to(spec, charge.account)


def _approval_of(charge: Charge, ledger: Ledger) -> Approval:
    account = ledger.account(charge.account)
    request = ChargeRequest(
        account=charge.account,
        relation=account.relation,
        unit=account.unit,
        release=charge.release,
        spec_hash=charge.spec_hash,
        snapshot=charge.snapshot,
        stage=charge.stage,
        event=charge.event,
        attempt=charge.attempt,
    )
    return Approval((request,), ledger.balance(charge.account).spent)

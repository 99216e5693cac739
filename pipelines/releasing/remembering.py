"""A release from its stored measurement alone: what was bought, the spec it was bought for, the charge that paid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.pipelines.discovery.asking import STAGES
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Charge, ChargeRequest, Ledger, State
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.approving import Approval
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.releasing.rolling import charged_to
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.public import REMEMBERED


@dataclass(frozen=True)
class Remembered:
    """All that a further table needs: the plan it follows, what was measured, and what paid for it."""

    charge: Charge
    measured: Measurement
    planned: Planned
    approval: Approval


def remember(
    measurement: str, method: str | None, rows: int | None, to: Path, options: dict[str, Any], books: Books
) -> Remembered:
    """The release of a measurement that is named by its directory, or by the first digits of its charge's id."""
    charge = _charge_of(measurement, books.ledger)
    measured = books.store.load(charge.mid, charge.measurement_sha256 or "")
    planned = plan_release(_remembered_spec(measured, charge, method, rows, to, options))
    if planned.spec.privacy.discovery is not None:  # then this release bought its own domain
        planned.bought = _bought_with(charge, books.ledger)
    return Remembered(charge, measured, planned, _approval_of(charge, books.ledger))


def _bought_with(charge: Charge, ledger: Ledger) -> tuple[str, ...]:
    """The charges of what the same release discovered."""
    made = ledger.charges_of(parent_of(charge.account), charge.release, charge.snapshot)
    return tuple(each.mid for each in made if each.stage in STAGES and each.state is State.MEASURED)


def _charge_of(measurement: str, ledger: Ledger) -> Charge:
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
    if "tables" in stored:
        named = ((name, {**each, "columns": dict(each["columns"])}) for name, each in stored["tables"])
        stored["tables"] = {name: each | {"source": {}} for name, each in named}
    stored["generate"] = {
        **stored.get("generate", {}),
        **{key: value for key, value in options.items() if value is not None},
    }
    # A period's account is no name that a spec may give, so the spec is read with its parent's and then charged to it.
    stored["privacy"] = {**stored["privacy"], "account": parent_of(stored["privacy"]["account"])}
    stored["publish"] = {"to": str(to.absolute()), "rows": rows}
    spec = ReleaseSpec.model_validate(stored, context=REMEMBERED)
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

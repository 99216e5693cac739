"""Periods by command line and flow, with the real ledger: what is refused, charged and said to be spent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from understudy.pipelines.privacy.accounting import composed_loss

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
DISJOINT = ("publish:", "rolling: {period: month, entities: disjoint, column: visited_on}\npublish:")


def named(snapshot: str) -> tuple[str, str]:
    return ('"2026-10"', f'"{snapshot}"')


def everything_charged(place: Clinic) -> list[Any]:
    return [charge for account in place.ledger.accounts() for charge in place.ledger.charges(account.name)]


def test_31_days_of_a_month_are_not_31_periods(clinic: Clinic, run: Run) -> None:  # noqa: F811
    """On 7b5a274 all 31 were measured and the ledger said 1.0. Here 31 are refused: each is a day, and none a month."""
    for day in range(1, 32):
        clinic.write(DISJOINT, named(f"2026-10-{day:02d}"))
        refused = run("release", clinic.spec)
        assert refused.exit_code == 2
        assert "names no month" in refused.output
        assert '"2026-10"' in refused.output
    assert run("plan", clinic.spec).exit_code == 2
    assert run("plan", clinic.spec, "--json").exit_code == 2
    assert everything_charged(clinic) == []
    assert [account.name for account in clinic.ledger.accounts()] == ["clinic"]
    assert not list((clinic.home / "measurements").glob("*"))


def test_october_is_measured_once_and_what_was_spent_is_said(clinic: Clinic, run: Run) -> None:  # noqa: F811
    clinic.write(DISJOINT)
    plan = run("plan", clinic.spec).output
    assert "clinic pays for the series once" in plan
    assert "only rows whose visited_on lies in 2026-10 are read" in plan
    first = run("release", clinic.spec)
    assert first.exit_code == 0, first.output
    [period] = [account.name for account in clinic.ledger.accounts() if account.name.endswith("@2026-10")]
    [charge] = clinic.ledger.charges(period)
    loss = composed_loss([charge.event], 1e-6, clinic.ledger.account("clinic").relation)
    cost = f"spent      epsilon {loss.epsilon:.4f} at delta 1e-06 ({loss.accountant}), charged to"
    spent = [line for line in first.output.splitlines() if line.startswith("spent")]
    assert spent == [
        f"{cost} {period}, which clinic paid for; drawn: marginals",
        f"{cost} clinic for every period of its series; nothing drawn",
    ]
    manifest = json.loads((clinic.releases[-1] / "manifest.json").read_text())
    assert manifest["account"]["name"] == period
    assert "only rows whose visited_on lies in 2026-10 are read" in manifest["steps"]

    again = run("release", clinic.spec).output
    assert f"spent      nothing: this snapshot was measured and paid for before, by {period}" in again
    assert "paid for already" in run("plan", clinic.spec).output

    # Further tables come from the stored measurement, by the account that was charged.
    more = run("generate", "--from", charge.mid, "--to", clinic.folder / "more", "--rows", 50, "--epochs", 1)
    assert more.exit_code == 0, more.output
    [further] = [p for p in clinic.folder.glob("more/clinic-visits/*/manifest.json") if p.parent.name != "latest"]
    assert json.loads(further.read_text())["account"]["name"] == period
    assert run("recertify", further.parent).exit_code == 0

    with duckdb.connect(clinic.folder / "clinic.duckdb") as connection:
        connection.execute("CREATE TABLE corrected AS SELECT * FROM visits")
    before = everything_charged(clinic)
    clinic.write(DISJOINT, ("table: visits", "table: corrected"))
    for command in ("plan", "release"):
        refused = run(command, clinic.spec)
        assert refused.exit_code == 2
        assert "measured before for this disjoint series" in refused.output
    clinic.write(DISJOINT, ("table: visits", "table: corrected"), named("2026-10-corrected"))
    assert run("release", clinic.spec).exit_code == 2
    assert everything_charged(clinic) == before

    clinic.write(DISJOINT, named("2026-09"))
    assert "costs clinic nothing more" in run("plan", clinic.spec).output
    [september] = [line for line in run("release", clinic.spec).output.splitlines() if line.startswith("spent")]
    assert "@2026-09, which clinic paid for; drawn: marginals" in september
    assert len(clinic.charges) == 1
    assert run("recertify", *clinic.releases).exit_code == 0


def test_the_prefect_artifact_names_who_paid(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    import understudy.tasks.telling.events as events
    import understudy.tasks.telling.reporting as reporting

    told: list[str] = []
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(reporting, "create_markdown_artifact", lambda text, **_: told.append(text))
    monkeypatch.setattr(events, "emit_event", lambda **event: seen.append(event))
    clinic.write(DISJOINT)
    assert run("release", clinic.spec).exit_code == 0
    [period] = [account.name for account in clinic.ledger.accounts() if account.name.endswith("@2026-10")]
    [spend] = [text for text in told if "Privacy spend" in text]
    assert f"charged to {period}, which clinic paid for; drawn: marginals" in spend
    assert f"| {period} |" in spend
    assert "| clinic |" in spend
    charged = [e["resource"]["prefect.resource.id"] for e in seen if e["event"] == "understudy.charge.charged"]
    assert charged == ["understudy.account.clinic", f"understudy.account.{period}"]

"""Domains bought once: charged like any measurement, remembered for the account and table, reused for nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from understudy import Synthesizer
from understudy.cli.releasing import tell_alarms
from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, SpecError
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE
from understudy.pipelines.publishing.stored import read_directory
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.discovering import before_buying
from understudy.pipelines.releasing.recertifying import recertify_release
from understudy.pipelines.spec.reading import spec_of

ROWS = 30_000
OPEN: dict[str, Any] = {
    "ward": {"type": "category", "values": "discover"},
    "age": {"type": "discover"},
    "paid": {"type": "number", "min": "discover", "max": "discover", "bins": "auto", "spikes": "discover"},
    "visited": {"type": "discover"},
}


def table(seed: int = 1, new_ward: bool = False) -> pa.Table:
    rng = np.random.default_rng(seed)
    wards = rng.choice(["A", "B", "C"], ROWS, p=[0.6, 0.3, 0.1]).astype(object)
    if new_ward:
        wards[: ROWS // 8] = "Z"
    wards[0] = "only Alice"
    days = np.datetime64("2024-01-01") + rng.integers(0, 700, ROWS)
    return pa.table({
        "ward": [f" {ward}" for ward in wards],
        "age": [str(age) for age in rng.integers(18, 65, ROWS)],
        "paid": np.where(rng.random(ROWS) < 0.5, 9.99, np.round(rng.gamma(2, 40, ROWS), 2)),
        "visited": [str(day) for day in days],
        "patient": np.arange(ROWS) // 3,
    })  # fmt: skip


def spec(snapshot: str = "2026-01", columns: dict[str, Any] | None = None, **privacy: Any) -> dict[str, Any]:
    return {
        "name": "visits",
        "snapshot": snapshot,
        "privacy": {"account": "clinic", "epsilon": 2, "delta": 1e-6, **privacy},
        "columns": columns or OPEN,
        "generate": {"epochs": 2, "particles": 500},
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Synthesizer, Path]:
    home = tmp_path_factory.mktemp("home")
    return Synthesizer(spec(), cap=(10, 1e-6), home=home).fit(table()), home


def test_what_is_found_is_what_many_share_and_where_numbers_lie(first: tuple[Synthesizer, Path]) -> None:
    columns: dict[str, Any] = dict(first[0].known_spec.columns)
    assert columns["ward"].values == ("A", "B", "C")
    assert columns["ward"].other
    assert columns["age"].type == "integer"
    assert 10 <= columns["age"].min <= 18
    assert 64 <= columns["age"].max <= 96  # half an octave wider at most
    assert columns["paid"].type == "number"
    assert columns["paid"].spikes == (9.99,)
    assert columns["paid"].min <= 10
    assert 150 < columns["paid"].max < 1500
    assert columns["visited"].type == "date"
    assert columns["visited"].min.year in (2023, 2024)
    assert columns["visited"].max.year in (2025, 2026)


def test_a_release_names_all_its_charges_and_they_are_within_its_budget(first: tuple[Synthesizer, Path]) -> None:
    release = first[0].release()
    stages = [charged.stage for charged in release.manifest.guarantee.events]
    assert stages == ["discover", "discover further", "marginals"]
    assert 1.99 < release.manifest.guarantee.epsilon <= 2
    assert release.manifest.guarantee.delta == 1e-6
    assert "bought by this release" in release.manifest.steps[0]
    assert set(release.table["ward"].to_pylist()) <= {"A", "B", "C", "other"}
    assert [stage for payment in first[0].spent for stage in payment.drawn] == stages


def test_a_published_release_that_bought_its_domain_verifies(first: tuple[Synthesizer, Path], tmp_path: Path) -> None:
    place = first[0].release().save(tmp_path / "out")
    books = first[0]._open()
    certificate = recertify_release(place, books.ledger, books.store)
    assert certificate.holds, [finding for finding in certificate.findings if not finding.holds]


def test_a_later_snapshot_reuses_it_for_nothing_with_the_same_codes(first: tuple[Synthesizer, Path]) -> None:
    synthesizer, home = first
    later = Synthesizer(spec("2026-02"), home=home).fit(table(2, new_ward=True))
    assert [stage for payment in later.spent for stage in payment.drawn] == ["marginals"]
    assert later.known_spec.columns == synthesizer.known_spec.columns
    assert later.known_spec.privacy.budget == spec_of_mapping().privacy.budget  # all of it: nothing was set aside
    release = later.release()
    (unlisted,) = release.manifest.unlisted
    assert unlisted.column == "ward"
    assert unlisted.share == pytest.approx(1 / 8, abs=0.02)
    assert "Values that were not found" in release.card
    assert "reused for nothing" in release.manifest.steps[0]
    assert not synthesizer.release().manifest.unlisted


def spec_of_mapping() -> Any:
    tree = spec()
    return spec_of({**{k: v for k, v in tree.items() if k != "snapshot"}, "source": {"uri": "m", "snapshot": "s"},
                    "publish": {"to": "o"}})  # fmt: skip


def test_fitting_the_snapshot_again_spends_nothing_whatever_was_bought_since(tmp_path: Path) -> None:
    once = Synthesizer(spec(), cap=(20, 1e-6), home=tmp_path).fit(table())
    anew = Synthesizer(spec("2026-02"), home=tmp_path).fit(table(2, new_ward=True), rediscover=True)
    drawn = [stage for payment in anew.spent for stage in payment.drawn]
    assert drawn[0] == "discover"
    assert "Z" in dict(anew.known_spec.columns)["ward"].values  # type: ignore[union-attr]
    again = Synthesizer(spec(), home=tmp_path).fit(table(3))
    assert again.reused
    assert not again.spent
    assert again.known_spec == once.known_spec
    third = Synthesizer(spec("2026-03"), home=tmp_path).fit(table(3))
    assert dict(third.known_spec.columns)["ward"] == dict(anew.known_spec.columns)["ward"]


def test_a_column_that_is_added_is_bought_alone(tmp_path: Path) -> None:
    ward = {"ward": OPEN["ward"]}
    Synthesizer(spec(columns=ward), cap=(20, 1e-6), home=tmp_path).fit(table())
    more = Synthesizer(spec("2026-02", columns={**ward, "age": OPEN["age"]}), home=tmp_path).fit(table())
    bought = [charge for payment in more.spent for charge in payment.charges if charge.stage == "discover"]
    facts = more._open().store.load(bought[0].mid, bought[0].measurement_sha256 or "").facts
    assert [name for name, _ in facts["columns"]] == ["age"]


def test_an_account_that_set_no_delta_aside_refuses_before_a_row_is_read(tmp_path: Path) -> None:
    closed = {"ward": {"type": "category", "values": ["A"], "other": True}}
    Synthesizer(spec(columns=closed), cap=(10, 1e-6), home=tmp_path).fit(table())
    with pytest.raises(SpecError, match="set none aside"):
        Synthesizer(spec("2026-02"), home=tmp_path).fit(None)  # no table is looked at


def test_a_cap_that_pays_for_the_domain_but_not_for_the_release_pays_for_neither(tmp_path: Path) -> None:
    poor = Synthesizer(spec(), cap=("1.5", 1e-6), home=tmp_path)
    with pytest.raises(BudgetRefused):
        poor.fit(None)
    assert not poor._open().ledger.charges("clinic")


def test_entities_are_bounded_and_protected_as_a_whole(tmp_path: Path) -> None:
    unit = {"entity": "patient", "max_rows": 2}
    found = Synthesizer(spec(unit=unit), cap=(10, 1e-6), home=tmp_path).fit(table())
    columns: dict[str, Any] = dict(found.known_spec.columns)
    assert columns["ward"].values[:2] == ("A", "B")
    assert columns["age"].type == "integer"


@pytest.mark.parametrize("point", ["after_t1", "after_draw"])
def test_killed_between_charge_and_store_it_is_burnt_and_paid_again_only_on_request(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Synthesizer(spec(columns={"ward": OPEN["ward"]}), cap=(10, 1e-6), home=tmp_path)
    monkeypatch.setenv(VARIABLE, f"{point}:raise")
    with pytest.raises(ChargeBurnt):
        one.fit(table())
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(ChargeBurnt):
        one.fit(table())
    again = one.fit(table(), pay_again=True)
    assert dict(again.known_spec.columns)["ward"].values == ("A", "B", "C")  # type: ignore[union-attr]
    states = [(charge.stage, charge.state.value) for charge in one._open().ledger.charges("clinic")]
    assert states[:2] == [("discover", "BURNT"), ("discover", "MEASURED")]


def test_a_run_that_died_between_the_rounds_goes_on_with_the_second(tmp_path: Path) -> None:
    """The first round is found and not drawn again."""
    whole = Synthesizer(spec(), cap=(20, 1e-6), home=tmp_path / "whole").fit(table())
    assert [charge.stage for charge in whole._open().ledger.charges("clinic")][:2] == ["discover", "discover further"]
    dies = Synthesizer(spec(), cap=(20, 1e-6), home=tmp_path / "dies")
    books = dies._open()
    charged = books.ledger.charge
    calls: list[str] = []

    def second_is_refused(request: Any, *rest: Any) -> Any:
        calls.append(request.stage)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return charged(request, *rest)

    books.ledger.charge = second_is_refused  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        dies.fit(table())
    books.ledger.charge = charged  # type: ignore[method-assign]
    dies.fit(table())
    stages = [charge.stage for charge in books.ledger.charges("clinic")]
    assert stages == ["discover", "discover further", "marginals"]


def test_the_plan_tells_the_price_before_it_is_paid(first: tuple[Synthesizer, Path]) -> None:
    plan = before_buying(spec_of_mapping(), Books.open(Synthesizer(spec(), home=first[1] / "new")._workspace)).plan
    assert [charge.stage for charge in plan.charges] == ["discover", "discover further", "marginals"]
    assert "buy once what 4 columns can hold: epsilon 0." in plan.steps[0]


def test_disjoint_periods_cannot_buy_for_each_other(tmp_path: Path) -> None:
    rolling = {**spec(), "rolling": {"period": "month", "entities": "disjoint", "column": "visited"}}
    with pytest.raises(SpecError, match="disjoint series"):
        Synthesizer(rolling, cap=(10, 1e-6), home=tmp_path).fit(None)


def test_a_method_whose_events_do_not_add_up_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    opendp = spec(noise="opendp")
    with pytest.raises(SpecError, match="together would cost"):
        Synthesizer(opendp, cap=(10, 1e-6), home=tmp_path).fit(None)


def test_nothing_is_set_aside_where_nothing_is_left_open(tmp_path: Path) -> None:
    closed = {"ward": {"type": "category", "values": ["A", "B", "C"], "other": True, "trim": True}}
    whole = Synthesizer(spec(columns=closed, discovery=0.5), cap=(10, 1e-6), home=tmp_path).fit(table())
    assert whole.release().manifest.guarantee.epsilon > 1.99


def test_bins_are_sized_by_the_noise_and_a_number_of_units_that_is_bought(tmp_path: Path) -> None:
    sized = {"age": {"type": "integer", "min": 0, "max": 119, "bins": "auto"}, "ward": OPEN["ward"]}
    many = Synthesizer(spec(columns=sized), cap=(10, 1e-6), home=tmp_path / "a").fit(table())
    few = Synthesizer(spec(columns=sized, epsilon="0.1"), cap=(10, 1e-6), home=tmp_path / "b").fit(table())
    bins = [dict(one.known_spec.columns)["age"].bins for one in (many, few)]  # type: ignore[union-attr]
    assert bins[0] > bins[1] >= 6
    assert (many.known_spec.columns["age"].min, many.known_spec.columns["age"].max) == (0, 119)  # type: ignore[union-attr]


def test_columns_of_which_nothing_was_found_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = table().append_column("note", pa.array([f"note {row}" for row in range(ROWS)]))
    given = spec(columns={"ward": OPEN["ward"], "note": {"type": "discover"}})
    release = Synthesizer(given, cap=(10, 1e-6), home=tmp_path / "home").fit(rows).release()
    assert release.manifest.left_out == ("note",)
    published = read_directory(str(release.save(tmp_path / "out")))
    assert "Columns that are missing" in (tmp_path / "out" / "visits" / "latest" / "card.html").read_text()
    tell_alarms(published)
    assert "note is not in the copy" in capsys.readouterr().out


def test_a_release_of_which_nothing_was_found_says_so_and_pays_once(tmp_path: Path) -> None:
    """It had ended in the words of a library."""
    rows = pa.table({"note": [f"note {row}" for row in range(200)]})
    given = spec(columns={"note": {"type": "category", "values": "discover"}})
    synthesizer = Synthesizer(given, cap=(10, 1e-6), home=tmp_path)
    for _ in range(2):
        with pytest.raises(SpecError, match=r"nothing of note stands above the noise.*\n.*what was bought stays"):
            synthesizer.fit(rows)
    books = synthesizer._open()
    assert [charge.stage for charge in books.ledger.charges("clinic")] == ["discover", "discover further"]

"""A spec that leaves everything open, by the commands: plan, release, the month after, and what a kill costs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.discovery.tallied import same
from tests.flows.conftest import Clinic
from understudy.pipelines.discovery.mechanism import DiscoveryNoise, Sums
from understudy.pipelines.discovery.observing import Looking
from understudy.pipelines.discovery.tally import COARSE, VALUES, Asked
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE
from understudy.pipelines.privacy.ledger.ledger import State
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.memory import ArrowSource

Run = Callable[..., Result]
DISCOVERING, REUSING = "discovering what columns hold", "reusing what columns hold: nothing is spent on it"
SPEC = """
name: people
source: {uri: people.csv, snapshot: "2026-01"}
privacy: {account: people, epsilon: 2, delta: 1e-6, quality: 0.02}
columns:
  ward: {type: discover}
  age: {type: discover}
generate: {epochs: 2, particles: 400, device: cpu}
publish: {to: releases}
"""


@pytest.fixture
def people(clinic: Clinic, run: Run) -> Path:
    """A CSV file, its spec, and an account that has set a part of delta aside."""
    rng = np.random.default_rng(3)
    _write(clinic.folder / "people.csv", rng.choice(["A", "B"], 8000), rng.integers(20, 60, 8000))
    spec = clinic.folder / "people.yaml"
    spec.write_text(SPEC)
    opened = run("ledger", "open", "people", "--epsilon", 9, "--delta", "1e-6", "--own-delta", "5e-7")
    assert opened.exit_code == 0, opened.output
    return spec


def _write(path: Path, wards: np.ndarray, ages: np.ndarray) -> None:
    rows = [f"{ward},{age}\n" for ward, age in zip(wards, ages, strict=True)]
    path.write_text("ward,age\n" + "".join(rows))


def test_bought_by_the_first_release_and_reused_by_the_next(people: Path, run: Run) -> None:
    planned = run("plan", people).output
    assert "buy once what 2 columns can hold" in planned
    assert "discover further" in planned
    first = run("release", people)
    assert first.exit_code == 0, first.output
    assert "drawn: discover, discover further, marginals" in first.output
    told = [line.split("s  ", 1)[-1] for line in first.stderr.splitlines()]
    at = next(place for place, line in enumerate(told) if line.startswith(DISCOVERING))
    assert told[at + 1].startswith("planning")  # what takes the time is what is told, until it is done
    assert "nothing was spent on it" not in first.output
    compared = run("compare", people, people.parent / "releases" / "people")
    assert compared.exit_code == 0, compared.output
    again = run("release", people)
    assert again.output.count("spent      nothing") == 1
    assert DISCOVERING not in again.stderr
    assert "paid for already" in run("plan", people).output
    rng = np.random.default_rng(4)
    _write(people.parent / "people.csv", rng.choice(["A", "B", "New"], 8000), rng.integers(20, 60, 8000))
    people.write_text(SPEC.replace("2026-01", "2026-02"))
    assert "reused for nothing" in run("plan", people).output
    second = run("release", people)
    assert "drawn: marginals" in second.output
    assert DISCOVERING not in second.stderr
    assert REUSING in second.stderr
    assert "domain     what columns hold, as bought by people 2026-01: nothing was spent on it" in second.output
    assert "of ward is `other`, values that were not found" in second.output
    (release,) = (path for path in people.parent.glob("releases/people/2026-01*/manifest.json"))
    assert run("recertify", release.parent).exit_code == 0


def test_where_nothing_is_open_nothing_is_said_of_it(people: Path, run: Run) -> None:
    closed = SPEC.replace("ward: {type: discover}", "ward: {type: category, values: [A, B]}")
    people.write_text(closed.replace("age: {type: discover}", "age: {type: integer, min: 20, max: 60}"))
    released = run("release", people)
    assert released.exit_code == 0, released.output
    assert "what columns hold" not in released.output + released.stderr


def test_dask_sums_up_what_columns_hold_and_the_same_is_drawn_from(
    people: Path, run: Run, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Client

    from understudy.tasks.engines.dask_discovery import tally_part

    parts = clinic.folder / "people"
    parts.mkdir()
    whole = pacsv.read_csv(clinic.folder / "people.csv")
    for i in range(3):
        pq.write_table(whole.slice(i * 3000, 3000), parts / f"{i}.parquet")
    drawn: list[tuple[DiscoveryNoise, dict[str, Sums]]] = []
    draw = DiscoveryNoise.draw

    def noted(noise: DiscoveryNoise, sums: dict[str, Sums], randomness: Any) -> Any:
        drawn.append((noise, sums))
        return draw(noise, sums, randomness)

    engines: list[Any] = []
    mapped = Client.map
    monkeypatch.setattr(DiscoveryNoise, "draw", noted)
    monkeypatch.setattr(Client, "map", lambda self, work, *rest, **more: (
        engines.append(work) or mapped(self, work, *rest, **more)))  # fmt: skip
    people.write_text(SPEC.replace("people.csv", "people") + "compute: {engine: dask}\n")
    released = run("release", people)
    assert released.exit_code == 0, released.output
    assert tally_part in engines
    asked = [Asked(Looking(name, None), (VALUES, COARSE)) for name in ("ward", "age")]
    assert same(drawn[0][1], tally_table(ArrowSource(whole), asked, Unit(), b"any"))


def test_a_kill_after_discovery_loses_nothing_of_it(
    people: Path, run: Run, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "after_discover:raise")
    assert run("release", people).exit_code != 0
    monkeypatch.delenv(VARIABLE)
    assert run("release", people).exit_code == 0
    charges = clinic.ledger.charges("people")
    assert [charge.stage for charge in charges] == ["discover", "discover further", "marginals"]
    assert all(charge.state is State.MEASURED for charge in charges)


def test_resuming_never_buys(people: Path, run: Run, clinic: Clinic) -> None:
    refused = run("release", people, "--resume")
    assert refused.exit_code == 2
    assert "nothing to resume" in refused.output
    assert not clinic.ledger.charges("people")

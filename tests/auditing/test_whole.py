"""Whole releases of neighbours through the Python door: ledger, store, generation, checks, manifest, published files.

The second release is handed what the first one's draws gave, at the very place where the door draws. From there on
everything is post-processing, and generators that nobody seeds are seeded alike: so whatever else differs between the
two, in any file, row, message or exit, was told by the private table itself. Runs that fail somewhere and are tried
again, domains that are bought first, stages that quote what they were given, and mechanisms that draw something else
than is charged go the same way.
"""

from __future__ import annotations

import io
import logging
import random
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import understudy
from tests.auditing.sizes import done, pairs
from tests.methods.test_door import nudged
from understudy.pipelines.auditing.cases import OPEN, open_case, planned_case
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.values import Tables
from understudy.pipelines.auditing.words import same_copies
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.methods.privpgd import listed
from understudy.pipelines.privacy.ledger.fault_points import PROTOCOL_POINTS, VARIABLE
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.sources.memory import ArrowPart
from understudy.pipelines.spec.model import ReleaseSpec

Release = Callable[[ReleaseSpec, Tables, Path, "Door"], Any]
VOLATILE = ("created_at", "history_head", "measurement_sha256")
SMALL = {"epochs": 2, "particles": 200, "device": "cpu", "training_steps": 3}


@dataclass(frozen=True)
class Seen:
    """All that an onlooker has of a release, without clocks, keys and the hashes of what holds them."""

    ended: str
    charges: tuple[Any, ...]
    history: tuple[str, ...]
    files: tuple[str, ...]
    manifest: Any
    tables: Any
    said: str
    draws: tuple[tuple[str, str], ...]


def spec_of(case: str) -> ReleaseSpec:
    spec = open_case(case, "10") if case in OPEN else planned_case(case).spec
    return spec.model_copy(update={"generate": spec.generate.model_copy(update=SMALL)})


WHOLE = ("privpgd, people", "privpgd, replaced", "gaussian", "gaussian, sampling noise", "kernel", "mixing",
         "tree, in order", *OPEN)  # fmt: skip


class Door:
    """Draws for the first release and remembers; hands the second one what the first was given, in the same order."""

    def __init__(self) -> None:
        self.drawn: list[Measurement] = []
        self.given: list[tuple[str, str]] = []
        self.replays = False
        self._place = 0
        self._draw = Mechanism.draw

    def again(self) -> Door:
        self.replays, self._place, self.given = True, 0, []
        return self

    def __call__(self, mechanism: Mechanism[Any], randomness: Any) -> Measurement:
        self.given.append((mechanism.kind, repr(mechanism.event)))
        if not self.replays:
            self.drawn.append(self._draw(mechanism, randomness))
        self._place += 1
        assert self._place <= len(self.drawn), "the neighbour is drawn for once more"
        return Measurement(mechanism.kind, mechanism.facts, self.drawn[self._place - 1].arrays)


def released(spec: ReleaseSpec, table: Tables, folder: Path, door: Door, pay_again: bool = False) -> Seen:
    home, place = folder / "home", folder / "out"
    ended, release, said, log = "published", None, io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said), same_copies(7):
        patch.setattr(Mechanism, "draw", lambda mechanism, randomness: door(mechanism, randomness))
        try:
            synthesizer = understudy.Synthesizer(spec, cap=("60", "1e-5"), home=home)
            release = synthesizer.fit(table, pay_again=pay_again).release()
            release.save(place)
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
    logging.getLogger().removeHandler(handler)
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    known = any(account.name == "audit" for account in ledger.accounts())
    return Seen(
        ended=_without_names(ended, folder),
        charges=tuple((c.stage, c.event, c.state, c.mid, c.attempt) for c in ledger.charges("audit")) if known else (),
        history=tuple(entry.action for entry in ledger.history("audit")) if known else (),
        files=tuple(re.sub(r"[0-9a-f]{16,}", "#", file) for file in files),
        manifest=None if release is None else stripped(release.manifest.model_dump(mode="json")),
        tables=None if release is None else release.tables,
        said=_without_names(said.getvalue() + log.getvalue(), folder),
        draws=tuple(door.given),
    )


def _without_names(text: str, folder: Path) -> str:
    """Without the folder, the process and the minute, which are told anyway."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?", "<when>", text.replace(str(folder), "<folder>"))
    return re.sub(r"[0-9a-f]{12,}", "#", text)


def stripped(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: stripped(value) for key, value in tree.items() if key not in VOLATILE}
    return [stripped(each) for each in tree] if isinstance(tree, list) else tree


def both(spec: ReleaseSpec, rng: random.Random, release: Release = released) -> tuple[Any, Any]:
    pair, door = made_pair(spec, rng), Door()
    with TemporaryDirectory() as name:
        folders = Path(name) / "one", Path(name) / "two"
        for folder in folders:
            folder.mkdir()
        first = release(spec, pair.table, folders[0], door)
        return first, release(spec, pair.neighbour, folders[1], door.again())


@pytest.mark.parametrize(
    "case",
    [
        "privpgd, people",
        "privpgd, replaced",
        "gaussian",
        "gaussian, sampling noise",
        "kernel",
        "mixing",
        "tree, in order",
        *OPEN,
    ],
)
@settings(max_examples=pairs(3), deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True))
def test_nothing_of_a_whole_release_tells_its_table_from_a_neighbour(case: str, rng: random.Random) -> None:
    one, other = both(spec_of(case), rng)
    assert one == other
    assert one.charges
    done("whole releases")


@pytest.mark.parametrize("case", ["privpgd, people", "gaussian", "tree", "discovery"])
@settings(max_examples=pairs(4), deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True), point=st.sampled_from(PROTOCOL_POINTS))
@example(rng=random.Random(1), point="after_t2")
def test_nor_do_runs_that_fail_and_are_tried_again(case: str, rng: random.Random, point: str) -> None:
    """A run that stops at any point of the protocol, the same run again, and again paid for once more."""

    def thrice(spec: ReleaseSpec, table: Tables, folder: Path, door: Door) -> list[Seen]:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv(VARIABLE, f"{point}:raise")
            runs = [released(spec, table, folder, door)]
        return [*runs, released(spec, table, folder, door), released(spec, table, folder, door, pay_again=True)]

    one, other = both(spec_of(case), rng, thrice)
    assert one == other
    assert one[0].ended != "published"
    assert one[2].ended == "published"
    assert len(one[2].draws) <= len(one[2].charges), "drawn more often than was charged"
    done("resumed and retried")


QUOTED = (
    (LocalTable, "counts"),
    (LocalTable, "numbers"),
    (ArrowPart, "read"),
    (MeasurementStore, "save"),
    (Mechanism, "draw"),
)


@settings(max_examples=pairs(8), deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True))
def test_nor_does_a_stage_that_fails_and_quotes_what_it_was_given(rng: random.Random) -> None:
    owner, name = rng.choice([each for each in QUOTED if hasattr(*each)])
    spec = spec_of(rng.choice(("privpgd, people", "gaussian")))

    def failing(spec: ReleaseSpec, table: Tables, folder: Path, door: Door) -> Seen:
        def quotes(*arguments: Any, **named: Any) -> NoReturn:
            raise ValueError(f"bad rows: {table.to_pylist()}")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, quotes)
            if (owner, name) == (Mechanism, "draw"):
                door = Quoting(quotes)
            return released(spec, table, folder, door)

    one, other = both(spec, rng, failing)
    assert one == other
    assert "bad rows" not in one.ended + one.said
    done("stages that quote")


class Quoting(Door):
    def __init__(self, quotes: Callable[..., NoReturn]) -> None:
        super().__init__()
        self._quotes = quotes

    def __call__(self, mechanism: Mechanism[Any], randomness: Any) -> Measurement:
        self._quotes()


@pytest.mark.parametrize("case", ["privpgd, people", "gaussian", "kernel", "mixing", "discovery"])
@settings(max_examples=pairs(2), deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=True))
def test_nor_is_anything_drawn_that_is_not_charged_to_the_last_bit(case: str, rng: random.Random) -> None:
    """What is planned is one bit cheaper than what would be drawn."""
    sold = Purchases.__call__

    def cheaper(purchases: Purchases, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        return sold(purchases, replace(charge, event=nudged(charge.event)[0]), mechanism)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Purchases, "__call__", cheaper)
        one, other = both(spec_of(case), rng)
    assert one == other
    assert one.ended.startswith("NoiseMismatch")
    assert one.charges == ()
    assert one.draws == ()
    done("events that differ in one bit")


def test_the_comparison_sees_a_number_that_nobody_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both(spec_of("privpgd"), random.Random(3))
    assert one == other
    assert one.ended == "published"
    assert any(file.endswith("manifest.json") for file in one.files)
    monkeypatch.setattr(listed, "_total_is_public", lambda spec: True)
    one, other = both(spec_of("privpgd"), random.Random(3))
    assert one.manifest["rows"] != other.manifest["rows"]

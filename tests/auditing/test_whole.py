"""Whole releases of neighbours through the Python door: ledger, store, generation, checks, manifest, published files.

The second release is handed what the first one's draws gave, at the very place where the door draws. From there on
everything is post-processing, and generators that nobody seeds are seeded alike: so whatever else differs between the
two, in any file, row, message or exit, was told by the private table itself.
"""

from __future__ import annotations

import io
import logging
import random
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import understudy
from understudy.pipelines.auditing.cases import planned_case
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.words import same_copies
from understudy.pipelines.methods.privpgd import listed
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.spec.model import ReleaseSpec

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
    table: pa.Table | None
    said: str


def spec_of(case: str) -> ReleaseSpec:
    spec = planned_case(case).spec
    return spec.model_copy(update={"generate": spec.generate.model_copy(update=SMALL)})


def released(spec: ReleaseSpec, table: pa.Table, folder: Path, draws: list[Measurement], replays: bool) -> Seen:
    drawn = 0

    def draw(mechanism: Mechanism[Any], randomness: Any) -> Measurement:
        nonlocal drawn
        drawn += 1
        if not replays:
            draws.append(true_draw(mechanism, randomness))
            return draws[-1]
        return Measurement(mechanism.kind, mechanism.facts, draws[drawn - 1].arrays)

    true_draw, home, place = Mechanism.draw, folder / "home", folder / "out"
    ended, release, said, log = "published", None, io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(said), same_copies(7):
        patch.setattr(Mechanism, "draw", draw)
        try:
            release = understudy.Synthesizer(spec, cap=("60", "1e-5"), home=home).fit(table).release()
            release.save(place)
        except Exception as error:
            ended = f"{type(error).__name__}: {error}"
    logging.getLogger().removeHandler(handler)
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return Seen(
        ended=ended,
        charges=tuple((c.stage, c.event, c.state, c.mid, c.attempt) for c in ledger.charges("audit")),
        history=tuple(entry.action for entry in ledger.history("audit")),
        files=tuple(re.sub(r"[0-9a-f]{16,}", "#", file) for file in files),
        manifest=None if release is None else stripped(release.manifest.model_dump(mode="json")),
        table=None if release is None else release.table,
        said=said.getvalue() + log.getvalue(),
    )


def stripped(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: stripped(value) for key, value in tree.items() if key not in VOLATILE}
    return [stripped(each) for each in tree] if isinstance(tree, list) else tree


def both(spec: ReleaseSpec, rng: random.Random) -> tuple[Seen, Seen]:
    pair, draws = made_pair(spec, rng), list[Measurement]()
    with TemporaryDirectory() as name:
        folders = Path(name) / "one", Path(name) / "two"
        for folder in folders:
            folder.mkdir()
        first = released(spec, pair.table, folders[0], draws, replays=False)
        return first, released(spec, pair.neighbour, folders[1], draws, replays=True)


@pytest.mark.parametrize(
    "case", ["privpgd, people", "privpgd, replaced", "gaussian", "gaussian, sampling noise", "kernel", "mixing"]
)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=False))
def test_nothing_of_a_whole_release_tells_its_table_from_a_neighbour(case: str, rng: random.Random) -> None:
    one, other = both(spec_of(case), rng)
    assert one == other
    assert one.charges


def test_the_comparison_sees_a_number_that_nobody_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = both(spec_of("privpgd"), random.Random(3))
    assert one == other
    assert one.ended == "published"
    assert any(file.endswith("manifest.json") for file in one.files)
    monkeypatch.setattr(listed, "_total_is_public", lambda spec: True)
    one, other = both(spec_of("privpgd"), random.Random(3))
    assert one.manifest["rows"] != other.manifest["rows"]

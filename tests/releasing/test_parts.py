"""A large table in parts: the same rows whoever makes them and whenever, as good as a small one, checked alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.api import Synthesizer
from understudy.pipelines.methods.base import InParts
from understudy.pipelines.publishing.part_files import FolderOfParts, KeptParts
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.generating import generate_rows
from understudy.pipelines.table import in_parts
from understudy.pipelines.table.in_parts import sizes_of
from understudy.pipelines.table.synthetic import Synthetic

FLOWERS: dict[str, Any] = {
    "length": {"type": "number", "min": 0, "max": 10, "bins": 8},
    "width": {"type": "number", "min": 0, "max": 4, "bins": 8},
    "kind": {"type": "category", "values": ["rose", "daisy"]},
}
METHODS: dict[str, dict[str, Any]] = {
    "privpgd": {"method": {"name": "privpgd"}, "generate": {"epochs": 1, "device": "cpu"}},
    "gaussian": {"method": {"name": "gaussian"}},
    "kernel": {"method": {"name": "kernel", "label": "kind", "rows": 3000}, "generate": {"training_steps": 20}},
    "mixing": {"method": {"name": "mixing", "label": "kind", "rows": 3000}},
}
RULE = {"forbid": {"kind": ["rose"], "width": {"max": 0.5}}}
ROWS = 2500


def flowers(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    kind = rng.choice(["rose", "daisy"], rows, p=[0.7, 0.3])
    length = np.clip(rng.normal(np.where(kind == "rose", 6, 3), 1), 0, 10)
    return pd.DataFrame({"length": length, "width": np.clip(length / 3, 0, 4), "kind": kind})


def spec_of(method: str, **more: Any) -> dict[str, Any]:
    columns = {"id": {"type": "identifier", "action": "surrogate"}, **FLOWERS}
    privacy = {"account": "garden", "epsilon": 5.0, "delta": 1e-6}
    return {"name": "flowers", "snapshot": "s", "privacy": privacy, "columns": columns, **METHODS[method], **more}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "PART_ROWS", 1000)


def fitted(method: str, home: Path, **more: Any) -> Synthesizer:
    return Synthesizer(spec_of(method, **more), cap=(20, 1e-4), home=home).fit(flowers())


def made(fitted: Synthesizer, rows: int | None, place: Path | None = None) -> Synthetic:
    known = fitted._require_fit()
    places = {} if place is None else {"place_of": lambda key: FolderOfParts(place)}
    return generate_rows(known.measured, known.planned, fitted._workspace.generators, rows, **places)


@given(st.integers(1, 30_000_000), st.integers(1, 3000))
def test_parts_are_few_nearly_equal_and_no_larger_than_they_may_be(rows: int, width: int) -> None:
    sizes = sizes_of(rows, width)
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= in_parts.PART_ROWS
    assert len(sizes) == 1 or max(sizes) * width <= max(in_parts.PART_VALUES, width)
    assert (len(sizes) == 1) == (rows <= in_parts.PART_ROWS and rows * width <= in_parts.ONE_PART_VALUES)


@pytest.mark.parametrize("method", METHODS)
def test_a_table_in_parts_is_sound_has_every_id_once_and_is_the_same_again(
    method: str, tmp_path: Path, small_parts: None
) -> None:
    more = {"generate": {**METHODS[method]["generate"], "rules": [RULE]}} if method == "privpgd" else {}
    one = fitted(method, tmp_path, **more)
    known = one._require_fit()
    assert isinstance(known.planned.method, InParts)
    large = made(one, ROWS)
    assert large.parts.sizes == (833, 833, 834)
    assert large.rows == ROWS
    table = large.table
    assert table.column("id").to_pylist() == list(range(1, ROWS + 1))
    assert all(line.holds for line in require_sound(large, known.measured, known.planned, ROWS))
    small = made(one, 900)
    assert small.seen is None
    assert table.schema == small.table.schema
    assert made(one, ROWS).table.equals(table)
    pieces = [table.slice(start, 833) for start in (0, 833)]
    if method != "mixing":  # whose rows are bought, not drawn
        assert not pieces[0].drop(["id"]).equals(pieces[1].drop(["id"]))
    if method == "privpgd":
        roses = table.filter(pc.equal(table["kind"], "rose"))
        assert pc.min(roses["width"]).as_py() > 0.5


def test_what_a_part_is_found_to_be_counts(tmp_path: Path, small_parts: None) -> None:
    one = fitted("privpgd", tmp_path)
    large = made(one, ROWS)
    assert large.seen is not None
    kinds = large.seen.counts[(2,)]
    assert kinds.tolist() == [pc.sum(pc.equal(large.table["kind"], name)).as_py() for name in ("rose", "daisy")]


KILLED = """
import sys
from pathlib import Path
from tests.releasing import test_parts
from understudy.pipelines.table import in_parts
in_parts.PART_ROWS = 1000
test_parts.made(test_parts.fitted("privpgd", Path(sys.argv[1])), test_parts.ROWS, Path(sys.argv[2]))
"""


def test_killed_after_a_part_it_goes_on_where_it_was_to_the_same_bytes(tmp_path: Path, small_parts: None) -> None:
    one = fitted("privpgd", tmp_path / "home")
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "home"), str(tmp_path / "parts")],
        env={**_environment(), "UNDERSTUDY_FAULT": "part_kept"},
        cwd=root,
        check=False,
    )
    assert run.returncode == -9
    left = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("part-*")}
    assert 0 < len(left) < 3
    large = made(one, ROWS, tmp_path / "parts")
    assert isinstance(large.parts, KeptParts)
    assert {name: (tmp_path / "parts" / name).stat().st_mtime_ns for name in left} == left
    whole = made(one, ROWS, tmp_path / "others")
    for number in range(3):
        parts, others = (FolderOfParts(tmp_path / name).get(number) for name in ("parts", "others"))
        assert parts == others
    assert large.table.equals(whole.table)
    assert large.seen is not None
    assert whole.seen is not None
    assert all(np.array_equal(large.seen.counts[each], whole.seen.counts[each]) for each in whole.seen.counts)


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def test_a_release_in_parts_is_published_and_leaves_nothing_behind(tmp_path: Path, small_parts: None) -> None:
    release = fitted("gaussian", tmp_path / "home").release(ROWS)
    place = Path(release.save("releases", base=tmp_path))
    files = sorted(path.name for path in (place / "data").iterdir())
    assert files == [f"part-{number:05d}.parquet" for number in range(3)]
    read = pa.concat_tables([pa.parquet.read_table(place / "data" / name) for name in files])
    assert read.equals(release.table)
    assert not list((tmp_path / "releases" / "flowers").glob(".parts*"))

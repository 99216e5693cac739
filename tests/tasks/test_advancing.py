"""How far a stage is: told in rows where rows are public, and not told at all where they are not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.cli.progress import stages_shown
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.in_parts import InMemory, Parts
from understudy.pipelines.table.synthetic import SeenFamilies, Synthetic
from understudy.tasks.telling import advancing, stages
from understudy.tasks.telling.advancing import AdvancingRows, watched, watched_rows


def spec_with(**source: Any) -> Any:
    return spec_of(
        {
            "name": "t",
            "source": {"uri": "t", "snapshot": "s", **source},
            "privacy": {"account": "a", "epsilon": 1.0, "delta": 1e-6},
            "columns": {"n": {"type": "integer", "min": 0, "max": 9}},
            "publish": {"to": "out"},
        }
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    monkeypatch.setattr(advancing, "SHOWN_SECONDS", 0.0)
    monkeypatch.setattr(advancing, "LOGGED_SECONDS", 0.0)
    heard: list[str] = []
    unwatch = stages.watch(heard.append)
    yield heard
    unwatch()


def folder(place: Path, rows: int) -> ParquetSource:
    for file in range(3):
        pq.write_table(pa.table({"n": [file] * rows}), place / f"{file}.parquet")
    return ParquetSource(place)


def counted(source: Any, spec: Any) -> int:
    table = LocalTable(watched(source, spec, "counting"), TableDomain.of(spec), Unit(), b"key", threads=1)
    return int(table.counts([(0,)])[0].sum())


def test_of_a_table_whose_size_is_private_nothing_is_told(
    tmp_path: Path, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    source, spec = folder(tmp_path, 40), spec_with()
    with caplog.at_level(logging.INFO):
        assert watched(source, spec, "counting") is source
        assert counted(source, spec) == 120
    assert told == []
    assert caplog.text == ""


def test_where_it_is_public_rows_are_told_as_they_are_read(
    tmp_path: Path, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert counted(folder(tmp_path, 40), spec_with(rows_are_public=True)) == 120
    assert told == ["40 of 120 rows", "80 of 120 rows", "120 of 120 rows"]
    assert "counting: 120 of 120 rows" in caplog.text


def test_synthetic_rows_are_told_as_they_are_published(told: list[str]) -> None:
    tables = (pa.table({"n": [1] * 5}), pa.table({"n": [2] * 4}))
    parts = Parts(tables[0].schema, (5, 4), InMemory(tables))
    synthetic = Synthetic(tables[0], TableDomain.of(spec_with()), parts, families=SeenFamilies((), ()))
    coded, made = synthetic.codes, watched_rows(synthetic, "publishing")
    assert isinstance(made, Synthetic)
    assert (made.codes, made.families) == (
        coded,
        synthetic.families,
    )  # nothing that was seen is lost or worked out again
    assert isinstance(made, Synthetic)
    assert made.parts.table().equals(pa.concat_tables(tables))
    assert told == ["5 of 9 rows", "9 of 9 rows"]


def test_it_is_told_now_and_then_only(monkeypatch: pytest.MonkeyPatch, told: list[str]) -> None:
    monkeypatch.setattr(advancing, "SHOWN_SECONDS", 0.5)
    seconds = iter([0.0, 0.1, 0.6, 0.7, 1.2])
    rows = AdvancingRows("counting", None, clock=lambda: next(seconds))
    for _ in range(4):
        rows(10)
    assert told == ["20 rows", "40 rows"]


def test_without_a_terminal_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seconds = iter([0.0, 1.0, 1.0, 2.0, 12.0, 12.0, 12.0])
    monkeypatch.setattr("understudy.cli.progress.time.monotonic", lambda: next(seconds))
    with stages_shown() as show:
        show("counting")
        show.far("5 rows")
        show.far("9 rows")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("s  ")[1] for line in lines] == ["counting ...", "counting: 9 rows"]

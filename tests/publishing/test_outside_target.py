"""A target of another package, in one file of under 100 lines: it is found, and it keeps the contract."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.outside import HERE, install_jsonl
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published
from understudy.pipelines.spec.handling import PublishSpec
from understudy.testing.targets import TargetContract


class TestJsonLines(TargetContract):
    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(install_jsonl(tmp_path / "site"))

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="jsonl:///releases")

    def read(self, place: Path, name: str) -> pa.Table | None:
        found = sorted((place / "releases" / name).glob("*.jsonl"))
        if not found:
            return None
        rows = [json.loads(line) for line in found[-1].read_text().splitlines()[1:]]
        for row in rows:
            row["seen"] = row["seen"] and dt.date.fromisoformat(row["seen"])
        return pa.Table.from_pylist(rows)

    def address(self, place: Path, published: Published) -> str:
        return f"jsonl:///{published.location}"

    def tamper(self, place: Path, published: Published) -> None:
        path = Path(published.location)
        path.write_text(path.read_text().replace('"age": 1', '"age": 2', 1))

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        path = place / "releases" / release.manifest.name / f"{release.manifest.release_id}.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        return path.read_text


def test_it_is_one_small_file() -> None:
    assert len((HERE / "jsonl_target.py").read_text().splitlines()) < 100

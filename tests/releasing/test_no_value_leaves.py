"""A thousand planted values go into `synthesize`, which fails at every stage or succeeds. None comes out: not in an
error, its cause, context, notes or traceback, not in a log, a warning or printed text, not in a file."""

from __future__ import annotations

import datetime as dt
import gc
import logging
import pickle
import tempfile
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import understudy
from understudy.pipelines.errors import SourceError, UnderstudyError

TEXTS = [f"canary{i:03d}q7zx" for i in range(500)]
NUMBERS = [f"{3000 + i}.4142135" for i in range(500)]
CANARIES = [*TEXTS, *NUMBERS]
ROWS = len(TEXTS)
SPEC: dict[str, Any] = {
    "name": "planted",
    "snapshot": "s",
    "privacy": {"account": "a", "epsilon": 1.0, "delta": 1e-6, "unit": {"entity": "who", "max_rows": 2}},
    "columns": {
        "who": {"type": "identifier", "action": "drop"},
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 4},
        "charge": {"type": "number", "min": 0, "max": 9000, "bins": 3, "nullable": True},
        "ward": {"type": "category", "values": ["A", "B"], "other": True},
        "smoker": {"type": "boolean", "nullable": True},
        "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month", "nullable": True},
        "at": {"type": "datetime", "min": "2026-01-01", "max": "2026-12-31", "bins": 3, "nullable": True},
    },
    "generate": {"epochs": 1, "particles": 60, "device": "cpu"},
}
COLUMNS = [name for name in SPEC["columns"] if name != "who"]


def typed_table() -> pa.Table:
    """Every planted value in a column of its own kind."""
    day = dt.date(2026, 2, 3)
    return pa.table(
        {
            "who": TEXTS,
            "age": [40] * ROWS,
            "charge": [float(number) for number in NUMBERS],
            "ward": TEXTS,
            "smoker": [True] * ROWS,
            "seen": [day] * ROWS,
            "at": [dt.datetime(2026, 2, 3, 4)] * ROWS,
            "note": TEXTS,
        }
    )


def mixed_frame(column: str = "") -> pd.DataFrame:
    """A frame of objects in which `column`, or every one, has planted texts and numbers beside proper values."""
    frame = typed_table().to_pandas().astype(object)
    for name in [column] if column else [*COLUMNS, "who", "note"]:
        odd = [[text, float(number)][i % 2] for i, (text, number) in enumerate(zip(TEXTS, NUMBERS, strict=True))]
        frame[name] = pd.Series([frame[name][i] if i % 5 == 0 else odd[i] for i in range(ROWS)], dtype=object)
    return frame


def unspeakable_frame() -> pd.DataFrame:
    """Half a surrogate pair after each text: Python cannot write it as UTF-8, and says so with the text."""
    frame = mixed_frame("ward")
    frame["ward"] = pd.Series([text + "\ud800" for text in TEXTS], dtype=object)
    return frame


def unhashable_frame() -> pd.DataFrame:
    frame = mixed_frame("charge")
    frame["charge"] = pd.Series([{text: [text]} if i % 2 else 1.5 for i, text in enumerate(TEXTS)], dtype=object)
    return frame


class Panic(BaseException):
    """As an extension written in Rust panics: not an `Exception`."""


class Capsule:
    """A frame of another library, whose conversion fails and quotes what it could not convert."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind

    def __arrow_c_stream__(self, requested_schema: object = None) -> NoReturn:
        raise self.kind(f"cannot convert {CANARIES}")


def quote_rows(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError(f"bad rows: {CANARIES}")


def quote_beside(*args: Any, **kwargs: Any) -> NoReturn:
    """An error of ours with public words, which drags the values along as cause, context and note."""
    ours = SourceError("the table cannot be read", "look at it")
    ours.add_note(f"bad rows: {CANARIES}")
    try:
        raise KeyError(*CANARIES)
    except KeyError as error:
        raise ours from error


def quote_arguments(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError(f"failed on {args} {kwargs}")


class BrokenWords:
    def words(self, count: int) -> NoReturn:
        quote_rows()


STAGES: dict[str, tuple[str, Any]] = {
    "schema": ("understudy.pipelines.sources.memory.ArrowSource.schema", quote_rows),
    "schema, ours": ("understudy.pipelines.sources.memory.ArrowSource.schema", quote_beside),
    "bounding": ("understudy.pipelines.sources.memory.ArrowPart.read", quote_rows),
    "bounding, ours": ("understudy.pipelines.sources.memory.ArrowPart.read", quote_beside),
    "counting": ("understudy.pipelines.counting.counting.LocalTable.counts", quote_rows),
    "counting, ours": ("understudy.pipelines.counting.counting.LocalTable.counts", quote_beside),
    "drawing": ("understudy.pipelines.privacy.ledger.spend.operating_system_randomness", BrokenWords),
    "saving": ("understudy.pipelines.privacy.ledger.store.MeasurementStore.save", quote_rows),
    "saving, ours": ("understudy.pipelines.privacy.ledger.store.MeasurementStore.save", quote_beside),
    "generating": ("understudy.pipelines.methods.privpgd.method.PrivPGDMethod.generate", quote_arguments),
    "validating": ("understudy.pipelines.methods.privpgd.method.PrivPGDMethod.agreement", quote_arguments),
    "publishing": ("understudy.pipelines.publishing.targets.directory.DirectoryTarget.publish", quote_arguments),
}
TABLES: dict[str, Callable[[], Any]] = {
    "typed": typed_table,
    "mixed": mixed_frame,
    "unspeakable": unspeakable_frame,
    "unhashable": unhashable_frame,
    **{f"mixed {name}": lambda name=name: mixed_frame(name) for name in COLUMNS},
    "capsule": lambda: Capsule(ValueError),
    "capsule, ours": lambda: Capsule(UnderstudyErrorThatQuotes),
    "capsule, panic": lambda: Capsule(Panic),
    "no table": lambda: {"rows": CANARIES},
    "other names": lambda: typed_table().rename_columns([f"x{i}" for i in range(8)]),
}


class UnderstudyErrorThatQuotes(ValueError):
    """Named so that a guard by name would let it pass."""


@dataclass
class Heard:
    """All that a run lets out."""

    folder: Path
    told: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def hear(self, error: BaseException | None) -> None:
        """The error, everything it drags along, and its form on the way to another process."""
        while error is not None:
            notes = getattr(error, "__notes__", [])
            self.told += [str(error), repr(error), repr(error.args), repr(notes), repr(vars(error))]
            self.told += traceback.format_exception(error)
            self.told.append(repr(pickle.dumps(error)))
            self.hear(error.__cause__)
            error = error.__context__

    def found(self) -> list[str]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        texts = [*self.told, *(_content(path) for path in files)]
        return sorted({canary for text in texts for canary in CANARIES if canary in text})


def _content(path: Path) -> str:
    raw = path.read_bytes().decode("latin-1")
    return raw + pq.read_table(path).to_pandas().to_csv() if path.suffix == ".parquet" else raw


@pytest.fixture
def heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[Any], Heard]]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "elsewhere"))

    def run(table: Any) -> Heard:
        heard = Heard(tmp_path)
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                release = understudy.synthesize(table, SPEC, cap=(9, 1e-6), home=tmp_path / "home")
                release.save(tmp_path / "out")
                heard.told += [repr(release), repr(release.synthesizer), repr(vars(release.synthesizer)), release.card]
                heard.told.append(release.to_pandas().to_csv())
            except BaseException as error:
                heard.error = error
                heard.hear(error)
        heard.told += [str(warning.message) for warning in warned]
        heard.told += [record.getMessage() + str(record.args) + str(record.exc_text) for record in caplog.records]
        heard.told += capfd.readouterr()
        return heard

    yield run
    tempfile.tempdir = None


@pytest.mark.parametrize("table", TABLES)
def test_whatever_table_is_given(table: str, heard: Callable[[Any], Heard]) -> None:
    run = heard(TABLES[table]())
    assert run.found() == []
    refused = table.startswith("capsule") or table in ("no table", "other names")
    assert isinstance(run.error, UnderstudyError) if refused else run.error is None


@pytest.mark.parametrize("stage", STAGES)
def test_whatever_stage_fails(stage: str, heard: Callable[[Any], Heard], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*STAGES[stage])
    run = heard(typed_table())
    assert run.error is not None
    assert run.found() == []


def test_nothing_that_stays_behind_holds_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.pipelines.counting.counting import LocalTable
    from understudy.pipelines.sources.memory import ArrowPart, ArrowSource

    frame = typed_table().to_pandas()
    given, fitted = weakref.ref(frame), understudy.Synthesizer(SPEC, cap=(9, 1e-6), home=tmp_path).fit(frame)
    monkeypatch.setattr(LocalTable, "counts", quote_rows)
    failed = understudy.Synthesizer({**SPEC, "snapshot": "t"}, home=tmp_path)
    with pytest.raises(UnderstudyError):
        failed.fit(frame)
    del frame
    gc.collect()
    assert given() is None
    assert not [each for each in gc.get_objects() if type(each) in (ArrowSource, ArrowPart, LocalTable)]
    kept = pickle.dumps(fitted)
    assert not [canary for canary in CANARIES if canary.encode() in kept]
    assert pickle.loads(kept).sample(5).num_rows == 5


def test_what_holds_the_table_while_it_is_measured_does_not_show_it() -> None:
    from understudy.pipelines.counting.counting import LocalTable
    from understudy.pipelines.privacy.relation import Unit
    from understudy.pipelines.sources.memory import ArrowSource
    from understudy.pipelines.spec.reading import spec_of
    from understudy.pipelines.table.domain import TableDomain

    tree = {key: value for key, value in SPEC.items() if key != "snapshot"}
    spec = spec_of({**tree, "source": {"uri": "memory", "snapshot": "s"}, "publish": {"to": "out"}})
    private = LocalTable(ArrowSource(typed_table()), TableDomain.of(spec), Unit(), b"k")
    shown = repr(private) + repr(private.source.parts())
    assert not [canary for canary in CANARIES if canary in shown]


def test_the_scan_itself_finds_what_is_there(tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    try:
        quote_beside()
    except SourceError as error:
        heard.hear(error)
    assert heard.found() == sorted(CANARIES)
    (tmp_path / "deep").mkdir()
    pq.write_table(pa.table({"x": [float(NUMBERS[3])], "y": [TEXTS[5]]}), tmp_path / "deep" / "rows.parquet")
    assert Heard(tmp_path).found() == sorted([NUMBERS[3], TEXTS[5]])
    assert np.unique(CANARIES).size == 1000

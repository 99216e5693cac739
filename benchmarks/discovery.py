"""Domains that nobody typed beside domains written by hand; what is found; and how long it takes.

Figures `discovery.adult.tv` (two-way total variation of Adult's raw file, nothing declared but that a row is a person,
epsilon 1, discovery inside it; the peer is the domain written by hand from the data set's documentation; both in the
same run, over the codes of the latter), `discovery.diabetes130.*` (50 columns drafted from the header, the patient as
unit, epsilon 2: the share of rows whose category is not `other` in the worst column of which every value is shared by
10 patients, and over all columns), `discovery.months.*` (what a second snapshot spends on its domain, whether its codes
are the same, and the share of a category that is new), `discovery.zipf.*` (a million different values: seconds and
megabytes).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.support.adult_by_hand import ADULT
from benchmarks.support.figures import Figures
from understudy.pipelines.drafting.draft import NULL_WORDS
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase

ROWS_A_PATIENT = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=2, help="releases a side")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    adult = args.data / "adult" / "adult_raw.csv.gz"
    if adult.exists() and figures.wants("discovery.adult"):
        show_adult(figures, pd.read_csv(adult, dtype=str, keep_default_na=False), args.draws)
    if adult.exists() and figures.wants("discovery.months"):
        show_months(figures, pd.read_csv(adult, dtype=str, keep_default_na=False))
    diabetes = args.data / "diabetes130" / "diabetic_data.csv.gz"
    if diabetes.exists() and figures.wants("discovery.diabetes130"):
        show_diabetes(figures, diabetes)
    if figures.wants("discovery.zipf"):
        show_zipf(figures)


def show_adult(figures: Figures, frame: pd.DataFrame, draws: int) -> None:
    """By the codes of the hand-written domain, in whose favour they are: a bin of its own is no error to it; and by
    codes that neither side knows, numbers in twenty bands of about equal size."""
    open_columns = {name: {"type": "discover"} for name in ADULT}
    sides = {"discovered": open_columns, "by hand": ADULT}
    codes = {"tv": ADULT, "tv_in_bands": _bands(frame)}
    found: dict[str, dict[str, list[float]]] = {figure: {side: [] for side in sides} for figure in codes}
    for _ in range(draws):
        for side, columns in sides.items():
            fake = _released(frame, columns, "1")
            for figure, evaluated in codes.items():
                found[figure][side].append(_distance(frame, fake, evaluated))
    for figure, by_side in found.items():
        ours, theirs = (float(np.mean(by_side[side])) for side in sides)
        figures.show(f"discovery.adult.{figure}", ours, "by hand", theirs)
        figures.show(f"discovery.adult.{figure}_ratio", ours / theirs)


def _bands(frame: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The same columns with numbers in bands that hold about as many real rows each: for evaluation alone."""
    banded = {}
    for name, column in ADULT.items():
        if column["type"] != "integer":
            banded[name] = column
            continue
        numbers = frame[name].astype(int)
        edges = sorted({int(edge) for edge in np.quantile(numbers, np.arange(1, 20) / 20)})
        ends = [min(int(numbers.min()), edges[0] - 1), *edges, max(int(numbers.max()), edges[-1] + 1)]
        banded[name] = {"type": "integer", "bins": ends}
    return banded


def _released(frame: pd.DataFrame, columns: dict[str, Any], epsilon: str, **more: Any) -> pa.Table:
    from understudy import Synthesizer

    with tempfile.TemporaryDirectory() as home:
        spec = {
            "name": "table",
            "snapshot": "now",
            "columns": columns,
            "privacy": {"account": "a", "epsilon": epsilon, "delta": "1e-6", **more},
        }
        return Synthesizer(spec, cap=(10, "1e-6"), home=home).fit(frame).release().table


def _distance(real: pd.DataFrame, fake: pa.Table, evaluated: dict[str, dict[str, Any]]) -> float:
    """Mean total variation over all pairs of columns, by these codes."""
    codes = [_codes(table, evaluated) for table in (pa.Table.from_pandas(real, preserve_index=False), fake)]
    distances = []
    for one, other in combinations(range(len(ADULT)), 2):
        tables = []
        for columns, sizes in codes:
            joint = columns[one].astype(np.int64) * sizes[other] + columns[other]
            tables.append(np.bincount(joint, minlength=sizes[one] * sizes[other]) / len(joint))
        distances.append(0.5 * np.abs(tables[0] - tables[1]).sum())
    return float(np.mean(distances))


def _codes(table: pa.Table, evaluated: dict[str, dict[str, Any]]) -> tuple[list[np.ndarray], tuple[int, ...]]:
    from understudy.pipelines.spec.reading import spec_of
    from understudy.pipelines.table.coding.encode import encode_column
    from understudy.pipelines.table.domain import TableDomain

    tree = {
        "name": "t", "source": {"uri": "t.csv", "snapshot": "s"}, "publish": {"to": "o"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6}, "columns": evaluated,
    }  # fmt: skip
    domain = TableDomain.of(spec_of(tree))
    return [encode_column(table.column(column.name), column) for column in domain.columns], domain.sizes


def show_months(figures: Figures, frame: pd.DataFrame) -> None:
    """A second snapshot of the same account, in which one row in ten has a category that was never seen."""
    from understudy import Synthesizer

    columns = {name: {"type": "discover"} for name in ("age", "workclass", "education", "race", "hours-per-week")}
    privacy = {"account": "a", "epsilon": 1, "delta": "1e-6", "quality": 0.02}
    with tempfile.TemporaryDirectory() as home:
        spec = {"name": "people", "privacy": privacy, "columns": columns}
        first = Synthesizer({**spec, "snapshot": "2026-01"}, cap=(5, "1e-6"), home=home).fit(frame)
        later = frame.copy()
        later.loc[later.index % 10 == 0, "workclass"] = "Gig-worker"
        second = Synthesizer({**spec, "snapshot": "2026-02"}, home=home).fit(later)
        drawn = [stage for payment in second.spent for stage in payment.drawn]
        figures.show("discovery.months.spent_on_domain", float(drawn.count("discover")))
        figures.show("discovery.months.same_codes", float(first.known_spec.columns == second.known_spec.columns))
        shares = [(fact.column, fact.share) for fact in second.release().manifest.unlisted]
        figures.show("discovery.months.new_category_share", dict(shares).get("workclass", 0.0))


def show_diabetes(figures: Figures, path: Path) -> None:
    """By the commands that a person types, with no edit between them."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, Path(folder) / "diabetes.csv.gz")
        home = {"UNDERSTUDY_HOME": str(Path(folder) / "home")}
        _typed(folder, home, "init", "diabetes.csv.gz", "--yes", "--epsilon", "2", "--entity", "patient_nbr",
               "--max-rows", str(ROWS_A_PATIENT))  # fmt: skip
        _typed(folder, home, "ledger", "open", "diabetes", "--epsilon", "6", "--delta", "1e-6", "--own-delta", "5e-7",
               "--entity", "patient_nbr", "--max-rows", str(ROWS_A_PATIENT))  # fmt: skip
        start = time.monotonic()
        _typed(folder, home, "release", "diabetes.yaml")
        seconds = time.monotonic() - start
        manifest = next(Path(folder).glob("releases/diabetes/*/manifest.json"))
        told = json.loads(manifest.read_text())
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    columns = told["spec"]["columns"]
    listed = {name: set(map(str, column["values"])) for name, column in columns.items() if column["type"] == "category"}
    present = {name: frame[name][~frame[name].isin([*NULL_WORDS, ""])] for name in listed}
    inside = {name: float(present[name].isin(values).mean()) for name, values in listed.items()}
    shared = [name for name in listed if _everybody_has_company(frame, name)]
    figures.show("discovery.diabetes130.columns", float(len(told["columns"])))
    figures.show("discovery.diabetes130.epsilon", float(told["guarantee"]["epsilon"]))
    figures.show("discovery.diabetes130.categories", float(len(listed)))
    figures.show("discovery.diabetes130.shared_by_ten", float(len(shared)))
    figures.show("discovery.diabetes130.listed_worst_shared", min(inside[name] for name in shared))
    figures.show("discovery.diabetes130.listed_mean", float(np.mean(list(inside.values()))))
    figures.show("discovery.diabetes130.seconds", seconds)


def _typed(folder: str, more: dict[str, str], *words: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    command = [sys.executable, "-m", "understudy.cli.main", *words]
    done = subprocess.run(command, cwd=folder, env=kept | more, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)


def _everybody_has_company(frame: pd.DataFrame, name: str, least: int = 10) -> bool:
    """Whether every value of the column is shared by so many patients."""
    held = frame[~frame[name].isin([*NULL_WORDS, ""])]
    return bool(held.groupby(name)["patient_nbr"].nunique().min() >= least)


def show_zipf(figures: Figures) -> None:
    """A million different values whose frequencies fall as 1/rank: in a process of its own, as memory is told by it."""
    code = "from benchmarks.discovery import zipf; zipf()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, megabytes, different, found = map(float, done.stdout.split())
    figures.show("discovery.zipf.different", different)
    figures.show("discovery.zipf.found", found)
    figures.show("discovery.zipf.seconds", seconds)
    figures.show("discovery.zipf.megabytes", megabytes)


def zipf(values: int = 1_000_000, rows: int = 10_000_000) -> None:
    """Streams the rows and draws; prints seconds, megabytes, how many values there were and how many were found."""
    from understudy.pipelines.discovery.mechanism import Question, discovery_noise, shown_values
    from understudy.pipelines.discovery.observing import Looking
    from understudy.pipelines.discovery.tally import UNITS, VALUES, Asked, question_name
    from understudy.pipelines.discovery.tallying import tally_table
    from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
    from understudy.pipelines.privacy.relation import Relation, Unit

    source = _Zipf(values, rows)
    start = time.monotonic()
    name = question_name(0, VALUES)
    noise = discovery_noise(
        (Question(UNITS, 1, 0.1), Question(name, None, 1.0, values)), 20.0, 1e-7, Relation.ADD_REMOVE, Unit()
    )
    sums = tally_table(source, [Asked(Looking("word", "category"), (VALUES,))], Unit(), b"key")
    drawn = noise.draw(sums, operating_system_randomness())
    seconds = time.monotonic() - start
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(seconds, most, len(sums[name].weights), len(shown_values(drawn, name)))


class _Zipf(SourceBase):
    """Every value at least once, then by chance with frequencies that fall as 1/rank; made batch by batch."""

    def __init__(self, values: int, rows: int) -> None:
        self._values, self._rows = values, rows

    def schema(self) -> pa.Schema:
        return pa.schema([("word", pa.string())])

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        rng = np.random.default_rng(1)
        limits = np.cumsum(1 / np.arange(1, self._values + 1))
        limits /= limits[-1]
        for first in range(0, self._rows, batch_rows):
            count = min(batch_rows, self._rows - first)
            ranks = np.searchsorted(limits, rng.random(count))
            certain = np.arange(first, min(first + count, self._values))
            ranks[: len(certain)] = certain
            words = pc.binary_join_element_wise("word number", pc.cast(pa.array(ranks), pa.string()), " ")
            yield pa.record_batch([words], names=["word"])

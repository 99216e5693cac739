"""A large tree of tables on one machine: patients, five times as many visits, ten times as many prescriptions.

The tables are made once, as Parquet files in `--data`, then read, attributed, bounded, counted by view and noised,
as a release does it. Figures `tree_size.<stage>.seconds`, and `tree_size.memory.gigabytes`, the most that the process
held (made tables are written by another one). `--generate` goes on and makes all tables again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.figures import Figures
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.methods.tree.measure import exact_tables, facts_of
from understudy.pipelines.methods.tree.plan import design_tree, tree_domains
from understudy.pipelines.methods.tree.released import TREE, released_tree
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.sources.tree.opening import open_tree
from understudy.pipelines.spec.model import ReleaseSpec

VISITS, DRUGS = 5, 2
PART = 500_000


def words(letter: str, count: int) -> list[str]:
    return [f"{letter}{i:02d}" for i in range(count)]


COLUMNS: dict[str, dict[str, Any]] = {
    "patients": {
        "sex": {"type": "category", "values": words("s", 2)},
        "born": {"type": "integer", "min": 1920, "max": 2025, "bins": 12},
        "region": {"type": "category", "values": words("r", 20)},
        "insurance": {"type": "category", "values": words("i", 5), "nullable": True},
    },
    "visits": {
        "ward": {"type": "category", "values": words("w", 12)},
        "reason": {"type": "category", "values": words("c", 30), "other": True},
        "visited_on": {"type": "date", "min": "2019-01-01", "max": "2025-12-31", "bins": "month"},
        "urgent": {"type": "boolean", "nullable": True},
        "cost": {"type": "number", "min": 0, "max": 20_000, "bins": 24, "scale": "log"},
    },
    "drugs": {
        "drug": {"type": "category", "values": words("d", 50)},
        "dose": {"type": "integer", "min": 1, "max": 16, "bins": 16},
        "days": {"type": "integer", "min": 1, "max": 90, "bins": 20},
    },
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--patients", type=float, default=1e6)
    parser.add_argument("--generate", action="store_true", help="make the tables again from what was measured")


def spec_of(folder: Path) -> ReleaseSpec:
    below = {
        "visits": {"key": "visit_id", "parent": {"table": "patients", "by": "patient_id"}, "max_rows": 24},
        "drugs": {"parent": {"table": "visits", "by": "visit_id"}, "max_rows": 8},
    }
    tables: dict[str, Any] = {"patients": {"key": "patient_id"}, **below}
    tables["visits"]["order_by"] = "visited_on"
    return ReleaseSpec.model_validate(
        {
            "name": "clinic",
            "source": {"uri": str(folder), "snapshot": "1"},
            "privacy": {"account": "clinic", "epsilon": 1, "delta": "1e-8"},
            "tables": {
                name: {"source": {"uri": str(folder / name)}, **table, "columns": COLUMNS[name]}
                for name, table in tables.items()
            },
            "publish": {"to": "releases"},
        }
    )


def write_tables(folder: Path, patients: int) -> None:
    """In parts, with ids that are texts, rows of one patient apart from each other, and numbers of rows that vary."""
    rng = np.random.default_rng(20261118)
    for name, rows in (("patients", patients), ("visits", VISITS * patients), ("drugs", VISITS * DRUGS * patients)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, rows, PART)):
            count = min(PART, rows - start)
            path = folder / name / f"{number:04d}.parquet"
            pq.write_table(_part(name, rng, start, count, patients), path)


def _part(name: str, rng: np.random.Generator, start: int, count: int, patients: int) -> pa.Table:
    own = np.arange(start, start + count)
    ids: dict[str, pa.Array] = {}
    if name == "patients":
        ids["patient_id"] = _ids("p", own)
    elif name == "visits":  # skewed, so that some patients have more than 24
        ids["patient_id"] = _ids("p", (patients * rng.power(0.7, count)).astype(np.int64))
        ids["visit_id"] = _ids("v", own)
    else:
        ids["visit_id"] = _ids("v", rng.integers(0, VISITS * patients, count))
    return pa.table({**ids, **{name_: _values(column, rng, count) for name_, column in COLUMNS[name].items()}})


def _ids(letter: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(np.char.add(letter, numbers.astype("U")))


def _values(column: dict[str, Any], rng: np.random.Generator, count: int) -> pa.Array:
    match column["type"]:
        case "category":
            values = column["values"]
            places = (len(values) * rng.power(0.6, count)).astype(np.int32)
            return pa.DictionaryArray.from_arrays(pa.array(places), pa.array(values)).cast(pa.string())
        case "boolean":
            return pa.array(rng.random(count) < 0.3)
        case "date":
            return pa.array(np.datetime64("2019-01-01") + rng.integers(0, 2557, count))
        case "integer":
            return pa.array(rng.integers(column["min"], column["max"] + 1, count))
        case _:
            return pa.array(np.minimum(rng.lognormal(5, 1.2, count), 2e4))


class _Words:
    """Noise of a benchmark is nobody's secret."""

    def words(self, count: int) -> np.ndarray:
        return np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)


def run(args: argparse.Namespace) -> None:
    patients, figures = int(args.patients), Figures(args.only)
    folder = args.data / f"tree_size_{patients}"
    if not folder.is_dir():
        making = multiprocessing.get_context("spawn").Process(target=write_tables, args=(folder, patients))
        making.start()
        making.join()
    spec = spec_of(folder)
    domains, started = tree_domains(spec), time.perf_counter()
    design = design_tree(spec, domains)
    pairs = sum(len(view.asked) for view in design.views)
    told: dict[str, float] = {f"plan of {pairs} marginals": time.perf_counter() - started}

    def timed(what: str, seconds: float) -> None:
        told[what] = seconds

    assert spec.tree is not None
    with closing(open_tree(spec, Path())) as source:
        exact = exact_tables(LocalTree(source, spec.tree, domains, b"key", timed=timed), design)
    started = time.perf_counter()
    measured = Mechanism(design.noise, exact, TREE, facts_of(design)).draw(_Words())
    told["noise"] = time.perf_counter() - started
    released = released_tree(measured)
    if args.generate:
        from understudy.pipelines.methods.tree.generating.tables import generate_tables

        started = time.perf_counter()
        made = generate_tables(released, spec)
        told["generated"] = time.perf_counter() - started
        print({name: each.table.num_rows for name, each in made.tables.items()})
    for stage, seconds in told.items():
        figures.show(f"tree_size.{stage.replace(' ', '_')}.seconds", seconds)
    figures.show("tree_size.all.seconds", sum(told.values()))
    figures.show("tree_size.memory.gigabytes", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)

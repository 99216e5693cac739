"""A large tree of tables in Parquet, and a release of it stage by stage, in a process of its own.

Patients, five times as many visits, ten times as many prescriptions. `python -m benchmarks.support.large_tree FOLDER
PATIENTS OUT` makes the tables, if they are not there, and prints one JSON line: wall and CPU seconds and the most
memory of every stage, as a release goes through them: read, attributed, bounded and counted by view, noised and
charged, made in parts, checked by Great Expectations, published as Parquet files.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.figures import measured

VISITS, DRUGS = 5, 2
FILE_ROWS = 500_000


def _words(letter: str, count: int) -> list[str]:
    return [f"{letter}{i:02d}" for i in range(count)]


COLUMNS: dict[str, dict[str, Any]] = {
    "patients": {
        "sex": {"type": "category", "values": _words("s", 2)},
        "born": {"type": "integer", "min": 1920, "max": 2025, "bins": 12},
        "region": {"type": "category", "values": _words("r", 20)},
        "insurance": {"type": "category", "values": _words("i", 5), "nullable": True},
    },
    "visits": {
        "ward": {"type": "category", "values": _words("w", 12)},
        "reason": {"type": "category", "values": _words("c", 30), "other": True},
        "visited_on": {"type": "date", "min": "2019-01-01", "max": "2025-12-31", "bins": "month"},
        "urgent": {"type": "boolean", "nullable": True},
        "cost": {"type": "number", "min": 0, "max": 20_000, "bins": 24, "scale": "log"},
    },
    "drugs": {
        "drug": {"type": "category", "values": _words("d", 50)},
        "dose": {"type": "integer", "min": 1, "max": 16, "bins": 16},
        "days": {"type": "integer", "min": 1, "max": 90, "bins": 20},
    },
}


def spec_of(folder: Path, out: Path) -> Any:
    from understudy.pipelines.spec.reading import spec_of as checked

    below = {
        "visits": {"key": "visit_id", "parent": {"table": "patients", "by": "patient_id"}, "max_rows": 24},
        "drugs": {"parent": {"table": "visits", "by": "visit_id"}, "max_rows": 8},
    }
    tables: dict[str, Any] = {"patients": {"key": "patient_id"}, **below}
    tables["visits"]["order_by"] = "visited_on"
    return checked(
        {
            "name": "clinic",
            "source": {"uri": str(folder), "snapshot": "1"},
            "privacy": {"account": "clinic", "epsilon": 1, "delta": "1e-8"},
            "tables": {
                name: {"source": {"uri": str(folder / name)}, **table, "columns": COLUMNS[name]}
                for name, table in tables.items()
            },
            "publish": {"to": str(out / "releases")},
        }
    )


def write_tables(folder: Path, patients: int) -> None:
    """In parts, with ids that are texts, rows of one patient apart from each other, and numbers of rows that vary."""
    rng = np.random.default_rng(20261118)
    for name, rows in (("patients", patients), ("visits", VISITS * patients), ("drugs", VISITS * DRUGS * patients)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number, start in enumerate(range(0, rows, FILE_ROWS)):
            count = min(FILE_ROWS, rows - start)
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


def measured_tree(folder: Path, patients: int, out: Path) -> dict[str, Any]:
    """In a process of its own, whose peak is the release's; the tables are made by another."""
    place = folder / f"large-tree-{patients}"
    for words in (["tables", str(place), str(patients)], ["release", str(place), str(out)]):
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.support.large_tree", *words],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


def _release(place: Path, out: Path) -> dict[str, Any]:
    stages: dict[str, dict[str, float]] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        with measured() as cost:
            yield
        stages[name] = {"seconds": cost.seconds, "cpu": cost.cpu_seconds, "peak_mb": cost.peak_mb}

    with stage("importing"):
        from understudy.pipelines.publishing.targets.base import open_target
        from understudy.pipelines.releasing.approving import approve
        from understudy.pipelines.releasing.books import Books
        from understudy.pipelines.releasing.checking import require_sound
        from understudy.pipelines.releasing.generating import generate_rows, parts_beside
        from understudy.pipelines.releasing.keys import signed
        from understudy.pipelines.releasing.measuring import counted_tree, measure, named_tree
        from understudy.pipelines.releasing.planning import plan_release
        from understudy.pipelines.releasing.preparing import prepare_release
        from understudy.pipelines.releasing.recording import publish_recorded
        from understudy.pipelines.releasing.workspace import Workspace
        from understudy.tasks.engines.expectations import expectations_failed

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    spec, told = spec_of(place, out), dict[str, float]()
    with stage("planning"):
        planned = plan_release(spec)
        books = Books.open(Workspace.from_environment({"UNDERSTUDY_HOME": str(out / "home")}))
        privacy = spec.privacy
        books.ledger.open_account("clinic", privacy.relation, privacy.protected_unit, privacy.budget, "benchmark")
        approval = approve(books.ledger, spec, planned.plan)
    with stage("counting and measuring"), closing(named_tree(spec, out)) as opened:
        bought = measure(replace(counted_tree(opened, planned), timed=told.__setitem__), planned, approval, books)
    with stage("making parts"):
        places = parts_beside(spec, approval.mids, books, out)
        made = generate_rows(bought, planned, books.generators, place_of=places)
    with stage("checking"):
        agreements = require_sound(made, bought, planned, verdict=expectations_failed)
    with stage("publishing"):
        release = prepare_release(made, bought, agreements, planned, approval, books.ledger)
        published = publish_recorded(
            open_target(spec, out), signed(release, books), books.ledger, "clinic", approval.mids
        )
    data = [path for path in Path(published.location).glob("data/*/*") if path.is_file()]
    return {
        "rows": {fact.name: fact.rows for fact in published.manifest.tables},
        "parts": len(release.rows),
        "stages": stages,
        "counting": told,
        "bytes": sum(path.stat().st_size for path in data),
        "apart_mean": float(np.mean([line.distance for line in agreements])),
        "apart_max": max(line.distance for line in agreements),
    }


def main(words: list[str]) -> None:
    what, place, last = words[0], Path(words[1]), words[2]
    if what == "tables":
        if not place.is_dir():
            write_tables(place.with_suffix(".partial"), int(last))
            place.with_suffix(".partial").replace(place)
        return
    print(json.dumps(_release(place, Path(last))))


if __name__ == "__main__":
    main(sys.argv[1:])

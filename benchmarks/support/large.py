"""A large table of mixed columns in Parquet, and a release of it stage by stage, in a process of its own.

`python -m benchmarks.support.large FOLDER ROWS COLUMNS OUT` makes what is missing of the table and prints one JSON
line: CPU seconds, wall seconds and peak memory of every stage, and of writing the published rows again with pyarrow.
With `maker` among the options it ends where parts would be made, and what makes them lies in that file.
"""

from __future__ import annotations

import json
import pickle
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILE_ROWS = 1_000_000
KINDS = ("age", "sex", "ward", "charge", "day", "stay", "again", "score", "region", "weight")
WARDS, REGIONS = list("ABCDEFGH"), [f"r{place}" for place in range(16)]
DECLARED: dict[str, dict[str, Any]] = {
    "age": {"type": "integer", "min": 0, "max": 110, "bins": 32},
    "sex": {"type": "category", "values": ["F", "M", "X"]},
    "ward": {"type": "category", "values": WARDS},
    "charge": {"type": "number", "min": 0, "max": 20000, "bins": 32, "scale": "log", "decimals": 2},
    "day": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month"},
    "stay": {"type": "integer", "min": 0, "max": 60, "bins": 32},
    "again": {"type": "boolean"},
    "score": {"type": "number", "min": -4, "max": 4, "bins": 32},
    "region": {"type": "category", "values": REGIONS},
    "weight": {"type": "number", "min": 30, "max": 200, "bins": 32, "decimals": 1},
}


def columns_of(number: int) -> dict[str, dict[str, Any]]:
    """So many columns: the ten kinds in turn."""
    return {f"{KINDS[i % 10]}_{i // 10}": DECLARED[KINDS[i % 10]] for i in range(number)}


def rows_of(rows: int, columns: int, seed: int) -> pa.Table:
    """Columns that hang together by one hidden number a row."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal(rows)
    made = {}
    for place in range(columns):
        share = (0.6, 0.2, 0.5, 0.7, 0.1, 0.6, 0.5, 0.8, 0.3, 0.4)[place % 10]
        drawn = share * hidden + np.sqrt(1 - share**2) * rng.standard_normal(rows)
        made[f"{KINDS[place % 10]}_{place // 10}"] = _column(KINDS[place % 10], drawn)
    return pa.table(made)


def _column(kind: str, drawn: np.ndarray) -> pa.Array:
    match kind:
        case "age":
            return pa.array(np.clip(45 + 20 * drawn, 0, 110).astype(np.int64))
        case "sex":
            return pa.array(["F", "M", "X"]).take(pa.array(np.searchsorted([0.0, 1.8], drawn)))
        case "ward":
            return pa.array(WARDS).take(pa.array(np.clip(drawn * 1.5 + 4, 0, 7).astype(np.int64)))
        case "charge":
            return pa.array(np.round(np.clip(np.exp(5 + 1.2 * drawn), 0, 20000), 2))
        case "day":
            return pa.array((20454 + np.clip(180 + 90 * drawn, 0, 364)).astype(np.int32)).cast(pa.date32())
        case "stay":
            return pa.array(np.clip(np.exp(1 + 0.8 * drawn), 0, 60).astype(np.int64))
        case "again":
            return pa.array(drawn > 1)
        case "score":
            return pa.array(np.clip(drawn, -4, 4))
        case "region":
            return pa.array(REGIONS).take(pa.array(np.clip(drawn * 3 + 8, 0, 15).astype(np.int64)))
        case _:
            return pa.array(np.round(np.clip(75 + 15 * drawn, 30, 200), 1))


def make_table(folder: Path, rows: int, columns: int, own: int | None = None) -> Path:
    """The folder of its Parquet files; those that are there already are not made again. Of `own` files on they are the
    first ones once more, under other names: for who reads them they are as good as new ones."""
    place = folder / f"large-{rows}x{columns}{'' if own is None else f'-own-{own}'}"
    place.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        file = place / f"{number:05d}.parquet"
        if own is not None and number >= own:
            if not file.exists():
                file.hardlink_to(place / f"{number % own:05d}.parquet")
        elif not file.exists():
            partial = file.with_suffix(".partial")
            pq.write_table(rows_of(min(FILE_ROWS, rows - start), columns, number), partial, compression="zstd")
            partial.replace(file)
    return place


class OnlyFitted(Exception):
    """The maker of the parts was asked for, and none of them."""


@dataclass
class Stage:
    cpu: float
    wall: float
    peak_mb: float


@dataclass(frozen=True)
class TimedCounts:
    """A private table whose counting is a stage of its own."""

    table: Any
    stage: Callable[[str], AbstractContextManager[None]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    def counts(self, cliques: Any, weights: Any = None) -> Any:
        with self.stage("counting"):
            return self.table.counts(cliques, weights)


def measured_release(folder: Path, rows: int, columns: int, out: Path, **options: str) -> dict[str, Any]:
    """In a process of its own, whose peak is the release's."""
    make_table(folder, rows, columns, _own(options))
    arguments = [str(folder), str(rows), str(columns), str(out), json.dumps(options)]
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.support.large", *arguments], check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


def _own(options: dict[str, str]) -> int | None:
    return int(options["own"]) if "own" in options else None


def _release(folder: Path, rows: int, columns: int, out: Path, options: dict[str, str]) -> dict[str, Any]:
    stages: dict[str, Stage] = {"starting": Stage(time.process_time(), 0.0, 0.0)}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), _cpu()
        _forget_peak()
        yield
        stages[name] = Stage(_cpu() - cpu, time.perf_counter() - wall, _peak_mb())

    with stage("importing"):
        from understudy.pipelines.counting.counting import LocalTable
        from understudy.pipelines.publishing.targets.base import open_target
        from understudy.pipelines.releasing.approving import approve
        from understudy.pipelines.releasing.books import Books
        from understudy.pipelines.releasing.checking import require_sound
        from understudy.pipelines.releasing.generating import generate_rows, parts_beside
        from understudy.pipelines.releasing.keys import signed
        from understudy.pipelines.releasing.making import by_threads
        from understudy.pipelines.releasing.measuring import counted_here, measure, named_source
        from understudy.pipelines.releasing.planning import plan_release
        from understudy.pipelines.releasing.preparing import prepare_release
        from understudy.pipelines.releasing.recording import publish_recorded
        from understudy.pipelines.releasing.workspace import Workspace
        from understudy.pipelines.sources.memory import ArrowSource
        from understudy.pipelines.spec.reading import spec_of

    source = make_table(folder, rows, columns, _own(options))
    home = out / "home"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    wanted = int(float(options.get("wanted", rows)))
    spec = spec_of(
        {
            "name": "large",
            "source": {"uri": str(source), "snapshot": "s"},
            "privacy": {"account": "large", "epsilon": 1.0, "delta": 1e-9},
            "columns": columns_of(columns),
            "publish": {"to": str(out / "releases"), "rows": wanted},
        }
    )
    with stage("planning"):
        planned = plan_release(spec)
        books = Books.open(Workspace.from_environment({"UNDERSTUDY_HOME": str(home)}))
        privacy = spec.privacy
        books.ledger.open_account("large", privacy.relation, privacy.protected_unit, privacy.budget, "benchmark")
        approval = approve(books.ledger, spec, planned.plan)
    with stage("loading loops"):  # what is compiled is loaded at first use, once a process
        some = ArrowSource(rows_of(1000, columns, 0))
        LocalTable(some, planned.domain, privacy.protected_unit, b"k" * 32).counts(planned.plan.counted)
    with stage("measuring"), closing(named_source(spec, out)) as opened:
        table = TimedCounts(counted_here(opened, planned), stage)
        measured = measure(table, planned, approval, books)
    both, counting = stages["measuring"], stages["counting"]
    stages["measuring"] = Stage(both.cpu - counting.cpu, both.wall - counting.wall, both.peak_mb)
    if options.get("until") == "measuring":
        return {"rows": wanted, "columns": columns, "stages": {name: vars(each) for name, each in stages.items()}}
    started = [0.0, 0.0, 0.0]

    def fitted(maker: Any, numbers: Any) -> Any:
        started[:] = [_cpu(), time.perf_counter(), _peak_mb()]
        _forget_peak()
        if "maker" in options:
            Path(options["maker"]).write_bytes(pickle.dumps(maker.elsewhere()))
            raise OnlyFitted
        return by_threads(maker, numbers)

    begun = (_cpu(), time.perf_counter())
    _forget_peak()
    places = parts_beside(spec, approval.mids, books, out)
    synthetic = None
    with suppress(OnlyFitted):
        synthetic = generate_rows(measured, planned, books.generators, place_of=places, workers=fitted)
    ended = (_cpu(), time.perf_counter())
    between = started if started[0] else [*ended, _peak_mb()]
    stages["fitting"] = Stage(between[0] - begun[0], between[1] - begun[1], between[2])
    if synthetic is None:
        return {"rows": wanted, "columns": columns, "stages": {name: vars(each) for name, each in stages.items()}}
    stages["making parts"] = Stage(ended[0] - between[0], ended[1] - between[1], _peak_mb())
    with stage("validating"):
        from understudy.tasks.engines.expectations import expectations_failed

        agreements = require_sound(synthetic, measured, planned, verdict=expectations_failed)
    with stage("publishing"):
        release = prepare_release(synthetic, measured, agreements, planned, approval, books.ledger)
        target = open_target(spec, out)
        published = publish_recorded(target, signed(release, books), books.ledger, "large", approval.mids)
    peak = max(each.peak_mb for each in stages.values())
    total = {"cpu": _cpu(), "peak_mb": peak, "wall": sum(each.wall for each in stages.values())}
    data = sorted((Path(published.location) / "data").iterdir())
    return {
        "rows": wanted,
        "columns": columns,
        "total": total,
        "stages": {name: vars(each) for name, each in stages.items()},
        "bytes": sum(path.stat().st_size for path in data),
        "files": len(data),
        "pyarrow_cpu": _written_again(data, out / "again.parquet"),
        "agreement_mean": float(np.mean([line.distance for line in agreements if " x " in line.query])),
        "agreement_max": max(line.distance for line in agreements),
        **_distances(source, data, planned),
    }


def _written_again(files: list[Path], path: Path) -> float:
    """CPU seconds of writing the published rows with pyarrow, as it comes and compressed as they are; reading them is
    not counted."""
    spent = 0.0
    for file in files:
        rows = pq.read_table(file)
        start = _cpu()
        pq.write_table(rows, path, compression="zstd")
        spent += _cpu() - start
    path.unlink()
    return spent


def _distances(source: Path, data: list[Path], planned: Any) -> dict[str, float]:
    """Total variation of every pair of columns between published rows and real ones, which a benchmark may see."""
    from understudy.pipelines.counting.counting import LocalTable
    from understudy.pipelines.privacy.relation import Unit
    from understudy.pipelines.sources.files.parquet import ParquetSource

    domain = planned.domain
    pairs = list(combinations(range(len(domain.columns)), 2))
    both = []
    for place in (source, data[0].parent):
        counts = LocalTable(ParquetSource(place), domain, Unit(), b"k" * 32).counts(pairs)
        both.append([table / max(1, table.sum()) for table in counts])
    apart = [float(np.abs(real - made).sum() / 2) for real, made in zip(*both, strict=True)]
    return {"two_way_mean": float(np.mean(apart)), "two_way_max": max(apart)}


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _peak_mb() -> float:
    """The most memory that this process held since the peak was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")  # as proc(5) has it


if __name__ == "__main__":
    print(json.dumps(_release(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]),
                              json.loads(sys.argv[5]) if len(sys.argv) > 5 else {})))  # fmt: skip

"""Whole releases of neighbours by the command, through the flow: exit codes, what is printed, what the orchestrator
keeps (runs, states, logs, artifacts), file names, manifests, published rows and rows of the ledger are the same.

The second command is handed what the first one's draws gave, at the door (`test_whole.Door`)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.auditing.places import KINDS
from tests.auditing.sizes import TIMES, done
from tests.auditing.test_whole import Door, spec_of, stripped
from tests.flows.conftest import run as run
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.words import same_copies
from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.spec.model import ReleaseSpec

Run = Callable[..., Result]
SLOWER = [("gaussian", "duckdb"), ("discovery, people", "sqlite"), ("privpgd, replaced", "postgresql")]
pytestmark = pytest.mark.usefixtures("prefect_server")


@dataclass(frozen=True)
class Told:
    """All that an onlooker has of commands that ran one after another."""

    ended: tuple[tuple[int, str], ...]
    charges: tuple[Any, ...]
    history: tuple[str, ...]
    files: tuple[str, ...]
    manifest: Any
    table: pa.Table | None
    kept: tuple[str, ...]
    draws: tuple[tuple[str, str], ...]


class Commands:
    """The commands of one side, in a folder and a home of its own."""

    def __init__(self, folder: Path, run: Run, door: Door, kind: str, engine: str = "") -> None:
        self.folder, self.run, self.door, self.kind, self.engine = folder, run, door, kind, engine

    def told(self, spec: ReleaseSpec, table: pa.Table, fails_at: str = "") -> Told:
        self.folder.mkdir(parents=True)
        with pytest.MonkeyPatch.context() as patch, same_copies(7):
            patch.setenv("UNDERSTUDY_HOME", str(self.folder / "home"))
            patch.setenv("AUDITED", f"sqlite:///{self.folder / 't.db'}")
            patch.setattr(Mechanism, "draw", lambda mechanism, randomness: self.door(mechanism, randomness))
            place = KINDS[self.kind](table, self.folder, spec)
            path = self._written(spec, place)
            unit = spec.privacy.unit
            people = ("--entity", unit.entity, "--max-rows", unit.max_rows) if unit.entity else ()
            relation = ("--relation", spec.privacy.relation.value, "--own-delta", "5e-6")
            opened = self.run("ledger", "open", "audit", "--epsilon", 60, "--delta", "1e-5", *relation, *people)
            assert opened.exit_code == 0, opened.output
            before = set(flow_runs())
            ended = []
            if fails_at:
                with pytest.MonkeyPatch.context() as fault:
                    fault.setenv(VARIABLE, f"{fails_at}:raise")
                    ended.append(self._release(path))
                ended.append(self._release(path, "--pay-again"))
            else:
                ended.append(self._release(path))
            ended.append(self._release(path))
            kept = tuple(kept_of(each, self.folder) for each in flow_runs() if each not in before)
        return self._seen(ended, kept)

    def _written(self, spec: ReleaseSpec, place: dict[str, Any]) -> Path:
        tree = spec.model_dump(mode="json", exclude_defaults=True)
        tree["source"] = {**place, "snapshot": "1"}
        tree["publish"] = {"to": "releases/"}
        if self.engine:
            tree["compute"] = {"engine": self.engine}
        path = self.folder / "audited.yaml"
        path.write_text(canonical_json(tree))
        return path

    def _release(self, path: Path, *options: str) -> tuple[int, str]:
        done = self.run("release", path, *options)
        return done.exit_code, without_names(done.output, self.folder)

    def _seen(self, ended: list[tuple[int, str]], kept: tuple[str, ...]) -> Told:
        ledger = Ledger(f"sqlite:///{self.folder / 'home' / 'ledger.db'}")
        inside = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())
        inside = [file for file in inside if not file.startswith("t/")]  # the source's own, as many as it has rows for
        published = sorted(self.folder.glob("releases/audited/*/manifest.json"))
        manifest = None
        if published:
            import json

            manifest = stripped(json.loads(published[0].read_text()))
        return Told(
            ended=tuple(ended),
            charges=tuple((c.stage, c.event, c.state, c.attempt) for c in ledger.charges("audit")),
            history=tuple(entry.action for entry in ledger.history("audit")),
            files=tuple(without_names(file, self.folder) for file in inside if ".db-" not in file),
            manifest=without_hashes(manifest),
            table=pq.read_table(published[0].parent / "data") if published else None,
            kept=kept,
            draws=tuple(self.door.given),
        )


def flow_runs() -> list[str]:
    return [each["id"] for each in asked("flow_runs", {"sort": "START_TIME_ASC", "limit": 200})]


def asked(kind: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    import httpx
    from prefect.settings import PREFECT_API_URL

    answer = httpx.post(f"{PREFECT_API_URL.value()}/{kind}/filter", json=body, timeout=60)
    answer.raise_for_status()
    return list(answer.json())


def kept_of(flow_run: str, folder: Path) -> str:
    """What the orchestrator keeps of a run, without ids and clocks."""
    mine = {"flow_runs": {"id": {"any_": [flow_run]}}, "limit": 200}
    [own] = asked("flow_runs", mine)
    tasks = asked("task_runs", mine)
    artifacts = asked("artifacts", mine)
    logs = asked("logs", {"logs": {"flow_run_id": {"any_": [flow_run]}}, "limit": 200})
    told = [own["state"]["type"], own["state"]["message"], own["parameters"], own["tags"]]
    states = [
        (each["task_key"], each["state_type"], (each["state"] or {}).get("message"), each["run_count"])
        for each in tasks
    ]
    said = [(each["level"], each["message"]) for each in logs]
    shown = [(each["key"], each["type"], each["data"], each["description"]) for each in artifacts]
    return without_names(repr((told, sorted(map(repr, states)), said, sorted(map(repr, shown)))), folder)


def without_names(text: str, folder: Path) -> str:
    """Without the folder, ids, keys, hashes, clocks and durations."""
    text = re.sub(r"\\+_", "_", text).replace(str(folder), "<folder>")  # Markdown escapes what begins emphasis
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00| UTC)?", "<when>", text)
    text = re.sub(r"\d{8}T\d{6}\w*", "<when>", text)
    text = re.sub(r"[0-9a-f]{7,}", "#", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(ms|s|seconds?|minutes?)\b", "<time>", text)
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("<time>"))  # what took long


def without_hashes(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: without_hashes(value) for key, value in tree.items() if "sha256" not in key and key != "hash"}
    if isinstance(tree, list):
        return [without_hashes(each) for each in tree]
    return re.sub(r"[0-9a-f]{16,}", "#", tree) if isinstance(tree, str) else tree


def compared(case: str, kind: str, rng: random.Random, folder: Path, run: Run, **how: str) -> tuple[Told, Told]:
    spec, door = spec_of(case), Door()
    pair = made_pair(spec, rng)
    fails_at, engine = how.get("fails_at", ""), how.get("engine", "")
    first = Commands(folder / "one", run, door, kind, engine).told(spec, pair.table, fails_at)
    second = Commands(folder / "two", run, door.again(), kind, engine).told(spec, pair.neighbour, fails_at)
    return first, second


@pytest.mark.parametrize(
    ("case", "kind"),
    [("privpgd, people", "csv"), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOWER)],
)
def test_nothing_that_a_command_leaves_tells_a_table_from_a_neighbour(
    case: str, kind: str, tmp_path: Path, run: Run
) -> None:
    for turn in range(TIMES):
        one, other = compared(case, kind, random.Random(turn), tmp_path / str(turn), run)
        assert one == other
        assert [code for code, _ in one.ended] == [0, 0], one.ended
        assert one.manifest is not None
        assert one.kept
        done("by command")


@pytest.mark.slow
@pytest.mark.parametrize("fails_at", ["before_privatize", "after_t1", "after_draw", "after_generate", "publish_staged"])
def test_nor_do_commands_that_stop_and_are_given_again(fails_at: str, tmp_path: Path, run: Run) -> None:
    for turn in range(TIMES):
        one, other = compared(
            "privpgd, people", "sqlite", random.Random(turn), tmp_path / str(turn), run, fails_at=fails_at
        )
        assert one == other
        assert one.ended[0][0] != 0
        assert one.ended[-1][0] == 0, one.ended
        done("by command, stopped and given again")


@pytest.mark.slow
def test_nor_does_a_cluster_that_loses_a_worker(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each side is counted by two workers, of which one is killed while it reads."""
    pytest.importorskip("distributed")
    from tests.counting.slow_source import SlowSource
    from tests.dask_cluster import dask_cluster

    spec, door = spec_of("privpgd, people"), Door()
    pair, found = made_pair(spec, random.Random(4)), []
    for side, table in (("one", pair.table), ("two", pair.neighbour)):
        (tmp_path / f"cluster {side}").mkdir()
        with dask_cluster(tmp_path / f"cluster {side}") as cluster, monkeypatch.context() as patch:
            patch.setenv("UNDERSTUDY_DASK_SCHEDULER", cluster.address)
            folder = tmp_path / side
            patch.setattr(
                "understudy.pipelines.releasing.measuring.open_source",
                lambda *_, folder=folder: SlowSource(folder / "t", 0.15),
            )
            with cluster.killing_a_worker():
                commands = Commands(folder, run, door if side == "one" else door.again(), "parquet files", "dask")
                found.append(commands.told(spec, table))
    assert found[0] == found[1]
    assert found[0].ended[0][0] == 0, found[0].ended
    done("on a cluster that loses a worker")

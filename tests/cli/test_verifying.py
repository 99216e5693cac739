"""`understudy verify` and `recertify`: what was changed after publication is refused, each time with its reason."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import understudy
from understudy.cli.main import main
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.signing import SigningKey

SPEC: dict[str, Any] = {
    "name": "visits",
    "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
    "columns": {"age": {"type": "integer", "min": 0, "max": 110, "bins": 11}},
    "method": {"name": "privpgd", "marginals": "all-1way"},
    "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
}
PRIVATE = pa.table({"age": np.arange(1000) % 100})


@dataclass(frozen=True)
class World:
    """A home, and two releases of one name, of which the second is the latest."""

    home: Path
    older: Path
    newer: Path

    @property
    def folder(self) -> Path:
        return self.newer.parent

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.newer / "manifest.json").read_text()))

    def correct(self, **changes: Any) -> None:
        """What a forger does: the manifest says what the files are now."""
        manifest = self.manifest
        for file in manifest["files"]:
            content = (self.newer / file["path"]).read_bytes()
            file |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        manifest["guarantee"] |= changes
        (self.newer / "manifest.json").write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")


def said(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> World:
    base = tmp_path_factory.mktemp("signed")
    places = []
    for snapshot in ("2026-09", "2026-10"):
        release = understudy.synthesize(PRIVATE, {**SPEC, "snapshot": snapshot}, cap=(5, 1e-6), home=base / "home")
        places.append(Path(release.save("releases", base=base)))
        time.sleep(1.1)  # created_at has whole seconds, and the second is to be the newer one
    return World(base / "home", *places)


@pytest.fixture
def world(made: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A copy to break."""
    base = made.home.parent
    shutil.copytree(base, tmp_path / "copy", symlinks=True)
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "copy" / "home"))
    monkeypatch.delenv("UNDERSTUDY_LEDGER", raising=False)
    monkeypatch.delenv("UNDERSTUDY_SIGNING_KEY", raising=False)
    moved = [tmp_path / "copy" / path.relative_to(base) for path in (made.home, made.older, made.newer)]
    return World(*moved)


def test_a_release_as_it_was_published_holds_by_every_name(world: World, tmp_path: Path) -> None:
    public = tmp_path / "public.pem"
    public.write_text(CliRunner().invoke(main, ["keys", "show"]).stdout)
    for name in (world.newer, world.older, world.newer / "manifest.json", world.folder, world.folder / "latest"):
        code, text = said("verify", name, "--key", public)
        assert (code, "NO" in text) == (0, False), text
        assert "signature: by key" in text
    code, text = said("recertify", world.older, world.newer)
    assert code == 0, text
    assert world.newer.name in said("verify", world.folder)[1]


def test_every_file_of_a_release_is_covered_to_the_byte(world: World) -> None:
    files = sorted(path for path in world.newer.rglob("*") if path.is_file())
    papers, rows = {"manifest.json", ENVELOPE, "card.html"}, {"part-00000.parquet"}
    beside = {"description.json", "numbers.parquet", "odcs.yaml", "sources.yml"}
    assert {path.name for path in files} == papers | rows | beside
    for path in files:
        whole = path.read_bytes()
        for at in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            code, text = said("verify", world.newer)
            assert code == 5, (path.name, at, text)
            assert "NO" in text or "cannot be read" in text
        path.write_bytes(whole)
    assert said("verify", world.newer)[0] == 0


def forged_epsilon(world: World) -> None:
    manifest = world.manifest
    told = manifest["guarantee"]["sentence"]
    epsilon = told.split("(")[1].split(",")[0]
    world.correct(epsilon=0.1, sentence=told.replace(epsilon, "0.1"))


def softened_event(world: World) -> None:
    """With the noise told larger as well, the arithmetic is right."""
    forged_epsilon(world)
    events = world.manifest["guarantee"]["events"]
    for event in events:
        event["event"] = {"kind": "gaussian", "noise_multiplier": 100.0}
    world.correct(events=events)


def private_rows(world: World) -> None:
    pq.write_table(PRIVATE, world.newer / "data" / "part-00000.parquet")
    world.correct()


def foreign_key(world: World) -> None:
    """Somebody else's key signs whatever is there now."""
    from understudy.pipelines.publishing.attesting import attest
    from understudy.pipelines.publishing.manifest import Manifest

    private_rows(world)
    key = SigningKey.create(world.home.parent / "foreign.pem")
    text = (world.newer / "manifest.json").read_text()
    envelope = attest(Manifest.model_validate(json.loads(text)), text, key)
    assert envelope is not None
    (world.newer / ENVELOPE).write_text(envelope)


def foreign_key_under_our_id(world: World) -> None:
    ours = json.loads((world.newer / ENVELOPE).read_text())["signatures"][0]["keyid"]
    foreign_key(world)
    envelope = json.loads((world.newer / ENVELOPE).read_text())
    envelope["signatures"][0]["keyid"] = ours
    (world.newer / ENVELOPE).write_text(json.dumps(envelope, separators=(",", ":"), sort_keys=True))


def older_copy(world: World) -> None:
    shutil.rmtree(world.newer)
    shutil.copytree(world.older, world.newer)


def older_envelope(world: World) -> None:
    shutil.copy(world.older / ENVELOPE, world.newer / ENVELOPE)


def extra_file(world: World) -> None:
    pq.write_table(PRIVATE, world.newer / "data" / "part-00001.parquet")


def extra_link(world: World) -> None:
    (world.newer / "more").symlink_to(world.home)


def missing_file(world: World) -> None:
    (world.newer / "card.html").unlink()


def truncated_envelope(world: World) -> None:
    text = (world.newer / ENVELOPE).read_text()
    (world.newer / ENVELOPE).write_text(text[: len(text) // 2])


def no_envelope(world: World) -> None:
    (world.newer / ENVELOPE).unlink()


def latest_turned_back(world: World) -> None:
    (world.folder / "latest").unlink()
    (world.folder / "latest").symlink_to(world.older.name)


def emptied_manifest(world: World) -> None:
    manifest = world.manifest
    (world.newer / "manifest.json").write_text(json.dumps({**manifest, "files": [], "spec": {}}))


ATTACKS: list[tuple[Callable[[World], None], str]] = [
    (forged_epsilon, "NO   epsilon: "),
    (forged_epsilon, "NO   statement: what was signed is another manifest.json"),
    (softened_event, "NO   statement: what was signed is another manifest.json"),
    (private_rows, "NO   statement: what was signed is another data/part-00000.parquet, manifest.json"),
    (foreign_key, "which nobody vouches for here: pass --key"),
    (foreign_key_under_our_id, "whose id it carries: it was changed or forged"),
    (older_copy, "NO   release id: is 2026-09"),
    (older_envelope, "NO   statement: what was signed is another"),
    (extra_file, "NO   no other file: not in the manifest: data/part-00001.parquet"),
    (extra_link, "NO   no other file: not in the manifest: more"),
    (missing_file, "NO   card.html: missing"),
    (truncated_envelope, "NO   signature: the envelope is cut short"),
    (no_envelope, "NO   signature: unsigned"),
    (latest_turned_back, "NO   latest: turned back: it shows 2026-09"),
    (emptied_manifest, "NO   epsilon: the events in the manifest cannot be read"),
]


@pytest.mark.parametrize(("attack", "reason"), ATTACKS, ids=lambda one: getattr(one, "__name__", None))
def test_an_attack_is_refused_with_its_reason(world: World, attack: Callable[[World], None], reason: str) -> None:
    attack(world)
    code, text = said("verify", world.newer)
    assert code == 5, text
    assert reason in text
    # By the folder the latest is meant: readers who start there are warned as well.
    assert said("verify", world.folder)[0] == 5
    assert said("recertify", world.newer)[0] == 5


def test_a_retired_release_holds_and_its_rows_are_not_slipped_in_again(world: World) -> None:
    kept = (world.older / "data" / "part-00000.parquet").read_bytes()
    shutil.rmtree(world.older / "data")
    (world.older / "retired.json").write_text("{}\n")
    code, text = said("verify", world.older)
    assert (code, "retired" in text) == (0, True), text
    (world.older / "data").mkdir()
    (world.older / "data" / "part-00000.parquet").write_bytes(kept)
    assert "NO   data/part-00000.parquet: retired, and yet it is there" in said("verify", world.older)[1]


def test_whoever_has_no_key_is_told_which_one_signed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = tmp_path / "public.pem"
    public.write_text(CliRunner().invoke(main, ["keys", "show"]).stdout)
    key = json.loads((world.newer / ENVELOPE).read_text())["signatures"][0]["keyid"]
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "elsewhere"))
    code, text = said("verify", world.newer)
    assert (code, f"signed by {key[:16]}, which nobody vouches for here: pass --key" in text) == (5, True), text
    assert said("verify", world.newer, "--key", public)[0] == 0
    assert not (tmp_path / "elsewhere").exists()
    other = SigningKey.create(tmp_path / "other.pem").public.pem
    (tmp_path / "other.pub").write_text(other)
    assert said("verify", world.newer, "--key", tmp_path / "other.pub")[0] == 5
    assert said("verify", world.newer, "--key", tmp_path / "other.pub", "--key", public)[0] == 0
    for wrong in (tmp_path / "none.pem", world.newer / "data" / "part-00000.parquet", world.newer / "card.html"):
        assert said("verify", world.newer, "--key", wrong)[0] == 2
    assert said("verify", tmp_path)[0] == 2


def test_recertify_holds_an_old_release_and_calls_it_unsigned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older version left it: nothing is signed, and the history names no key before its charge."""
    from understudy.pipelines.privacy.ledger.ledger import Ledger

    with monkeypatch.context() as old:
        old.setattr(Ledger, "record_key", lambda *_: None)
        release = understudy.synthesize(PRIVATE, {**SPEC, "snapshot": "2026-08"}, cap=(5, 1e-6), home=tmp_path)
        place = Path(release.save("releases", base=tmp_path))
    (place / ENVELOPE).unlink()
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path))
    for ledger in ((), ("--without-ledger",)):
        code, text = said("recertify", place, *ledger)
        assert code == 0, text
        assert "unsigned" in text
    Ledger(f"sqlite:///{tmp_path}/ledger.db").record_key("clinic", "id", "a key that came later")
    assert said("recertify", place)[0] == 0
    assert said("verify", place)[0] == 5


def test_the_history_names_the_key_before_the_charge_and_still_verifies(world: World) -> None:
    code, text = said("ledger", "history", "clinic")
    assert code == 0
    order = [line.split()[2] for line in text.splitlines()[1:]]
    assert order[:3] == ["opened", "key", "charged"], text
    assert order.count("key") == 1
    assert said("ledger", "verify")[0] == 0


def test_verify_needs_neither_ledger_nor_orchestrator(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own in which neither can be imported; the time it took is printed, not judged."""
    code = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"prefect", "sqlalchemy", "dask", "great_expectations", "torch", "numba", "duckdb"}:
            raise ImportError("blocked: " + name)
sys.meta_path.insert(0, Blocked())
from understudy.cli.main import main
main(["verify", sys.argv[1]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(world.newer)], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    with capsys.disabled():
        print(f"\n  {done.stdout.splitlines()[-1]}")
    assert "checked in" in done.stdout


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(["manifest.json", ENVELOPE]), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_any_changed_byte_of_manifest_or_envelope_is_refused(
    world: World, name: str, where: float, change: int
) -> None:
    path = world.newer / name
    whole = path.read_bytes()
    at = int(where * len(whole))
    path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    try:
        code, text = said("verify", world.newer)
    finally:
        path.write_bytes(whole)
    assert code == 5, text


def test_every_byte_of_the_envelope_counts(world: World) -> None:
    """Also those that no signature covers: the key's id, spare bits of base64, spaces."""
    from understudy.pipelines.publishing.attesting import signature_findings
    from understudy.pipelines.publishing.verifying import stored_release
    from understudy.pipelines.releasing.keys import vouched
    from understudy.pipelines.releasing.workspace import Workspace

    found, keys = stored_release(str(world.newer)), vouched(Workspace.from_environment())
    whole = (world.newer / ENVELOPE).read_bytes()

    def holds(envelope: bytes) -> bool:
        read = envelope.decode(errors="replace")
        return all(finding.holds for finding in signature_findings(found.manifest, found.text, read, keys))

    assert holds(whole)
    for at in range(len(whole)):
        for change in (1, 2, 4, 0x20):
            assert not holds(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :]), at
    for at in (0, 1, len(whole)):
        assert not holds(whole[:at] + b" " + whole[at:])

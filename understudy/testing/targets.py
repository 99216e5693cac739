"""What every target owes, as tests. Subclass `TargetContract`, give its four methods, and run pytest.

A target either shows the whole release or the one before it, whenever its process dies: publishing is killed, in a
process of its own, at lines all over the target's own file.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from understudy.pipelines.errors import PublishError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.publishing.manifest import (
    AccountState,
    Manifest,
    charged_event,
    guarantee_of,
    public_spec,
    software_versions,
)
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, Target, open_target
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.in_parts import InMemory, Parts
from understudy.testing.tables import COLUMNS, example, spec_of_columns

ROWS = 40
Rows = list[dict[str, Any]]


class TargetContract(ABC):
    kills: ClassVar[int] = 12
    """Lines at which a publication is killed, spread over all that it runs through."""
    can_fork: ClassVar[bool] = True
    """Whether its library works in a fork of a process that used it; else a fresh process publishes, which is slower.
    The class of the tests is imported there, so it is at the top of its module."""

    @abstractmethod
    def describe(self, place: Path) -> PublishSpec:
        """What a spec says of a target that is empty yet; relative paths start at `place`, a folder for each."""

    @abstractmethod
    def read(self, place: Path, name: str) -> pa.Table | None:
        """What a reader of the target finds for that name now, or None."""

    @abstractmethod
    def address(self, place: Path, published: Published) -> str:
        """What `understudy verify` is told to check the release."""

    @abstractmethod
    def tamper(self, place: Path, published: Published) -> None:
        """Change one value of the published rows, behind the target's back."""

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any] | None:
        """Put something that Understudy did not publish where the release would go, and give what reads it back.

        None: no stranger's thing can be in its way."""
        return None

    def open(self, place: Path) -> Target:
        return open_target(self.spec(place), place)

    def spec(self, place: Path) -> ReleaseSpec:
        return spec_of_columns(COLUMNS).model_copy(update={"publish": self.describe(place)})

    def release(self, number: int, key: SigningKey | None = None) -> PreparedRelease:
        """The number-th release of a name: later ones are newer."""
        spec = spec_of_columns(COLUMNS)
        table = example(ROWS + number, seed=number)
        event = Gaussian(8.0)
        loss = composed_loss([event], float(spec.privacy.delta), spec.privacy.relation)
        manifest = Manifest(
            name=spec.name,
            release_id=f"2026-{number:02d}-abc",
            snapshot=f"2026-{number:02d}",
            created_at=f"2026-{number:02d}-01T00:00:00+00:00",
            guarantee=guarantee_of(loss, spec, [charged_event("marginals", "m" * 64, event, "s" * 64)]),
            account=AccountState(
                name="contract", cap_epsilon="3", cap_delta="1e-6", spent_epsilon=1.0, releases_charged=1
            ),
            method="privpgd",
            steps=("count", "noise"),
            noise=(),
            rows=table.num_rows,
            columns=tuple(table.column_names),
            spec_hash=spec.hash,
            spec=public_spec(spec),
            versions=software_versions(),
        )
        return PreparedRelease(manifest, Parts.of(table), "<html>card</html>", key)

    def shown(self, place: Path) -> Rows | None:
        found = self.read(place, "contract")
        return None if found is None else _rows(found)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        return _made(tmp_path / "place")

    def test_what_is_published_is_read_back(self, place: Path) -> None:
        target, release = self.open(place), self.release(1)
        name, identity = release.manifest.name, release.manifest.release_id
        target.ready(name)
        assert target.recover(name, identity) is None
        assert target.newest(name) == ()
        assert self.shown(place) is None
        published = target.publish(release)
        assert self.shown(place) == _rows(release.table)
        assert published.location
        assert published.card
        assert {manifest.release_id for manifest in self.open(place).newest(name)} == {identity}
        found = self.open(place).recover(name, identity)
        assert found is not None
        assert (found.manifest, found.manifest_sha256) == (published.manifest, published.manifest_sha256)
        assert published.manifest.files
        self.open(place).ready(name)

    def test_a_release_in_several_parts_is_published_whole(self, place: Path) -> None:
        release = self.release(1)
        table, third = release.table, ROWS // 3
        cut = (table.slice(0, third), table.slice(third, third), table.slice(2 * third))
        rows = Parts(table.schema, tuple(part.num_rows for part in cut), InMemory(cut))
        published = self.open(place).publish(replace(release, rows=rows))
        assert self.shown(place) == _rows(table)
        found = self.open(place).recover(release.manifest.name, release.manifest.release_id)
        assert found is not None
        assert found.manifest_sha256 == published.manifest_sha256

    def test_publishing_twice_is_publishing_once(self, place: Path) -> None:
        release = self.release(1)
        first = self.open(place).publish(release)
        other = PreparedRelease(release.manifest, Parts.of(release.table.slice(0, 3)), release.card)
        again = self.open(place).publish(other)
        assert (again.manifest, again.manifest_sha256) == (first.manifest, first.manifest_sha256)
        assert self.shown(place) == _rows(release.table)

    def test_an_older_release_does_not_turn_it_back(self, place: Path) -> None:
        old, new = self.release(1), self.release(2)
        self.open(place).publish(old)
        self.open(place).publish(new)
        assert self.shown(place) == _rows(new.table)
        again = self.open(place).publish(old)
        assert again.manifest.release_id == old.manifest.release_id
        assert self.open(place).recover(old.manifest.name, old.manifest.release_id) is not None
        assert self.shown(place) == _rows(new.table)

    def test_what_others_keep_there_is_never_replaced(self, place: Path) -> None:
        release = self.release(1)
        theirs = self.squat(place, release)
        if theirs is None:
            pytest.skip("nothing of others can be in its way")
        before = theirs()
        with pytest.raises(PublishError):
            self.open(place).publish(release)
        assert theirs() == before

    def test_whoever_has_the_key_can_check_it(self, place: Path) -> None:
        key = _new_key()
        published = self.open(place).publish(self.release(1, key))
        certificate = verify_release(self.address(place, published), [key.public])
        assert certificate.holds, certificate.findings
        assert certificate.manifest == published.manifest
        stranger = verify_release(self.address(place, published), [_new_key().public])
        assert not stranger.holds

    def test_a_changed_value_is_found(self, place: Path) -> None:
        key = _new_key()
        release = self.release(1, key)
        published = self.open(place).publish(release)
        self.tamper(place, published)
        assert not verify_release(self.address(place, published), [key.public]).holds
        with pytest.raises(PublishError):
            self.open(place).recover(release.manifest.name, release.manifest.release_id)

    def test_old_releases_are_retired_or_gone(self, place: Path) -> None:
        releases = [self.release(number) for number in (1, 2, 3)]
        for release in releases:
            self.open(place).publish(release)
        name, ids = releases[0].manifest.name, [release.manifest.release_id for release in releases]
        gone = self.open(place).retire_old(name, 1)
        assert gone in ([], ids[:2])
        assert self.open(place).retire_old(name, 1) == []
        for identity in ids:
            retired = self.open(place).retired_release(name, identity)
            assert (retired is not None) == (identity in gone)
        assert self.shown(place) == _rows(releases[-1].table)

    def test_killed_anywhere_it_shows_the_old_release_or_the_new_one(self, tmp_path: Path) -> None:
        old, new = self.release(1), self.release(2)

        def publish(place: Path, line: int | None) -> int | None:
            act, file = partial(self._publish_anew, place, new), _file_of(type(self.open(place)))
            return _lines_in_a_fork(act, file, line) if self.can_fork else _lines_in_a_process(act, file, line)

        first = _made(tmp_path / "whole")
        self.open(first).publish(old)
        lines = publish(first, None)
        assert lines, "nothing of the target's own file was run"
        assert self.shown(first) == _rows(new.table)
        seen = set()
        for line in sorted({1 + number * (lines - 1) // (self.kills - 1) for number in range(self.kills)}):
            place = _made(tmp_path / f"killed-{line}")
            self.open(place).publish(old)
            assert publish(place, line) is None, f"it was not killed at line {line} of {lines}"
            shown = self.shown(place)
            assert shown in (_rows(old.table), _rows(new.table)), f"killed at line {line} of {lines}"
            seen.add(len(shown or ()))
            self.open(place).publish(new)
            assert self.shown(place) == _rows(new.table), f"not mended after a kill at line {line} of {lines}"
        assert old.table.num_rows in seen

    def _publish_anew(self, place: Path, release: PreparedRelease) -> None:
        self.open(place).publish(release)


def _file_of(kind: type) -> str | None:
    return sys.modules[kind.__module__].__file__


def _lines_in_a_process(act: Callable[[], None], file: str | None, line: int | None) -> int | None:
    """As `_lines_in_a_fork`, in a process that never used what this one did."""
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_tell, args=(act, file, line, tell))
    process.start()
    tell.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        return None
    assert told.poll(), "publishing failed in a process of its own"
    return int(told.recv())


def _run_and_tell(act: Callable[[], None], file: str | None, line: int | None, tell: Any) -> None:
    ran = _traced(act, file, line)
    tell.send(ran)


def _traced(act: Callable[[], None], file: str | None, line: int | None) -> int:
    """How many lines of the file were run; at the `line`-th of them the process is killed."""
    ran = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal ran
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            ran += 1
            if ran == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    signal.alarm(120)
    sys.settrace(trace)
    act()
    sys.settrace(None)
    return ran


def _lines_in_a_fork(act: Callable[[], None], file: str | None, line: int | None) -> int | None:
    """Run it in a forked process that kills itself at the `line`-th line of that file, and tell how many it ran if it
    came to its end."""
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: none of them is needed there
        process = os.fork()
    if process == 0:
        try:
            os.write(tell, str(_traced(act, file, line)).encode())
        finally:
            os._exit(0)
    os.close(tell)
    _, status = os.waitpid(process, 0)
    with os.fdopen(told, "rb") as answer:
        ended = answer.read()
    assert ended or os.WIFSIGNALED(status), "publishing failed in a process of its own"
    return int(ended) if ended else None


def _new_key() -> SigningKey:
    return SigningKey(Ed25519PrivateKey.generate())


def _made(place: Path) -> Path:
    place.mkdir()
    return place


def _rows(table: pa.Table) -> Rows:
    """In any order: a table has none."""
    return sorted(table.to_pylist(), key=lambda row: str(sorted(row.items(), key=lambda item: item[0])))

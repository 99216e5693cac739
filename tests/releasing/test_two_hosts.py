"""Two hosts with one PostgreSQL ledger and store and no shared directory: what one paid for, the other finishes.

A host is a network, process, hostname and mount namespace of its own: it reaches the database by TCP over a virtual
cable, sees neither the other's folder nor the database's socket, and cannot ask the kernel about the other's processes.
"""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.examples import SPEC, build_clinic
from tests.postgres import new_database, server
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace


def _namespaces_work() -> bool:
    name = f"us-{uuid.uuid4().hex[:8]}"
    with suppress(OSError):
        if os.geteuid() == 0 and subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0:
            return subprocess.run(["ip", "netns", "del", name], capture_output=True).returncode == 0
    return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _namespaces_work(), reason="needs root and network namespaces"),
]


class Cable:
    """Carries TCP connections to one of the root's addresses to the database's socket."""

    def __init__(self, address: str, path: str) -> None:
        self._path = path
        self._listener = socket.create_server((address, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._path)
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_carry, args=(source, target), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(1 << 16):
            target.sendall(content)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            end.close() if end is source else None


@dataclass(frozen=True)
class Host:
    name: str
    folder: Path
    hidden: tuple[Path, ...]
    ledger_url: str
    target_url: str

    def release(self, fault: str = "") -> tuple[int, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "UNDERSTUDY"))}
        environment = inherited | {
            "UNDERSTUDY_HOME": str(self.folder / "home"),
            "UNDERSTUDY_LEDGER": self.ledger_url,
            "UNDERSTUDY_STORE": "ledger",
            "UNDERSTUDY_FAULT": fault,
            "TARGET_URL": self.target_url,
            "TMPDIR": str(self.folder / "tmp"),
        }
        command = shlex.join([sys.executable, "-m", "understudy.cli.main", "release", "clinic.yaml"])
        hide = "".join(f"mount -t tmpfs none {shlex.quote(str(path))} && " for path in self.hidden)
        # Not as the first process of its namespace, which cannot kill itself.
        script = f"hostname {self.name} && {hide}{command}; exit $?"
        inside = ["unshare", "--pid", "--uts", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
        done = subprocess.run(
            ["ip", "netns", "exec", self.name, *inside],
            cwd=self.folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@dataclass(frozen=True)
class Pair:
    one: Host
    other: Host
    url: str
    schema: str

    def published(self) -> int:
        with psycopg.connect(server().get_uri()) as connection:
            query = f"SELECT count(*) FROM information_schema.tables WHERE table_schema = '{self.schema}'"
            assert connection.execute(query).fetchone() is not None
            found = connection.execute(f"SELECT count(DISTINCT release_id) FROM {self.schema}.understudy_releases")
            return int(found.fetchone()[0])  # type: ignore[index]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    url = new_database()
    schema = url.rpartition("%3D")[2]
    data = Path(str(server().get_uri()).rpartition("host=")[2])
    Ledger(url)
    _open_account(url)
    names, cables, hosts = [f"us{uuid.uuid4().hex[:6]}" for _ in range(2)], [], []
    folders, block = [tmp_path / "one", tmp_path / "other"], uuid.uuid4().int % 4096
    try:
        for number, name in enumerate(names):
            net = f"10.{208 + 16 * number + block % 16}.{block // 16}"  # another run may be using others
            near, far = f"{net}.1", f"{net}.2"
            _ip("netns", "add", name)
            _ip("link", "add", f"{name}r", "type", "veth", "peer", "name", f"{name}h", "netns", name)
            _ip("addr", "add", f"{near}/30", "dev", f"{name}r")
            _ip("link", "set", f"{name}r", "up")
            _ip("-n", name, "addr", "add", f"{far}/30", "dev", f"{name}h")
            _ip("-n", name, "link", "set", f"{name}h", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            cables.append(Cable(near, str(next(data.glob(".s.PGSQL.*[0-9]")))))
            folder = folders[number]
            (folder / "tmp").mkdir(parents=True)
            build_clinic(folder)
            spec = SPEC.replace('snapshot: "2026-10"', 'snapshot: "2026-10", id: visits').replace(
                "{to: releases/}", f'{{to: "postgresql+env://TARGET_URL", table: {schema}.synthetic}}'
            )
            (folder / "clinic.yaml").write_text(spec + "generate: {epochs: 2, particles: 400, device: cpu}\n")
            address = f"postgres@{near}:{cables[-1].port}/postgres"
            hosts.append(
                Host(
                    name,
                    folder,
                    (folders[1 - number], data),
                    f"postgresql+psycopg://{address}?options=-csearch_path%3D{schema}",
                    f"postgresql://{address}",
                )
            )
            folders[1 - number].mkdir(exist_ok=True)
        yield Pair(hosts[0], hosts[1], url, schema)
    finally:
        for name in names:
            subprocess.run(["ip", "link", "del", f"{name}r"], capture_output=True)
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        for cable in cables:
            cable.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _open_account(url: str) -> None:
    from understudy.pipelines.privacy.relation import Budget, Relation, Unit

    Ledger(url).open_account("clinic", Relation.ADD_REMOVE, Unit("patient_id", 4), Budget("3", "1e-6"))


@pytest.mark.parametrize("fault", ["after_privatize", "measurement_renamed"])
def test_what_one_host_paid_for_is_finished_by_the_other_and_published_once(pair: Pair, fault: str) -> None:
    code, said = pair.one.release(fault)
    assert code == 137, said
    ledger, store = Ledger(pair.url), store_of(Workspace(pair.one.folder, pair.url, store="ledger"))
    (charge,) = ledger.charges("clinic")
    assert charge.state is (State.MEASURED if fault == "after_privatize" else State.CHARGED)
    assert store.mids() == [charge.mid]
    code, said = pair.other.release()
    assert code == 0, said
    (measured,) = ledger.charges("clinic")
    assert (measured.mid, measured.state, measured.holder) == (charge.mid, State.MEASURED, charge.holder)
    assert pair.published() == 1
    code, said = pair.one.release()
    assert code == 0, said
    assert (len(ledger.charges("clinic")), pair.published(), store.mids()) == (1, 1, [charge.mid])
    assert ledger.verify().ok
    assert not list(pair.one.folder.glob("home/measurements/*")) + list(pair.other.folder.glob("home/measurements/*"))

"""The database goes away: before T1, during it, after COMMIT was sent, between T1 and T2."""

from __future__ import annotations

import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.faults.harness import World
from tests.postgres import new_database
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.ledger import Ledger, State


class Proxy:
    """Sits between client and PostgreSQL. Passes a COMMIT on, waits for the server's answer, and cuts the line
    without delivering it: the client cannot know. `lose` holds the transactions to do that to, once each."""

    def __init__(self, directory: Path, server_socket: str) -> None:
        self.directory, self._server = directory, server_socket
        self.lose: list[str] = []
        self.seen: list[str] = []
        self.refuse = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(directory / ".s.PGSQL.5432"))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server:
            if self.refuse:
                return
            server.connect(self._server)
            cut = threading.Event()
            answers = threading.Thread(target=self._pump_answers, args=(server, client, cut), daemon=True)
            answers.start()
            transaction = "read"
            while data := _received(client):
                if b"INSERT INTO ledger_charges" in data:
                    transaction = "T1"
                elif b"SET state=" in data:
                    transaction = "T2"
                if b"COMMIT" in data:
                    self.seen.append(transaction)
                    if transaction in self.lose:
                        self.lose.remove(transaction)
                        cut.set()
                server.sendall(data)
            answers.join(0.5) if cut.is_set() else None

    def _pump_answers(self, server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
        while data := _received(server):
            if cut.is_set():
                client.shutdown(socket.SHUT_RDWR)
                return
            try:
                client.sendall(data)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except OSError:
        return b""


@pytest.fixture
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Proxy, str, str]]:
    """(the proxy, the ledger's URL through it, the direct URL)."""
    direct = new_database()
    host = parse_qs(urlsplit(direct).query)["host"][0]
    proxy = Proxy(tmp_path_factory.mktemp("p"), f"{host}/.s.PGSQL.5432")
    yield proxy, direct.replace(host, str(proxy.directory)), direct
    proxy.close()


@pytest.mark.parametrize("lost", [["T1"], ["T2"], ["T1", "T2"]])
def test_a_commit_whose_answer_was_lost_is_found_and_not_repeated(zygote, proxied, tmp_path, lost):
    proxy, url, direct = proxied
    world = World(zygote, tmp_path / "world", direct)
    proxy.lose = list(lost)
    answer = world.release(url=url)
    assert answer.get("published"), answer
    assert proxy.lose == []
    assert world.violations() == []
    assert (world.states(), len(world.journal("draw"))) == ([State.MEASURED], 1)


def test_answers_to_reads_are_lost_too(zygote, proxied, tmp_path):
    proxy, url, direct = proxied
    world = World(zygote, tmp_path / "world", direct)
    proxy.lose = ["read", "read", "T1", "T2"]
    assert world.release(url=url).get("published")
    assert proxy.lose == []
    assert world.violations() == []
    assert world.states() == [State.MEASURED]


def test_a_server_that_is_gone_between_t1_and_t2_loses_nothing(zygote, proxied, tmp_path):
    """T1 commits, then nobody answers. The draw is on disk; when the server is back, a retry finishes T2."""
    proxy, url, direct = proxied
    world = World(zygote, tmp_path / "world", direct)
    watcher = threading.Thread(target=_refuse_after_t1, args=(proxy,))
    watcher.start()
    answer = world.release(url=url, draw_seconds=0.5, ledger_patience=0.5)
    watcher.join()
    assert answer.get("error") == "LedgerError", answer
    assert world.states() == [State.CHARGED]
    proxy.refuse = False
    assert world.release(url=url).get("published")
    assert world.violations() == []
    assert len(world.journal("draw")) == 1


def _refuse_after_t1(proxy: Proxy) -> None:
    waiting = threading.Event()
    for _ in range(6000):
        if "T1" in proxy.seen:
            break
        waiting.wait(0.005)
    proxy.refuse = True


def test_a_server_that_is_away_stops_the_release_before_anything(zygote, proxied, tmp_path):
    proxy, url, direct = proxied
    world = World(zygote, tmp_path / "world", direct)
    proxy.refuse = True
    answer = world.release(url=url)
    assert (answer["error"], answer["code"]) == ("LedgerError", 1)
    assert (world.states(), world.journal("draw")) == ([], [])
    proxy.refuse = False
    assert world.release(url=url).get("published")


@pytest.mark.parametrize("lost", ["T1", "T2"])
def test_sqlite_a_commit_that_took_effect_but_raised(tmp_path, monkeypatch, lost):
    """As when the disk reports an error after the write reached it."""
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    dialect: Any = ledger._database._engine.dialect
    commit, commits = dialect.do_commit, []

    def lossy(connection: Any) -> None:
        writing = connection.total_changes > 0
        commit(connection)
        if writing:
            commits.append(1)
            if len(commits) == {"T1": 1, "T2": 3}[lost]:
                raise sqlite3.OperationalError("connection lost")

    from understudy.pipelines.privacy.events import Gaussian
    from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Holder
    from understudy.pipelines.privacy.relation import Budget, Relation, Unit

    ledger.open_account("a", Relation.ADD_REMOVE, Unit(), Budget("3", "1e-6"))
    monkeypatch.setattr(dialect, "do_commit", lossy)
    monkeypatch.setattr(dialect, "is_disconnect", lambda error, connection, cursor: "connection lost" in str(error))
    request = ChargeRequest("a", Relation.ADD_REMOVE, Unit(), "r", "h", "s", "x", Gaussian(10.0))
    holder = Holder.here()
    charge = ledger.charge(request, holder)
    assert charge.holder == holder
    commits.append(1)
    assert ledger.record_measurement(charge.mid, "a" * 64, holder).state is State.MEASURED
    assert [entry.action for entry in ledger.history()] == ["opened", "charged", "measured"]
    assert ledger.verify().ok


def test_terminated_connections_roll_back(zygote, tmp_path):
    """An administrator ends all connections while releases run:

    each one retries, stops, or is burnt; none lies.
    """
    import psycopg

    from tests.postgres import server

    world = World(zygote, tmp_path / "world", new_database())
    stop = threading.Event()

    def terminate() -> None:
        with psycopg.connect(server().get_uri(), autocommit=True) as connection:
            while not stop.wait(0.05):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )

    thread = threading.Thread(target=terminate)
    thread.start()
    try:
        for index in range(4):
            world.zygote.run(*(world.job(f"s{index}") for _ in range(2)))
    finally:
        stop.set()
        thread.join()
    for index in range(4):
        world.release(f"s{index}")
    assert world.violations() == []
    assert State.CHARGED not in world.states()


def test_a_ledger_file_that_is_replaced_by_garbage_stops_everything(zygote, tmp_path):
    world = World(zygote, tmp_path / "world", f"sqlite:///{tmp_path}/ledger.db")
    world.release("one")
    for suffix in ("", "-wal", "-shm"):
        path = tmp_path / f"ledger.db{suffix}"
        if path.exists():
            path.write_bytes(b"garbage" * 1000)
    answer = world.release("two")
    assert (answer["error"], answer["code"]) == ("LedgerError", 1)
    with pytest.raises(LedgerError):
        world.ledger.balance("clinic")

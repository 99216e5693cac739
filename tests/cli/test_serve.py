"""`understudy serve` by a real server: what it shows, and that nothing else can be reached or changed."""

from __future__ import annotations

import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlencode

import duckdb
import pytest
import uvicorn
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.pages import faults, read_page
from tests.publishing.test_targets import prepared
from understudy.cli.main import main
from understudy.cli.site import TOKEN, Approvals, Site, site_app
from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.publishing.shelves import FolderShelf, shelf_at
from understudy.pipelines.publishing.targets.directory import DirectoryTarget
from understudy.pipelines.publishing.targets.duckdb_table import DuckDBTarget
from understudy.pipelines.publishing.targets.published_tables import RELEASES
from understudy.pipelines.publishing.targets.sqlite_table import SqliteTarget
from understudy.pipelines.releasing.tokens import sign_approval

PRIVATE = "canary-7f3"
PLACE = "/releases/clinic-visits/2026-10-abc"


@dataclass(frozen=True)
class Answered:
    status: int
    text: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Server:
    port: int

    def ask(self, path: str, method: str = "GET", body: str = "", host: str | None = None) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            headers = {"Host": host or f"127.0.0.1:{self.port}", "Content-Type": "application/x-www-form-urlencoded"}
            connection.request(method, path, body.encode(), headers)  # as it is written: nothing tidies the path
            answer = connection.getresponse()
            return Answered(answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()


@contextmanager
def serving(site: Site) -> Iterator[Server]:
    config = uvicorn.Config(site_app(site), host="127.0.0.1", port=0, server_header=False, log_level="error")
    server = uvicorn.Server(config)
    listening = config.bind_socket()
    listening.listen()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Server(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A directory of releases, in a home full of what nobody may see."""
    root = tmp_path / "releases"
    DirectoryTarget(root).publish(prepared())
    for name in ("ledger.db", "confidential.html", "releases/notes.txt", "releases/clinic-visits/notes.txt"):
        (tmp_path / name).write_text(PRIVATE)
    (root / "clinic-visits" / "2026-10-abc" / "extra.html").write_text(PRIVATE)
    (root / "clinic-visits" / "linked").symlink_to(tmp_path)
    (root / "out").symlink_to(tmp_path)
    return root


def test_the_catalogue_leads_to_cards_manifests_and_the_ledger(published: Path) -> None:
    site = Site([FolderShelf(published)], lambda: "<p>ledger</p>", {"visits": lambda: "<p>plan</p>"})
    with serving(site) as server:
        front = server.ask("/")
        page = read_page(front.text)
        links = [each.attributes["href"] for each in page.all("a") if not each.attributes["href"].startswith("#")]
        assert links == [f"{PLACE}/card.html".removeprefix("/"), "/ledger", "/plans/visits"]
        for link in links:
            assert server.ask(link if link.startswith("/") else f"/{link}").status == 200
        assert server.ask(f"{PLACE}/card.html").text == "<html>card</html>"
        assert json.loads(server.ask(f"{PLACE}/manifest.json").text)["release_id"] == "2026-10-abc"
        assert faults(read_page(server.ask("/nothing").text)) == []


@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_a_table_has_a_catalogue_too_with_the_papers_of_every_release(tmp_path: Path, database: str) -> None:
    file = tmp_path / "out.db"
    kind = {"duckdb": DuckDBTarget, "sqlite": SqliteTarget}[database]
    for number in (1, 2):
        made = prepared()
        manifest = made.manifest.model_copy(update={"release_id": f"2026-1{number}-abc"})
        kind(file, "copies").publish(replace(made, manifest=manifest, card=f"<html>card {number}</html>"))
    with serving(Site([shelf_at(f"{database}:///{file}#copies")])) as server:
        front = read_page(server.ask("/").text)
        links = [each.attributes["href"] for each in front.all("a") if "card.html" in each.attributes["href"]]
        assert {*links} == {f"releases/clinic-visits/2026-1{number}-abc/card.html" for number in (1, 2)}
        assert "rows removed" in server.ask("/").text
        for number in (1, 2):
            place = f"/releases/clinic-visits/2026-1{number}-abc"
            assert server.ask(f"{place}/card.html").text == f"<html>card {number}</html>"
            assert json.loads(server.ask(f"{place}/manifest.json").text)["release_id"] == f"2026-1{number}-abc"
            assert server.ask(f"{place}/manifest.dsse.json").status == 404  # it was not signed
            assert server.ask(f"{place}/measured/numbers.parquet").status == 404
        assert server.ask("/releases/clinic-visits/%27%20OR%201=1%20--/card.html").status in (400, 404)
        with closing(duckdb.connect(file) if database == "duckdb" else sqlite3.connect(file)) as connection:
            connection.execute(f"UPDATE {RELEASES} SET card = '<script>alert(1)</script>'")
            connection.commit()
        assert server.ask("/releases/clinic-visits/2026-12-abc/card.html").status == 409


def test_what_has_no_catalogue_is_said(tmp_path: Path) -> None:
    for place in (str(tmp_path / "none"), "s3://bucket/releases", "duckdb:///out.duckdb", "nothing://x#y"):
        with pytest.raises(SpecError):
            shelf_at(place)


def test_every_answer_forbids_what_a_page_could_do(published: Path) -> None:
    with serving(Site([FolderShelf(published)])) as server:
        for path in ("/", f"{PLACE}/card.html", f"{PLACE}/manifest.json", "/nothing"):
            headers = server.ask(path).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; ")
            assert "form-action 'none'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers
        assert server.ask("/", host="evil.example").status == 400  # another site that points its name here


ASKED = [
    "/../ledger.db",
    "/releases/../ledger.db",
    "/releases/..%2f..%2fledger.db/x/card.html",
    f"{PLACE}/../../notes.txt",
    f"{PLACE}/..%2f..%2f..%2fledger.db",
    f"{PLACE}/%2e%2e/notes.txt",
    f"{PLACE}/extra.html",
    f"{PLACE}/data",
    f"{PLACE}/data/part-00000.parquet",
    f"{PLACE}/card.html%00.txt",
    f"{PLACE}//etc/passwd",
    "/releases/clinic-visits/linked/ledger.db",
    "/releases/clinic-visits/latest/card.html",
    "/releases/out/releases/card.html",
    "/releases/clinic-visits/%2a/card.html",
    "/releases/*/*/card.html",
    "/releases/clinic-visits/./card.html",
    "//etc/passwd",
    "/ledger",
    "/plans/visits",
    "/approvals",
    "/docs",
    "/openapi.json",
]


def test_nothing_else_can_be_reached(published: Path) -> None:
    with serving(Site([FolderShelf(published)])) as server:
        for path in ASKED:
            answer = server.ask(path)
            assert answer.status in (400, 404), path
            assert PRIVATE not in answer.text, path
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert server.ask("/", method, "x=1").status in (404, 405)
            assert server.ask("/approvals", method, "x=1").status in (404, 405)


def test_a_changed_card_is_not_shown_and_a_failure_tells_nothing_of_this_machine(published: Path) -> None:
    def broken() -> str:
        raise LedgerError(f"cannot open {PRIVATE}", "x")

    (published / "clinic-visits" / "2026-10-abc" / "card.html").write_text("<script>alert(1)</script>")
    with serving(Site([FolderShelf(published)], broken)) as server:
        answer = server.ask(f"{PLACE}/card.html")
        assert (answer.status, "alert" in answer.text) == (409, False)
        failed = server.ask("/ledger")
        assert (failed.status, PRIVATE in failed.text) == (503, False)


@dataclass
class Runs:
    """Paused runs, as Prefect would hold them."""

    waiting: set[str] = field(default_factory=lambda: {"run-1"})
    given: list[str] = field(default_factory=list)

    def resume(self, run: str, signature: str) -> bool:
        if run not in self.waiting:
            return False
        self.waiting.remove(run)
        self.given.append(signature)
        return True


def test_approval_takes_the_token_and_an_approvers_signature_for_this_very_release(
    published: Path, tmp_path: Path
) -> None:
    files, approvers = [], {}
    for name in ("alice", "mallory"):
        key = Ed25519PrivateKey.generate()
        files.append(tmp_path / f"{name}.pem")
        files[-1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        files[-1].chmod(0o600)
        approvers[name] = (
            key.public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            .decode()
        )
    runs, token = Runs(), "t" * 32
    by_alice, by_mallory = (sign_approval(file, "2026-10-abc", "5" * 64) for file in files)
    right = {"token": token, "run": "run-1", "release_id": "2026-10-abc", "spec_hash": "5" * 64, "signature": by_alice}
    site = Site([FolderShelf(published)], approvals=Approvals(token, {"alice": approvers["alice"]}, runs.resume))
    with serving(site) as server:
        form = server.ask("/approvals")
        assert "form-action 'self'" in form.headers["content-security-policy"]
        assert token not in form.text
        wrong = [
            {"token": "u" * 32},
            {"token": ""},
            {"signature": by_mallory},
            {"signature": "nothing"},
            {"release_id": "2026-11-abc"},
            {"spec_hash": "6" * 64},
        ]
        for change in wrong:
            assert server.ask("/approvals", "POST", urlencode({**right, **change})).status == 403
        assert server.ask("/approvals", "POST", "token=" + "x" * 30_000).status == 403
        assert server.ask("/approvals", "POST", urlencode({**right, "run": "run-2"})).status == 409
        assert (runs.waiting, runs.given) == ({"run-1"}, [])
        done = server.ask("/approvals", "POST", urlencode(right))
        assert (done.status, "Approved by alice" in done.text) == (200, True)
        assert runs.given == [by_alice]
        assert server.ask("/approvals", "POST", urlencode(right)).status == 409


def test_the_command_serves_on_loopback_until_it_is_told_to_end(published: Path, tmp_path: Path) -> None:
    script = "from understudy.cli.main import main; main()"
    words = ["--home", str(tmp_path / "home"), "serve", str(published), "--port", "0"]
    environment = {**os.environ, "UNDERSTUDY_LEDGER": ""}
    refused = CliRunner().invoke(main, [*words[:-1], "70000"])
    assert refused.exit_code == 2
    process = subprocess.Popen(
        [sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", process.stdout.readline())
        assert found is not None
        server = Server(int(found[1]))
        assert "clinic-visits" in server.ask("/").text
        assert "There are no accounts yet" in server.ask("/ledger").text
        assert str(tmp_path) not in server.ask("/ledger").text
    finally:
        process.terminate()
        assert process.wait(30) == 143
        assert process.stdout is not None
        process.stdout.close()


def test_a_token_that_lets_nobody_approve_or_anybody_in_is_refused(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for token, told in (("short", "too short"), ("t" * 32, "nobody may approve")):
        monkeypatch.setenv(TOKEN, token)
        done = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), "serve", str(published)])
        assert done.exit_code == 2
        assert told in done.output
    missing = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), "serve", str(tmp_path / "none")])
    assert missing.exit_code == 2

"""Three hundred ways to hurt the command line: specs, sources and environments, each a command in a process of its own.

Every case must end within 30 seconds in one of the documented exit codes, without a traceback, without a private value
and, if it fails, without a charge. `python -m tests.cli.hostile FOLDER [NAME ...]` runs them all, or those named, and
prints what broke.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.bad_servers import bad_server
from tests.cli.commands import QUICK, Place, new_place

CANARY = "canary-7f3a"
SECONDS = 30.0
CODES = frozenset(range(6))
SOURCE = 'uri: "duckdb:///clinic.duckdb", table: visits'
TARGET = "publish: {to: releases/}"
PUBLIC = ', rows_are_public: true, snapshot: "2026-10"'


@dataclass(frozen=True)
class Case:
    name: str
    words: tuple[str, ...]
    spec: bytes | None = None
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] = lambda folder: None
    limits: tuple[tuple[int, int], ...] = ()
    stdout: str = ""


@dataclass(frozen=True)
class Outcome:
    case: Case
    code: int | None
    text: str
    seconds: float
    charges: int

    @property
    def problems(self) -> list[str]:
        found = []
        if self.code is None or self.seconds > SECONDS:
            found.append(f"took {self.seconds:.0f} s")
        if self.code is not None and self.code not in CODES:
            found.append(f"exit code {self.code}")
        if "Traceback" in self.text or "nanobind" in self.text:
            found.append("a traceback")
        if CANARY in self.text:
            found.append("a private value")
        if self.code != 0 and self.charges:
            found.append(f"{self.charges} charges")
        if self.code not in (0, None) and not self.case.stdout and not any(
            line.startswith(("understudy: ", "Usage: ", "Error: ")) for line in self.text.splitlines()
        ):  # fmt: skip
            found.append("no message")
        return found


def changed(*changes: tuple[str, str], text: str = QUICK) -> bytes:
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text.encode()


def hostile_specs() -> Iterator[tuple[str, bytes]]:
    numbers = ["-1", "0", "1e400", ".nan", ".inf", "9" * 5000, "0x10", "1_0", "'1'", "[1]", "{}", "null", "2026-02-30"]
    for place in ("max: 110", "epsilon: 1.0", "delta: 1e-6", "max_rows: 4"):
        key = place.partition(":")[0]
        yield from ((f"{key} {value[:12]}", changed((place, f"{key}: {value}"))) for value in numbers)
    dates = ["2026-02-30", "2026-13-01", "0000-01-01", "10000-01-01", "0001-01-01", "2026-01-01T25:00:00", "yesterday"]
    yield from ((f"min {value}", changed(("2026-01-01", value))) for value in dates)
    yield "10,000 days", changed(("2026-01-01", "1900-01-01"), ("bins: month", "bins: day"))
    hours = ("type: date, min: 2026-01-01, max: 2026-12-31, bins: month", "type: datetime, min: 0001-01-01, max: 9999-12-31, bins: hour")  # fmt: skip  # noqa: E501
    yield "all hours", changed(hours)
    yield "deep list", b"a: " + b"[" * 900 + b"]" * 900
    yield "deep map", "\n".join(" " * i + "a:" for i in range(900)).encode()
    yield "open brackets", b"[" * 100_000
    yield "laughs", ("a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9))).encode()  # fmt: skip  # noqa: E501
    yield "merged laughs", ("a0: &a0 {k: v}\n" + "\n".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 9))).encode()  # fmt: skip  # noqa: E501
    yield "itself", b"a: &a [*a]"
    yield "python", b"!!python/object/apply:os.system ['touch owned']"
    yield "bool", b"!!bool maybe"
    yield "list as key", b"? [a]\n: b"
    yield "no text", bytes(range(256))
    yield "nothing", b""
    yield "zeros", b"\0" * 1000
    yield "too large", QUICK.encode() + b"#" * 1_000_001
    yield "braces", changed(('"2026-10"', '"' + "{{" * 20_000 + '"'))
    yield "spaces", changed(('"2026-10"', '"{{' + " " * 100_000 + '"'))
    for cron in ("99 99 99 99 99", "* * * *", "a b c d e", "@daily", "0 0 0 0 0"):
        yield (
            f"cron {cron}",
            changed((TARGET, f'schedule: {{cron: "{cron}"}}\n{TARGET}'), ('"2026-10"', '"{{ month }}"')),
        )
    yield "zone", changed((TARGET, f'schedule: {{cron: "0 6 * * *", timezone: "../../etc/passwd"}}\n{TARGET}'))
    yield "secret", changed((SOURCE, f'uri: "postgresql://me:{CANARY}@host/db", table: t'))
    yield "scheme", changed((SOURCE, 'uri: "oracle://h/x", table: t'))
    yield "climbing", changed(("releases/", "../../etc"))
    yield "epsilon", changed(("epsilon: 1.0", "epsilon: 1e-300"), ("all-2way", "adaptive"))
    yield "values", changed(("[F, M, X]", "[" + "F, " * 9_000 + "M]"))
    yield "account", changed(("account: clinic,", "account: nobody,"))
    yield "unit", changed(("max_rows: 4", "max_rows: 5"))
    yield "method", changed(("name: privpgd", "name: magic"))
    yield "option", changed(("marginals: all-2way", "marginals: [[nothing, at_all]]"))


def hostile_sources() -> Iterator[tuple[str, str, Callable[[Path], None]]]:
    """Name, source, and what makes it; each holds the canary where rows would be."""

    def file(name: str, content: bytes) -> Callable[[Path], None]:
        return lambda folder: (folder / name).write_bytes(content) and None

    header = b"patient_id,visit_id,age,sex,charge,visited_on,ward,smoker\n"
    row = f"{CANARY},1,30,F,1.5,2026-01-11,A,true\n".encode()
    yield "missing file", "uri: nothing.parquet", lambda folder: None
    yield "missing database", 'uri: "duckdb:///nothing.duckdb", table: t', lambda folder: None
    yield "misspelt table", 'uri: "duckdb:///clinic.duckdb", table: visit', lambda folder: None
    yield "pipe.csv", "uri: pipe.csv", lambda folder: os.mkfifo(folder / "pipe.csv")
    yield "pipe.parquet", "uri: pipe.parquet", lambda folder: os.mkfifo(folder / "pipe.parquet")
    yield "pipe.npz", "uri: pipe.npz", lambda folder: os.mkfifo(folder / "pipe.npz")
    yield "pipe.duckdb", 'uri: "duckdb:///pipe.duckdb", table: t', lambda folder: os.mkfifo(folder / "pipe.duckdb")
    yield "device", "uri: /dev/zero", lambda folder: None
    yield "terminal", "uri: /dev/tty", lambda folder: None
    yield "loop", "uri: loop.csv", lambda folder: (folder / "loop.csv").symlink_to("loop.csv")
    yield "folder.csv", "uri: folder.csv", lambda folder: (folder / "folder.csv").mkdir()
    yield "empty folder", "uri: empty", lambda folder: (folder / "empty").mkdir()
    yield "empty.csv", "uri: empty.csv", file("empty.csv", b"")
    yield "header.csv", "uri: other.csv", file("other.csv", b"a,b\n" + row)
    yield "quote.csv", "uri: quote.csv", file("quote.csv", header.replace(b"sex", b'"sex') + row)
    yield "binary.csv", "uri: binary.csv", file("binary.csv", bytes(range(256)) * 50 + CANARY.encode())
    yield "bad.csv.gz", "uri: bad.csv.gz", file("bad.csv.gz", b"\x1f\x8b\x08\0" + header + row)
    yield "text.parquet", "uri: text.parquet", file("text.parquet", header + row)
    yield "cut.parquet", "uri: cut.parquet", lambda folder: _parquet(folder / "cut.parquet", cut=100)
    yield "crypt.parquet", "uri: crypt.parquet", _encrypted
    yield "types.parquet", "uri: types.parquet", lambda folder: _parquet(folder / "types.parquet")
    yield "text.npz", "uri: text.npz", file("text.npz", header + row)
    yield "idx", "uri: x-idx1-ubyte", file("x-idx1-ubyte", b"\0\0\x08\x01\xff\xff\xff\xff" + CANARY.encode())
    yield "garbage.duckdb", 'uri: "duckdb:///garbage.duckdb", table: t', file("garbage.duckdb", b"garbage" * 9000)
    yield "corrupt.duckdb", 'uri: "duckdb:///corrupt.duckdb", table: visits', _corrupt
    yield "dead postgres", 'uri: "postgresql://me@127.0.0.1:1/db", table: t', lambda folder: None
    yield "no variable", 'uri: "postgresql+env://NO_SUCH_VARIABLE", table: t', lambda folder: None
    yield "no driver", 'uri: "sql+env://HOSTILE_URL", table: t', lambda folder: None
    yield "unknown ending", "uri: x.xlsx", file("x.xlsx", row)
    yield "no scheme", "uri: '://'", lambda folder: None


def _parquet(path: Path, cut: int = 0) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"patient_id": [CANARY] * 100, "age": [[1]] * 100, "ward": [{"a": CANARY}] * 100})
    pq.write_table(table, path)
    if cut:
        path.write_bytes(path.read_bytes()[:-cut])


def _encrypted(folder: Path) -> None:
    import base64

    import pyarrow as pa
    import pyarrow.parquet as pq
    import pyarrow.parquet.encryption as pe

    class Keys(pe.KmsClient):
        def __init__(self, _: object) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, _: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, _: str) -> bytes:
            return base64.b64decode(wrapped)

    table = pa.table({"patient_id": [CANARY], "age": [1]})
    made = pe.EncryptionConfiguration(footer_key="footer", column_keys={"column": ["age"]})
    properties = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), made)
    with pq.ParquetWriter(folder / "crypt.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def _corrupt(folder: Path) -> None:
    content = bytearray((folder / "clinic.duckdb").read_bytes())
    content[12288 : 12288 + 64] = b"\xff" * 64
    (folder / "corrupt.duckdb").write_bytes(content)


JUNK = (
    "UPDATE ledger_accounts SET relation = 'sideways'", "UPDATE ledger_accounts SET epsilon = 'much'",
    "UPDATE ledger_accounts SET epsilon = 'NaN'", "UPDATE ledger_accounts SET delta = x'ff00'",
    "UPDATE ledger_history SET body = '{'", "UPDATE ledger_history SET body = x'c328'",
    "UPDATE ledger_history SET seq = -1", "UPDATE ledger_history SET hash = NULL",
    "DELETE FROM ledger_history", "DROP TABLE ledger_charges",
    "UPDATE ledger_schema SET version = 999", "UPDATE ledger_schema SET version = 'new'", "DELETE FROM ledger_schema",
    "INSERT INTO ledger_history SELECT * FROM ledger_history WHERE 0",
)  # fmt: skip


def _junk(statement: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "home" / "ledger.db")) as database:
            try:
                database.execute("PRAGMA ignore_check_constraints = on")
                database.execute(statement)
                database.commit()
            except sqlite3.Error:
                pass  # the schema itself refuses it

    return spoil


def cases() -> list[Case]:
    found = []
    for name, spec in hostile_specs():
        found += [Case(f"{command} {name}", (command, "spec.yaml"), spec) for command in ("plan", "release")]
        if name.startswith(("cron", "min", "deep", "scheme", "zone", "epsilon 9", "bool")):
            found.append(Case(f"deploy {name}", ("deploy", "spec.yaml"), spec))
    for name, source, make in hostile_sources():
        shown = changed((SOURCE, source), (', snapshot: "2026-10"', PUBLIC))
        found.append(Case(f"plan source {name}", ("plan", "spec.yaml"), shown, prepare=make))
        found.append(Case(f"release source {name}", ("release", "spec.yaml"), changed((SOURCE, source)), prepare=make,
                          environment={"HOSTILE_URL": f"oracle://me:{CANARY}@host/db"}))  # fmt: skip
    for statement in JUNK:
        for words in (("ledger", "verify"), ("ledger", "show"), ("ledger", "export")):
            found.append(Case(f"{words[1]} {statement[:44]}", words, prepare=_junk(statement)))
    urls = ["sqlite://", "sqlite:///", "sqlite:////proc/x/ledger.db", "mysql://x", "garbage", "", "postgresql://127.0.0.1:1/x",
            "sqlite:////dev/null", "postgresql+nothing://x/y", f"postgresql://me:{CANARY}@127.0.0.1:1/x"]  # fmt: skip
    found += [Case(f"ledger {url}", ("ledger", "show"), environment={"UNDERSTUDY_LEDGER": url}) for url in urls]
    good, plan = QUICK.encode(), ("plan", "spec.yaml")
    found += [
        Case("plan in ascii", plan, good, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}),
        Case("plan to a full disk", plan, good, stdout="/dev/full"),
        Case("plan with few files", plan, good, limits=((resource.RLIMIT_NOFILE, 12),)),
        Case("plan with little memory", plan, good, limits=((resource.RLIMIT_AS, 400 << 20),)),
        Case("plan of a pipe", ("plan", "pipe.yaml"), prepare=lambda folder: os.mkfifo(folder / "pipe.yaml")),
        Case("plan of a folder", ("plan", ".")),
        Case("plan of a device", ("plan", "/dev/zero")),
        Case("plan at the beginning", (*plan, "--at", "0001-01-01"), changed(('"2026-10"', '"{{ last_month }}"'))),
        Case("plan at the end", (*plan, "--at", "9999-12-31"), changed(('"2026-10"', '"{{ month }}"'))),
        Case("home is a file", ("ledger", "show"), environment={"UNDERSTUDY_HOME": "/etc/passwd"}),
        Case("home is nowhere", ("ledger", "show"), environment={"UNDERSTUDY_HOME": "/proc/nothing"}),
        Case("generate from nothing", ("generate", "--from", "nothing")),
        Case("recertify nothing", ("recertify", "nothing")),
        Case("recertify a pipe", ("recertify", "postgresql://127.0.0.1:1/x#t")),
        Case("deploy nowhere", ("deploy", "spec.yaml"), good),
        Case("cap of nothing", ("ledger", "cap", "clinic", "--epsilon", "nan", "--delta", "x", "--reason", "y")),
        Case("target in the way", ("release", "spec.yaml"), good,
             prepare=lambda folder: (folder / "releases").write_text("in the way") and None),
        Case("dead scheduler", ("release", "spec.yaml"),
             changed((TARGET, f"compute: {{engine: dask, scheduler: 'tcp://127.0.0.1:1'}}\n{TARGET}"))),
        Case("scheduler of words", ("release", "spec.yaml"),
             changed((TARGET, f"compute: {{engine: dask, scheduler: 'words'}}\n{TARGET}"))),
        Case("dead store", ("release", "spec.yaml"), changed(("releases/", '"s3://bucket/x"')),
             {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": CANARY}),
        Case("dead target", ("release", "spec.yaml"),
             changed((TARGET, 'publish: {to: "postgresql://me@127.0.0.1:1/x", table: t}'))),
        Case("files of 1 MB", ("release", "spec.yaml"), good, limits=((resource.RLIMIT_FSIZE, 1 << 20),)),
        Case("no temporary files", ("release", "spec.yaml"), changed(("epsilon: 1.0", "epsilon: 50")),
             {"TMPDIR": "/proc/nothing"}),
    ]  # fmt: skip
    return found + list(store_cases(good))


def store_cases(good: bytes) -> Iterator[Case]:
    """Places for measurements that are none, and backups that are none."""
    dead = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": CANARY}
    stores = ["kept", "ledger", "s3://bucket/x", "s3://", "ftp://x/y", "/etc/passwd", "/proc/nothing", f"x:{CANARY}@y"]
    for store in stores:
        yield Case(f"store {store}", ("release", "spec.yaml"), good, {"UNDERSTUDY_STORE": store, **dead})
    for place in ("/proc/nothing/b", ".", "/dev/null/b"):
        yield Case(f"backup {place}", ("ledger", "backup", place))
    yield Case(
        "backup from a dead store", ("ledger", "backup", "b"), None, {"UNDERSTUDY_STORE": "s3://bucket/x", **dead}
    )
    backups: dict[str, Callable[[Path], None]] = {
        "nothing": lambda place: None,
        "a pipe": lambda place: os.mkfifo(place / "backup.json"),
        "junk": lambda place: (place / "backup.json").write_text('{"format": 3}') and None,
        "a list": lambda place: (place / "backup.json").write_text("[" * 5000) and None,
        "no ledger": lambda place: (place / "backup.json").write_text(_BACKUP) and None,
        "a junk ledger": lambda place: (place / "backup.json").write_text(_BACKUP)
        and (place / "ledger.db").write_text(CANARY * 900) and None,
    }  # fmt: skip
    for name, make in backups.items():
        yield Case(f"restore {name}", ("--home", "new", "ledger", "restore", "b"), prepare=_backup_of(make))
    yield Case("restore beside nothing", ("ledger", "restore", ".", "--releases", "s3://bucket/x"), None, dead)


_BACKUP = (
    '{"format": "understudy-backup", "version": 1, "at": "now", "ledger": "x", "heads": {}, "measurements": 0, '
    '"keys": {"../../release.pem": "0"}, "missing": {}}'
)


def _backup_of(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        (folder / "b").mkdir()
        make(folder / "b")

    return prepare


def server_cases(urls: dict[str, str]) -> list[Case]:
    addresses = urls | {"words for a url": "garbage", "ftp": "ftp://x/api", "brackets": "http://[::1/api", "empty": ""}
    deployed = changed((TARGET, f'schedule: {{cron: "0 6 1 * *"}}\n{TARGET}'), ('"2026-10"', '"{{ month }}"'))
    return [
        Case(f"{command} at {name}", (command, "spec.yaml"), deployed if command == "deploy" else QUICK.encode(),
             {"PREFECT_API_URL": url})
        for name, url in addresses.items() for command in ("release", "deploy")
    ]  # fmt: skip


def attempt(number: int, case: Case, root: Path, pattern: Place) -> Outcome:
    folder = root / str(number)
    shutil.copytree(pattern.folder, folder, ignore=shutil.ignore_patterns("*.out", "*.err", "tmp"))
    place = Place(folder)
    if case.spec is not None:
        (folder / "spec.yaml").write_bytes(case.spec)
    case.prepare(folder)

    def limit() -> None:
        for which, value in case.limits:
            resource.setrlimit(which, (value, value))

    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PREFECT", "UNDERSTUDY"))}
    (folder / "tmp").mkdir()
    environment = inherited | {"UNDERSTUDY_HOME": str(place.home), "TMPDIR": str(folder / "tmp")} | case.environment
    started = time.monotonic()
    with (folder / "out").open("w+b") as out, open(case.stdout or os.devnull, "wb") as other:
        process = subprocess.Popen(
            [sys.executable, "-m", "understudy.cli.main", *case.words], env=environment, cwd=folder, preexec_fn=limit,
            stdin=subprocess.DEVNULL, stdout=other if case.stdout else out, stderr=out, start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(timeout=3 * SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
        seconds = time.monotonic() - started
        out.seek(0)
        text = out.read().decode(errors="replace")
    outcome = Outcome(case, code, text, seconds, _charges(place))
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


def _charges(place: Place) -> int:
    try:
        with closing(sqlite3.connect(place.home / "ledger.db")) as database:
            return int(database.execute("SELECT count(*) FROM ledger_charges").fetchone()[0])
    except sqlite3.Error:
        return 0  # a case that broke the ledger itself


@contextmanager
def bad_servers() -> Iterator[dict[str, str]]:
    with (
        bad_server("dead") as dead, bad_server("words") as words, bad_server("500") as broken,
        bad_server("503") as busy, bad_server("401") as closed, bad_server("other version") as old,
        bad_server("silent") as silent, bad_server("dripping") as dripping,
    ):  # fmt: skip
        yield {"dead": dead, "words": words, "500": broken, "503": busy, "401": closed, "old": old, "silent": silent,
               "dripping": dripping}  # fmt: skip


def run_all(root: Path, only: Sequence[str] = (), workers: int = 2) -> list[Outcome]:
    (root / "pattern").mkdir()
    pattern = new_place(root / "pattern")
    # Stopped before it reads or pays: each copy of this place then has Prefect's database, which takes seconds to make.
    warm = pattern.start("release", pattern.spec("warm"))
    warm.wait_for_stage("planning")
    warm.send(signal.SIGINT)
    with bad_servers() as urls, ThreadPoolExecutor(workers) as pool:
        everything = [case for case in (*cases(), *server_cases(urls)) if not only or case.name in only]
        return list(pool.map(lambda each: attempt(each[0], each[1], root, pattern), enumerate(everything)))


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    root.mkdir(parents=True)
    outcomes = run_all(root, sys.argv[2:])
    broken = [outcome for outcome in outcomes if outcome.problems]
    for outcome in broken:
        print(f"{outcome.case.name}: {', '.join(outcome.problems)}\n{outcome.text[-1500:]}\n")
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    print(f"{len(outcomes)} cases, {len(broken)} broken; exit codes {dict(Counter(o.code for o in outcomes))}")
    print(f"slowest: {slowest.case.name}, {slowest.seconds:.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

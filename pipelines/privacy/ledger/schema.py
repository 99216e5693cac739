"""Tables of the ledger, and the ordered migrations that make them. The same on SQLite and PostgreSQL.

A ledger carries its schema version. Opening an older one migrates it in one transaction; a newer one is
refused, because an old program would not know what the new columns promise. Migrations are frozen text:
never edit one that was released, add another. What a migration does to rows, beside its text, is in `migrating`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    Table,
    Text,
    inspect,
    select,
)

from understudy.pipelines.errors import LedgerError

metadata = MetaData()

schema = Table("ledger_schema", metadata, Column("version", Integer), Column("ledger_id", Text))

accounts = Table(
    "ledger_accounts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("relation", Text),
    Column("entity", Text),
    Column("max_rows", BigInteger),
    Column("epsilon", Text),
    Column("delta", Text),
    Column("history_seq", BigInteger),
    Column("history_head", Text),
    Column("filter", Text),
)

charges = Table(
    "ledger_charges",
    metadata,
    Column("mid", Text, primary_key=True),
    Column("account", Text),
    Column("release", Text),
    Column("stage", Text),
    Column("snapshot", Text),
    Column("spec_hash", Text),
    Column("attempt", Integer),
    Column("event", Text),
    Column("state", Text),
    Column("measurement_sha256", Text),
    Column("flow_run", Text),
    Column("holder_token", Text),
    Column("holder_place", Text),
    Column("holder_pid", BigInteger),
    Column("holder_started", Text),
    Column("lease_until", Float),
    Column("created_at", Text),
    Column("reason", Text),
)

history = Table(
    "ledger_history",
    metadata,
    Column("account", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("at", Text),
    Column("action", Text),
    Column("mid", Text),
    Column("body", Text),
    Column("previous", Text),
    Column("hash", Text),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE ledger_accounts (
            name TEXT PRIMARY KEY,
            relation TEXT NOT NULL,
            entity TEXT,
            max_rows BIGINT NOT NULL,
            epsilon TEXT NOT NULL,
            delta TEXT NOT NULL,
            history_seq BIGINT NOT NULL,
            history_head TEXT NOT NULL
        )""",
        """CREATE TABLE ledger_charges (
            mid TEXT PRIMARY KEY,
            account TEXT NOT NULL REFERENCES ledger_accounts (name),
            release TEXT NOT NULL,
            stage TEXT NOT NULL,
            snapshot TEXT NOT NULL,
            spec_hash TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            event TEXT NOT NULL,
            state TEXT NOT NULL CHECK (state IN ('CHARGED', 'MEASURED', 'BURNT')),
            measurement_sha256 TEXT,
            flow_run TEXT NOT NULL,
            holder_token TEXT NOT NULL,
            holder_place TEXT NOT NULL,
            holder_pid BIGINT NOT NULL,
            holder_started TEXT NOT NULL,
            lease_until DOUBLE PRECISION NOT NULL,
            created_at TEXT NOT NULL,
            reason TEXT NOT NULL,
            CHECK ((state = 'MEASURED') = (measurement_sha256 IS NOT NULL)),
            UNIQUE (account, spec_hash, snapshot, stage, attempt)
        )""",
        "CREATE INDEX ledger_charges_by_event ON ledger_charges (account, event)",
        """CREATE TABLE ledger_history (
            account TEXT NOT NULL REFERENCES ledger_accounts (name),
            seq BIGINT NOT NULL,
            at TEXT NOT NULL,
            action TEXT NOT NULL,
            mid TEXT NOT NULL,
            body TEXT NOT NULL,
            previous TEXT NOT NULL,
            hash TEXT NOT NULL,
            PRIMARY KEY (account, seq)
        )""",
    ),
    # 2: the filter of an account, as JSON. Nothing reads the empty text: `migrating` gives every account its filter.
    ("ALTER TABLE ledger_accounts ADD COLUMN filter TEXT NOT NULL DEFAULT ''",),
)


def schema_version(connection: Connection) -> int:
    """The version found, 0 where there is no ledger yet."""
    if not inspect(connection).has_table(schema.name):
        return 0
    return int(connection.execute(select(schema.c.version)).scalar_one())


def refuse_newer(version: int) -> None:
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"The ledger has schema version {version}; this program knows up to {len(MIGRATIONS)}.",
            "Upgrade understudy on this machine; a newer one has already used this ledger.",
        )

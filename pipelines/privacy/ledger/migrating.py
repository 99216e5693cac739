"""Bringing an older ledger up to date: the frozen statements of `schema`, and what they cannot do to rows.

Migration 2 gives every account its filter. Before it, an account accepted while the best of several accountants said
that all its charges stay within the cap, which is no theorem for releases that are chosen adaptively
(docs/proofs/filters.md). Charges stay as they are, and so do caps:

- an account whose charges gdp holds (Gaussian noise only, or none yet) becomes gdp; its spending does not change;
- any other becomes renyi, at the order that leaves most of its cap;
- an account of one period (`account@series@period`) follows the account that pays for its series;
- where what is charged no longer fits, the account keeps its charges, says so, and takes no more.

The filter is one sealed line of the account's history; what was accepted before that line is verified by the rule
under which it was accepted.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from sqlalchemy import Connection, text, update

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.privacy import filters
from understudy.pipelines.privacy.events import from_json
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.records import within
from understudy.pipelines.privacy.ledger.schema import refuse_newer, schema, schema_version
from understudy.pipelines.privacy.relation import Budget, Relation


def migrate(connection: Connection) -> None:
    """Bring the schema to this program's version. The caller holds a write transaction."""
    if connection.dialect.name == "postgresql":
        # Two programs that meet a new database must not both create its tables; SQLite's write lock does
        # this by itself.
        connection.execute(text("SELECT pg_advisory_xact_lock(7103482)"))
    found = schema_version(connection)
    refuse_newer(found)
    if found == 0:
        connection.execute(text("CREATE TABLE ledger_schema (version INTEGER NOT NULL, ledger_id TEXT NOT NULL)"))
        connection.execute(schema.insert().values(version=0, ledger_id=uuid.uuid4().hex))
    for version, statements in enumerate(ledger_schema.MIGRATIONS[found:], found + 1):
        for statement in statements:
            connection.execute(text(statement))
        if version == 2:
            _give_filters(connection)
    connection.execute(update(schema).values(version=len(ledger_schema.MIGRATIONS)))


def _give_filters(connection: Connection) -> None:
    """Columns are named: a later migration may add some that are not there yet."""
    query = "SELECT name, relation, epsilon, delta FROM ledger_accounts ORDER BY name"
    if connection.dialect.name == "postgresql":
        query += " FOR UPDATE"  # programs of the older version may still be charging
    found = {row.name: row for row in connection.execute(text(query))}
    charged = {name: _charged(connection, name) for name in found}
    for name, row in found.items():
        payer = parent_of(name)
        owner = payer if payer in found else name
        rule = _filter_for(found[owner], charged[owner])
        connection.execute(
            text("UPDATE ledger_accounts SET filter = :filter WHERE name = :name"),
            {"filter": canonical_json(filters.to_json(rule)), "name": name},
        )
        body = {"filter": filters.to_json(rule), "fits": _fits(row, charged[name], rule), "reason": "migration 2"}
        ledger_history.append(connection, name, ledger_history.FILTERED, "", body)


def _charged(connection: Connection, account: str) -> filters.EventCounts:
    query = "SELECT event, count(*) AS n FROM ledger_charges WHERE account = :account GROUP BY event ORDER BY event"
    found = connection.execute(text(query), {"account": account})
    return tuple((from_json(json.loads(row.event)), int(row.n)) for row in found)


def _filter_for(row: Any, charged: filters.EventCounts) -> filters.Filter:
    cap, relation = Budget(row.epsilon, row.delta), Relation(row.relation)
    try:
        filters.GaussianFilter().counted(charged, relation)
    except filters.Unholdable:
        pass
    else:
        return filters.GaussianFilter()
    try:
        return filters.RenyiFilter(filters.best_order(cap, relation, charged))
    except filters.Unholdable:
        # Nothing holds these charges (Poisson samples under REPLACE_ONE) or a cap this small: the account is closed.
        return filters.GaussianFilter()


def _fits(row: Any, charged: filters.EventCounts, rule: filters.Filter) -> bool:
    cap, relation = Budget(row.epsilon, row.delta), Relation(row.relation)
    try:
        return within(filters.spent(rule, charged, cap, relation), cap)
    except filters.Unholdable:
        return False

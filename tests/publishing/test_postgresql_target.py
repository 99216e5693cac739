"""PostgreSQL as a target: one transaction, twice is once, nothing foreign is replaced."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tests.examples import SPEC
from tests.publishing.test_targets import prepared
from tests.warehouse import Warehouse
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.publishing.targets.base import PreparedRelease, open_target
from understudy.pipelines.publishing.targets.postgresql import PostgresTarget
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.keeping import Kept, cast, enum_name

TABLE = pa.table(
    {
        "id": [1, 2, 3],
        'odd "name"; --': ["", None, 'a "b"\n,c'],
        "x": [1.5, None, -2.25],
        "b": [True, None, False],
        "d": pa.array([dt.date(2026, 10, 1), None, dt.date(2026, 1, 1)]),
        "t": pa.array([dt.datetime(2026, 10, 1, 12, 30, 0, 5), None, dt.datetime(2026, 1, 1)], pa.timestamp("us")),
    }
)


def release(release_id: str = "2026-10-abc", table: pa.Table = TABLE) -> PreparedRelease:
    made = prepared(release_id)
    return PreparedRelease(made.manifest, Parts.of(table), made.card)


def target(warehouse: Warehouse, table: str = "visits") -> PostgresTarget:
    return PostgresTarget(Address.parse(warehouse.uri, "publish.to"), f"{warehouse.schema}.{table}")


def test_rows_arrive_typed_and_unchanged(warehouse: Warehouse) -> None:
    published = target(warehouse).publish(release())
    found = warehouse.rows("SELECT * FROM visits ORDER BY id")
    assert found == [tuple(row.values()) for row in TABLE.to_pylist()]
    [(current, card)] = warehouse.rows("SELECT current, card FROM understudy_releases")
    assert (current, card) == (True, "<html>card</html>")
    assert [file.path for file in published.manifest.files] == [f"table {warehouse.schema}.visits", "card.html"]
    assert target(warehouse).recover("clinic-visits", "2026-10-abc") == published
    [papers] = target(warehouse).papers()
    assert (papers.manifest, papers.current, papers.envelope, papers.card) == (published.manifest, True, None, card)


def test_twice_is_once_and_the_next_release_swaps(warehouse: Warehouse) -> None:
    first = target(warehouse).publish(release())
    assert target(warehouse).publish(release(table=TABLE.slice(0, 1))) == first
    warehouse.execute("GRANT SELECT ON visits TO PUBLIC")
    target(warehouse).publish(release("2026-11-def", TABLE.slice(1)))
    assert warehouse.rows("SELECT id FROM visits ORDER BY id") == [(2,), (3,)]
    assert warehouse.rows("SELECT release_id FROM understudy_releases WHERE current") == [("2026-11-def",)]
    [(acl,)] = warehouse.rows("SELECT relacl::text FROM pg_class WHERE oid = 'visits'::regclass")
    assert "=r/" in acl  # what was granted on the old table is granted on the new one
    again = target(warehouse).recover("clinic-visits", "2026-10-abc")
    assert again is not None
    assert "replaced by a newer" in again.location
    assert target(warehouse).recover("clinic-visits", "unknown") is None


@pytest.mark.parametrize("point", ["publish_staged", "publish_before_pointer"])
def test_an_interrupted_publication_leaves_the_old_table(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    target(warehouse).publish(release())
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{point}:raise")
    with pytest.raises(RuntimeError):
        target(warehouse).publish(release("2026-11-def", TABLE.slice(1)))
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    assert warehouse.rows("SELECT count(*) FROM visits") == [(3,)]
    assert warehouse.rows("SELECT release_id FROM understudy_releases") == [("2026-10-abc",)]
    assert warehouse.rows("SELECT count(*) FROM pg_class WHERE relname LIKE '%staged' AND relnamespace = "
                          f"'{warehouse.schema}'::regnamespace") == [(0,)]  # fmt: skip
    target(warehouse).publish(release("2026-11-def", TABLE.slice(1)))
    assert warehouse.rows("SELECT count(*) FROM visits") == [(2,)]


def test_readers_never_see_part_of_a_release(warehouse: Warehouse) -> None:
    target(warehouse).publish(release("r-0", TABLE))
    seen, stop = set(), threading.Event()

    def read() -> None:
        with warehouse.connect() as connection:
            while not stop.is_set():
                seen.add(connection.execute("SELECT count(*), min(id) FROM visits").fetchone())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 12):
        target(warehouse).publish(release(f"r-{number}", TABLE.slice(number % 2)))
    stop.set()
    reader.join()
    assert seen <= {(3, 1), (2, 2)}


def test_two_at_once_publish_once(warehouse: Warehouse) -> None:
    results = []
    threads = [threading.Thread(target=lambda: results.append(target(warehouse).publish(release()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({result.manifest.model_dump_json() for result in results}) == 1
    assert warehouse.rows("SELECT count(*) FROM understudy_releases") == [(1,)]


@pytest.mark.parametrize("kind", ["TABLE visits AS SELECT 1 AS sensitive", "VIEW visits AS SELECT 1 AS sensitive"])
def test_what_understudy_did_not_publish_is_never_replaced(warehouse: Warehouse, kind: str) -> None:
    warehouse.execute(f"CREATE {kind}")
    with pytest.raises(PublishError, match="not published by Understudy"):
        target(warehouse).publish(release())
    assert warehouse.rows("SELECT sensitive FROM visits") == [(1,)]


def test_a_changed_table_is_an_error_never_served(warehouse: Warehouse) -> None:
    target(warehouse).publish(release())
    warehouse.execute("UPDATE visits SET x = 9 WHERE id = 1")
    with pytest.raises(PublishError, match="changed after publication"):
        target(warehouse).recover("clinic-visits", "2026-10-abc")


def test_a_view_on_the_table_is_named_as_the_reason(warehouse: Warehouse) -> None:
    target(warehouse).publish(release())
    warehouse.execute("CREATE VIEW analysts AS SELECT * FROM visits")
    with pytest.raises(PublishError, match="depend on"):
        target(warehouse).publish(release("2026-11-def"))
    assert warehouse.rows("SELECT count(*) FROM analysts") == [(3,)]


def test_hostile_names_are_names(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE victim AS SELECT 1 AS a")
    name = 'x"; DROP TABLE victim; --'
    target(warehouse, name).publish(release())
    assert warehouse.rows("SELECT a FROM victim") == [(1,)]
    assert len(warehouse.rows('SELECT * FROM "x""; DROP TABLE victim; --"')) == 3
    for bad in ("", "a.b.c", "x" * 51, "schema."):
        with pytest.raises(SpecError, match=r"publish\.table"):
            PostgresTarget(Address.parse(warehouse.uri, "publish.to"), bad)


def test_by_spec(warehouse: Warehouse) -> None:
    spec = parse_spec(SPEC.replace("{to: releases/}", f'{{to: "{warehouse.uri}", table: visits}}'))
    assert isinstance(open_target(spec, Path()), PostgresTarget)
    with pytest.raises(PublishError, match="no schema"):
        PostgresTarget(Address.parse(warehouse.uri, "publish.to"), "nowhere.visits").publish(release())
    with pytest.raises(SpecError, match=r"publish\.table"):
        open_target(parse_spec(SPEC.replace("releases/", f'"{warehouse.uri}"')), Path())


def graded(*labels: str) -> pa.Table:
    kept = Kept(pa.dictionary(pa.int32(), pa.string()), enum_name(labels))
    values = cast(pa.array([labels[0], None, labels[-1]]), kept, 0, 0)
    return pa.table([values], schema=pa.schema([kept.field("grade")]))


def test_an_enum_is_a_type_of_the_schema_that_goes_with_the_last_table_that_has_it(warehouse: Warehouse) -> None:
    made = "SELECT typname FROM pg_type WHERE typtype = 'e' AND typnamespace = current_schema()::regnamespace"
    warehouse.execute("CREATE TYPE theirs AS ENUM ('x')")
    target(warehouse).publish(release(table=graded("low", "it's high")))
    assert warehouse.rows("SELECT grade::text FROM visits ORDER BY visits.grade DESC NULLS LAST") == [
        ("it's high",), ("low",), (None,),
    ]  # fmt: skip
    target(warehouse, "others").publish(release("o-1", graded("low", "it's high")))
    assert len(warehouse.rows(made)) == 2  # tables of the same words share one
    target(warehouse).publish(release("2026-11-def", graded("low", "mid", "it's high")))
    assert len(warehouse.rows(made)) == 3
    target(warehouse).publish(release("2026-12-def", graded("low", "mid", "it's high")))
    assert len(warehouse.rows(made)) == 3
    target(warehouse, "others").publish(release("o-2", graded("low", "mid", "it's high")))
    assert len(warehouse.rows(made)) == 2
    taking = warehouse.rows(f"{made} AND typname <> 'theirs'")[0][0]
    warehouse.execute(f"CREATE FUNCTION f(g {taking}) RETURNS int LANGUAGE sql AS 'SELECT 1'")
    for name, id_ in (("visits", "2027-01-x"), ("others", "o-3")):  # what a function takes stays
        target(warehouse, name).publish(release(id_, TABLE))
    assert {name for (name,) in warehouse.rows(made)} == {"theirs", taking}


def test_words_that_an_enum_cannot_hold_are_text(warehouse: Warehouse) -> None:
    target(warehouse).publish(release(table=graded("low", "h" * 64)))
    assert warehouse.rows("SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
                          " WHERE attrelid = 'visits'::regclass AND attname = 'grade'") == [("text",)]  # fmt: skip


def test_a_type_with_our_name_and_other_words_is_refused(warehouse: Warehouse) -> None:
    target(warehouse).publish(release(table=graded("low", "high")))
    [(name,)] = warehouse.rows("SELECT typname FROM pg_type WHERE typname LIKE 'understudy\\_%' AND typtype = 'e'")
    warehouse.execute(f"ALTER TYPE {name} RENAME VALUE 'low' TO 'lower'")
    with pytest.raises(PublishError, match="other words"):
        target(warehouse).publish(release("2026-11-def", graded("low", "high")))

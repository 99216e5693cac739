"""A view of a DuckDB file reads that file and nothing else, unless the spec allows it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from click.testing import Result

from tests.examples import SPEC
from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.spec.reading import parse_spec

OUTSIDE = {
    "parquet": "SELECT * FROM read_parquet('{folder}/t.parquet')",
    "by_name": "SELECT * FROM '{folder}/t.parquet'",
    "csv": "SELECT * FROM read_csv('{folder}/t.csv')",
    "nested": "SELECT * FROM parquet",
    "macro": "SELECT * FROM of_a_macro()",
    "scalar": "SELECT scalar_macro() AS a",
    "listing": "SELECT file FROM glob('{folder}/*')",
    "text": "SELECT content FROM read_text('{folder}/t.csv')",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "w.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS a FROM range(5)")
        connection.execute(f"COPY t TO '{tmp_path}/t.parquet'")
        connection.execute(f"COPY t TO '{tmp_path}/t.csv'")
        connection.execute(f"CREATE MACRO of_a_macro() AS TABLE SELECT * FROM read_csv('{tmp_path}/t.csv')")
        connection.execute(f"CREATE MACRO scalar_macro() AS (SELECT max(a) FROM read_csv('{tmp_path}/t.csv'))")
        for name, query in OUTSIDE.items():
            connection.execute(f"CREATE VIEW {name} AS {query.format(folder=tmp_path)}")
        connection.execute("CREATE VIEW inside AS SELECT a FROM t WHERE a > 0 UNION ALL SELECT range FROM range(2)")
        connection.execute(f"ATTACH '{tmp_path}/other.duckdb' AS other")
        connection.execute("CREATE TABLE other.t AS SELECT 1 AS a")
        connection.execute("CREATE VIEW attached AS SELECT * FROM other.t")
    return path


def rows(source: DuckDBSource) -> int:
    [column] = source.schema().names
    return sum(batch.num_rows for batch in source.read([column]))


@pytest.mark.parametrize("view", sorted(OUTSIDE))
def test_a_view_that_reads_files_is_refused_unless_allowed(database: Path, view: str) -> None:
    """On 7b5a274 every one of them is read."""
    with pytest.raises(SpecError, match=r"reads files or other databases[\s\S]*source\.external: true"):
        rows(DuckDBSource(database, view))
    assert rows(DuckDBSource(database, view, external=True)) > 0


def test_a_release_of_such_a_view_is_refused_by_the_command(
    clinic: Clinic, run: Callable[..., Result], prefect_server: None  # noqa: F811
) -> None:  # fmt: skip
    """On 7b5a274 it is charged and published."""
    with duckdb.connect(str(clinic.folder / "clinic.duckdb")) as connection:
        connection.execute(f"COPY visits TO '{clinic.folder}/part.parquet'")
        connection.execute(f"CREATE VIEW outside AS SELECT * FROM '{clinic.folder}/part.parquet'")
    refused = run("release", clinic.write(("table: visits", "table: outside")))
    assert refused.exit_code == 2, refused.output
    assert "source.external: true" in refused.output
    assert clinic.charges == []
    released = run("release", clinic.write(("table: visits", "table: outside, external: true")))
    assert released.exit_code == 0, released.output


def test_a_view_of_the_file_itself_is_read(database: Path) -> None:
    assert rows(DuckDBSource(database, "inside")) == 6
    assert rows(DuckDBSource(database, "t")) == 5


def test_a_view_of_an_attached_database_is_not_read(database: Path) -> None:
    with pytest.raises(SourceError):
        rows(DuckDBSource(database, "attached"))


def test_a_variable_of_this_program_is_no_table(database: Path) -> None:
    there = pa.table({"a": [1, 2, 3]})
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE there (a BIGINT)")
        connection.execute("CREATE VIEW variable AS SELECT * FROM there")
        connection.execute("DROP TABLE there")
    with pytest.raises(SourceError):
        rows(DuckDBSource(database, "variable"))
    assert there.num_rows == 3


def test_a_view_that_sorts_more_than_fits_in_memory_still_spills(database: Path) -> None:
    """The engine's own temporary files are not the files of a view."""
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE large AS SELECT range AS who, md5(range::VARCHAR) AS a FROM range(400000);"
            "CREATE VIEW sorted AS SELECT a FROM large ORDER BY a"
        )
    source = DuckDBSource(database, "sorted")
    with source.connect() as connection:
        connection.execute("SET memory_limit = '40MB'")
        connection.execute("SET threads = 1")
        assert len(connection.execute(source.query(connection, ["a"])).fetchall()) == 400_000


def test_allowing_it_or_not_is_no_part_of_what_is_measured() -> None:
    plain = parse_spec(SPEC)
    allowed = parse_spec(SPEC.replace("{uri:", "{external: true, uri:"))
    named = parse_spec(SPEC.replace("{uri:", "{id: north, uri:"))
    assert plain.hash == allowed.hash != named.hash
    # As version 7b5a274 made it: a spec of before keeps its measurements.
    assert plain.hash == "a3502e052633d91ad97b0ca07b5c1706ed65f4ea03ca05a5e0987eb4c39284cb"

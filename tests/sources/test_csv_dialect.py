"""CSV files in other dialects: the same table however it is written, and never a row that decides about another."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.dialect import CsvDialect
from understudy.pipelines.spec.source import SourceSpec

ROWS = [["Zoë; x", "1,5"], [None, "2"], ["it's, 'so'", None]]


def rows(path: Path, columns: list[str], quoted_newlines: bool = False, **dialect: Any) -> list[list[Any]]:
    source = CsvSource(path, quoted_newlines, CsvDialect(**dialect))
    return [list(row.values()) for batch in source.read(columns) for row in batch.to_pylist()]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize("quoted_newlines", [False, True])
def test_a_table_is_the_same_however_it_is_written(tmp_path: Path, encoding: str, quoted_newlines: bool) -> None:
    text = "# made by hand\nname;amount\n'Zoë; x';1,5\n# not a row; no\nNA;2\n'it''s, ''so''';\\N\n"
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(text.encode(encoding))
    for name in ("t.csv", "t.csv.gz"):
        found = rows(
            tmp_path / name, ["name", "amount"], quoted_newlines,
            delimiter=";", quote="'", comment="#", encoding=encoding, nulls=["NA", "\\N"],
        )  # fmt: skip
        assert found == ROWS


def test_columns_may_be_named_by_the_spec_or_numbered(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\t1\nb\t2\n")
    assert rows(tmp_path / "t.csv", ["word", "n"], delimiter="\t", header=["word", "n"]) == [["a", "1"], ["b", "2"]]
    assert rows(tmp_path / "t.csv", ["column_2"], delimiter="\t", header=False) == [["1"], ["2"]]
    assert (
        CsvSource(tmp_path / "t.csv", False, CsvDialect(delimiter="\t", header=False)).schema().names[0] == "column_1"
    )


def test_without_quotes_a_quote_is_a_letter(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a|b\n"x|"y"\n5"|6\n')
    assert rows(tmp_path / "t.csv", ["a", "b"], delimiter="|", quote=None) == [['"x', '"y"'], ['5"', "6"]]


def test_bytes_that_an_encoding_lacks_cost_their_own_letter(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\nx\x81y,1\nz,2\n")
    assert rows(tmp_path / "t.csv", ["a", "b"], encoding="cp1252") == [["x\ufffdy", "1"], ["z", "2"]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("ab;'\"#,|", max_size=6), max_size=8), st.integers(0, 7))
def test_a_line_reads_alike_beside_any_other(tmp_path_factory: Any, lines: list[str], which: int) -> None:
    place = tmp_path_factory.mktemp("csv")
    dialect = {"delimiter": ";", "quote": "'", "comment": "#"}
    (place / "all.csv").write_text("x;y\n" + "".join(f"{line}\n" for line in lines))
    together = rows(place / "all.csv", ["x", "y"], **dialect)
    apart = []
    for line in lines:
        (place / "one.csv").write_text(f"x;y\n{line}\n")
        apart += rows(place / "one.csv", ["x", "y"], **dialect)
    assert together == apart


@pytest.mark.parametrize(
    "wrong",
    [{"delimiter": ";;"}, {"delimiter": "a"}, {"quote": ","}, {"encoding": "no-such"}, {"encoding": "hex"},
     {"header": []}, {"header": ["a", "a"]}, {"comment": "\n"}],
)  # fmt: skip
def test_a_dialect_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CsvDialect(**wrong)


def test_a_dialect_is_for_csv_files(tmp_path: Path) -> None:
    source = SourceSpec(uri="t.parquet", snapshot="s", csv=CsvDialect(delimiter=";"))
    with pytest.raises(SpecError, match="is for CSV files"):
        open_source(source, tmp_path)

"""CSV, line by line: what a row becomes is decided by its own line, whatever the lines beside it say."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.files import csv_file
from understudy.pipelines.sources.files.csv_file import csv_batches
from understudy.pipelines.sources.files.csv_lines import LONGEST, line_blocks, record_blocks, screened
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

HEADER = b"a,b\n"
Row = tuple[bytes | None, ...]


def fields_of(record: bytes) -> list[bytes]:
    """The fields of one record, as one would write it on paper; an open quote ends with the record."""
    fields, at = [], 0
    while True:
        text = b""
        if record[at : at + 1] == b'"':
            at += 1
            while at < len(record):
                if record[at : at + 2] == b'""':
                    text, at = text + b'"', at + 2
                elif record[at : at + 1] == b'"':
                    at += 1
                    break
                else:
                    text, at = text + record[at : at + 1], at + 1
        end = record.find(b",", at)
        if end < 0:
            return [*fields, text + record[at:]]
        fields.append(text + record[at:end])
        at = end + 1


def rows_by_line(body: bytes, fields: int = 2, longest: int = LONGEST) -> list[Row]:
    lines = [line for line in re.split(rb"\r\n|\n|\r", body) if line and len(line) <= longest]
    found = [fields_of(line) for line in lines]
    return [tuple(field or None for field in row) for row in found if len(row) == fields]


def rows_of(text: bytes, quoted_newlines: bool = False, columns: tuple[str, ...] = ("a", "b")) -> list[Row]:
    batches = csv_batches(pa.BufferReader(text), "t.csv", columns, 3, quoted_newlines)
    as_bytes = [[column.cast(pa.binary()).to_pylist() for column in batch.columns] for batch in batches]
    return [row for columns_ in as_bytes for row in zip(*columns_, strict=True)]


pieces = st.sampled_from(
    [
        b'"',
        b'""',
        b",",
        b"\n",
        b"\r\n",
        b"\r",
        b"1",
        b"x y",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
        "é".encode(),
        b'1,"2"\n',
    ]
)
bodies = st.lists(pieces, max_size=30).map(b"".join)
lines = st.lists(pieces.filter(lambda piece: b"\n" not in piece and b"\r" not in piece), max_size=8).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(bodies)
@example(b'1,"2\n3,4\n')
@example(b'1,2\na"b,"c\n3",4\n')
@example(b'1,"\n')
@example(b"\xef\xbb\xbf1,2\n")
@example(b"\xef")
def test_every_line_is_read_as_it_would_be_on_paper(body: bytes) -> None:
    assert rows_of(HEADER + body) == rows_by_line(body)


@settings(max_examples=150, deadline=None)
@given(st.lists(lines, max_size=8), lines, st.integers(0, 8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_one_more_line_adds_its_own_row_or_none(others: list[bytes], line: bytes, at: int, end: bytes) -> None:
    text = [line + end for line in others]
    without = rows_of(HEADER + b"".join(text))
    alone = rows_of(HEADER + line)
    before = len(rows_of(HEADER + b"".join(text[:at])))
    with_it = rows_of(HEADER + b"".join([*text[:at], line + end, *text[at:]]))
    assert len(alone) <= 1
    assert with_it == without[:before] + alone + without[before:]


@settings(max_examples=150, deadline=None)
@given(st.lists(lines.filter(bool), max_size=8), st.sampled_from([b"\n", b"\r\n"]))
def test_files_with_one_kind_of_line_break_are_read_as_any_other(found: list[bytes], end: bytes) -> None:
    body = end.join(found)
    assert rows_of(HEADER + body) == rows_of(HEADER + body + end) == rows_by_line(body)


@settings(max_examples=150, deadline=None)
@given(bodies, st.integers(1, 40), st.integers(1, 40), st.integers(0, 40))
def test_where_blocks_end_decides_nothing(body: bytes, block: int, longest: int, front: int) -> None:
    stream = pa.BufferReader(body[front:])
    blocks = [
        screened(lines, 2, longest=longest).tobytes() for lines in line_blocks(stream, body[:front], block, longest)
    ]
    assert rows_by_line(b"".join(blocks)) == rows_by_line(body, longest=longest)
    one = record_blocks(pa.BufferReader(body), b"", 2, block_bytes=10_000, longest=longest)
    many = record_blocks(pa.BufferReader(body[front:]), body[:front], 2, block_bytes=block, longest=longest)
    assert b"".join(map(np.ndarray.tobytes, one)) == b"".join(map(np.ndarray.tobytes, many))


def test_a_block_that_starts_with_a_byte_order_mark_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"\xef\xbb\xbfx,1\n" * 5
    monkeypatch.setattr(csv_file, "line_blocks", lambda stream, front: line_blocks(stream, front, 7, 100))
    assert rows_of(b"\xef\xbb\xbf" + HEADER + body) == [(b"\xef\xbb\xbfx", b"1")] * 5


def test_lines_of_any_length_are_read_or_dropped_by_their_length_alone() -> None:
    long, too_long = b"x" * (LONGEST - 2), b"y" * (LONGEST - 1)
    for around in (b"", b"1,2\n" * 100_000):
        body = around + long + b",1\n" + around + too_long + b",1\n3,4\n" + too_long * 3
        found = [len(row[0] or b"") for row in rows_of(HEADER + body)]
        small = [1] * (len(around) // 4)
        assert found == [*small, LONGEST - 2, *small, 1]


def test_quoted_line_breaks_are_read_where_they_are_asked_for() -> None:
    body = b'1,"two\nlines"\r\n3,"a ""b""\r\nc"\n5\n,\n7,"open\n8,9\n'
    assert rows_of(HEADER + body, quoted_newlines=True) == [
        (b"1", b"two\nlines"),
        (b"3", b'a "b"\r\nc'),
        (None, None),
        (b"7", b"open"),
        (b"8", b"9"),
    ]
    assert rows_of(b'"a\n1","b"\n1,"2\n"', True, ("b", "a\n1")) == [(b"2\n", b"1")]


def test_with_quoted_line_breaks_an_unclosed_quote_never_fails_and_ends_within_the_longest_record() -> None:
    line = b"3," + b"4" * 10_000 + b"\n"
    others = 2 * LONGEST // len(line)
    found = rows_of(HEADER + b'1,"open\n' + line * others, quoted_newlines=True)
    assert found[0] == (b"1", b"open")
    assert len(found) == 1 + others


@settings(max_examples=200, deadline=None)
@given(bodies)
def test_with_quoted_line_breaks_nothing_fails(body: bytes) -> None:
    rows_of(HEADER + body, quoted_newlines=True)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_files_are_read_line_by_line_whatever_they_hold(name: str, tmp_path: Path) -> None:
    body = b'1,"2\n3,4\r\n\xff\n\x00,\xfe\r5,6,7\n8,9'
    text = HEADER + body
    (tmp_path / name).write_bytes(gzip.compress(text[:9]) + gzip.compress(text[9:]) if name.endswith("gz") else text)
    source = open_source(SourceSpec(uri=name, snapshot="s"), tmp_path)
    batches = [batch.column("b").cast(pa.binary()) for batch in source.read(["b"])]
    assert [value for batch in batches for value in batch.to_pylist()] == [row[1] for row in rows_by_line(body)]


def test_a_header_ends_with_its_line_so_that_no_name_holds_a_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,"b\ncanary,2\n')
    source = open_source(SourceSpec(uri="t.csv", snapshot="s"), tmp_path)
    assert source.schema().names == ["a", "b"]
    quoted = open_source(SourceSpec(uri="t.csv", snapshot="s", quoted_newlines=True), tmp_path)
    with pytest.raises(SourceError, match="no CSV header") as caught:
        quoted.schema()
    assert "canary" not in str(caught.value)
    (tmp_path / "t.csv").write_bytes(b"a" * (1 << 20))
    with pytest.raises(SourceError, match="no CSV header"):
        open_source(SourceSpec(uri="t.csv", snapshot="s"), tmp_path).schema()


def test_the_new_key_leaves_the_hash_of_older_specs_alone_and_is_for_csv(tmp_path: Path) -> None:
    declared = {
        "name": "t",
        "source": {"uri": "t.csv", "snapshot": "s"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
        "columns": {"a": {"type": "boolean"}},
        "publish": {"to": "out"},
    }
    spec = ReleaseSpec.model_validate(declared)
    assert spec.hash == HASH_BEFORE
    declared["source"] = {"uri": "t.csv", "snapshot": "s", "quoted_newlines": False}
    assert ReleaseSpec.model_validate(declared).hash == HASH_BEFORE
    declared["source"] = {"uri": "t.csv", "snapshot": "s", "quoted_newlines": True}
    assert ReleaseSpec.model_validate(declared).hash != HASH_BEFORE
    with pytest.raises(SpecError, match="for CSV"):
        open_source(SourceSpec(uri="t.parquet", snapshot="s", quoted_newlines=True), tmp_path)


HASH_BEFORE = "906eba3363d404b82583b52ef0799080ba235e2a8588c0b54486a1398e047efc"
"""As commit 7b5a274 computes it."""

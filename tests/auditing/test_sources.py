"""The same neighbours as files, tables of databases and objects: whatever one person's rows hold, nobody else's are
read or counted another way, and nothing fails. Also where ids collide, and where files change in between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.auditing.places import KINDS, Opener
from tests.auditing.sizes import done, pairs
from understudy.pipelines.auditing.cases import OPEN, open_case, planned_case
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.replay import Recorder, Subject, measured, replayed, spec_of
from understudy.pipelines.auditing.replay import compared as compared_as
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.ids import read_ids

LOCAL = ("csv", "parquet", "parquet files", "duckdb", "sqlite")
PEOPLE = ["privpgd, people", "privpgd, replaced", "gaussian, people", "gaussian, fixed centre replaced"]
CASES = [
    *((kind, case, 5 if kind == "duckdb" else 15) for kind in LOCAL for case in PEOPLE),
    *((kind, case, 6) for kind in ("postgresql", "object csv") for case in PEOPLE[:2]),
    *((kind, "discovery, people", 4) for kind in ("csv", "sqlite", "postgresql")),
    *(("s3", case, 3) for case in PEOPLE[:1]),
    *((kind, "tree, in order", 2) for kind in (*LOCAL, "postgresql")),
]


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[None]:
    """A bucket for the whole module; only where one is asked for, since the server takes a moment."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3_server"))
        environment.setenv("AWS_ACCESS_KEY_ID", "canary-access")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        environment.setenv("AUDITED_BUCKET", "audited")
        import boto3

        boto3.client("s3").create_bucket(Bucket="audited")
        yield


@lru_cache(maxsize=32)
def planned_from(kind: str, case: str) -> Subject:
    """What may be told of the number of rows depends on the source: not every line of a file is a row."""
    spec = open_case(case) if case in OPEN else planned_case(case).spec
    uri = "t.csv" if "csv" in kind else spec.source.uri
    named = spec.model_copy(update={"source": spec.source.model_copy(update={"uri": uri})})
    return named if case in OPEN else plan_release(named)


def compared(kind: str, case: str, choose: random.Random) -> None:
    planned = planned_from(kind, case)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as environment:
        pair = made_pair(spec_of(planned), choose)
        opened = Opener(kind, Path(name), environment)
        found = compared_as(planned, pair, choose.randrange(2**32), opened)
    assert found.holds, found
    done(f"from {kind}")


@pytest.mark.parametrize(
    ("kind", "case", "few"),
    [
        pytest.param(*each, id=f"{each[0]}-{each[1]}", marks=[pytest.mark.slow] if each[0] == "s3" else [])
        for each in CASES
    ],
)
def test_no_pair_of_neighbours_is_told_apart_by_where_it_lies(
    kind: str, case: str, few: int, request: pytest.FixtureRequest
) -> None:
    if kind == "s3":
        request.getfixturevalue("store")

    @settings(max_examples=pairs(few), deadline=None, derandomize=True)
    @given(choose=st.randoms(use_true_random=True))
    def every(choose: random.Random) -> None:
        compared(kind, case, choose)

    every()


def test_every_kind_of_place_is_tried() -> None:
    assert {kind for kind, _, _ in CASES} == set(KINDS)


@pytest.mark.parametrize("half", ["high", "low"])
@settings(max_examples=pairs(25), deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=True))
def test_nor_where_all_ids_collide_in_one_half_of_their_hashes(half: str, choose: random.Random) -> None:
    def weakened(*arguments: Any) -> tuple[np.ndarray, Hashes]:
        known, found = read_ids(*arguments)
        nothing = np.zeros(len(found), np.uint64)
        return known, Hashes(nothing, found.low) if half == "high" else Hashes(found.high, nothing)

    planned = planned_case("privpgd, people")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "read_ids", weakened)
        pair = made_pair(planned.spec, choose)
        found = replayed(planned, pair.table, pair.neighbour, choose.randrange(2**32))
        seller = Recorder(1)
        measured(planned, people_at_their_cap(pair.table.schema), seller)
    assert found.holds, found
    [step] = seller.steps
    ticks = int(next(iter(step.mechanism.exact.values())).sum())
    assert ticks >= 8 * 0.99 * planned_ticks(planned), "people whose hashes collide share one allowance"
    done("colliding ids")


def planned_ticks(planned: Any) -> int:
    """What one person of one row gives."""
    seller = Recorder(1)
    schema = made_pair(planned.spec, random.Random(1)).table.schema
    measured(planned, people_at_their_cap(schema).slice(0, 1), seller)
    return int(next(iter(seller.steps[0].mechanism.exact.values())).sum())


def people_at_their_cap(schema: pa.Schema) -> pa.Table:
    rows = [{**dict.fromkeys(schema.names), "who": person} for person in range(1, 9) for _ in range(3)]
    return pa.table({
        "who": pa.array([row["who"] for row in rows]),
        **{name: pa.nulls(len(rows), schema.field(name).type) for name in schema.names if name != "who"},
    })  # fmt: skip


@pytest.mark.parametrize("kind", ["csv", "parquet", "parquet files"])
@settings(max_examples=pairs(6), deadline=None, derandomize=True)
@given(choose=st.randoms(use_true_random=True))
def test_a_file_that_changes_in_between_ends_alike_for_both_and_buys_nothing(kind: str, choose: random.Random) -> None:
    """Something is added, replaced or touched after the first pass: one message, whatever the tables hold."""
    planned, change = planned_from(kind, "privpgd, people"), choose.choice(("append", "replace", "touch"))
    pair = made_pair(spec_of(planned), choose)
    ends = []
    for table in (pair.table, pair.neighbour):
        with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
            opened, gather, passes = Opener(kind, Path(name), patch), bounding._gather, 0

            def gathering(*arguments: Any, opened: Opener = opened, gather: Any = gather) -> Any:
                nonlocal passes
                found = gather(*arguments)
                passes += 1
                if passes == 1:
                    changed(opened.last, change)
                    gather(*arguments)  # as the next pass would
                return found

            patch.setattr(bounding, "_gather", gathering)
            seller = Recorder(1)
            ended = str(measured(planned, table, seller, opened)).replace(name, "")
            ends.append((ended, len(seller.steps)))
    assert ends[0] == ends[1]
    assert "changed while it was read; nothing was spent" in ends[0][0]
    assert ends[0][1] == 0
    done("changed in between")


def changed(folder: Path, how: str) -> None:
    path = next(path for path in sorted(folder.rglob("t*")) if path.is_file() or path.is_dir())
    path = next(iter(sorted(path.glob("*.parquet")))) if path.is_dir() else path
    match how:
        case "append":
            with path.open("ab") as file:
                file.write(b"1,1,1,2026-01-01,true,rose,77\n" * 3)
        case "replace":
            other = path.with_name("other")
            if path.suffix == ".parquet":
                table = pq.read_table(path)
                pq.write_table(pa.concat_tables([table, table]), other)
            else:
                other.write_bytes(path.read_bytes() * 2)
            other.replace(path)
        case _:
            path.touch()

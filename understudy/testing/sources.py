"""What every source owes, as tests. Subclass `SourceContract`, give `write` and `describe`, and run pytest.

The table of the tests is `tables.example`; a format that cannot hold it (pictures) overrides `columns` and `table`.
What a source cannot do it is not asked for: the tests of parts, of counting and of snapshots are skipped if it says
that it has none.
"""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.pushdown import count_in_engine
from understudy.pipelines.errors import SourceError, SpecError, UnderstudyError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import check_columns, open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.testing.tables import (
    CANARY,
    COLUMNS,
    ENTITY,
    ODD_TEXTS,
    as_read,
    example,
    spec_of_columns,
    with_odd_texts,
)

ROWS = 60
KEY = b"contract"


class SourceContract(ABC):
    columns: ClassVar[dict[str, dict[str, Any]]] = COLUMNS
    entity: ClassVar[str | None] = ENTITY
    holds_nulls: ClassVar[bool] = True
    odd_texts: ClassVar[Sequence[str]] = ODD_TEXTS
    """Texts that the format can hold at all, one a row; none: it holds no text."""

    @abstractmethod
    def write(self, table: pa.Table, place: Path) -> None:
        """Keep these rows where the source reads them, instead of what is there. `place` is an empty folder of the
        test's own, the same for every call of one test; a database makes of it what it needs."""

    @abstractmethod
    def describe(self, place: Path) -> SourceSpec:
        """What a spec says of it; relative paths start at `place`."""

    def damage(self, place: Path) -> None:
        """Make what is stored unreadable. By default it is taken away."""
        for path in sorted(place.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def table(self, rows: int, seed: int = 0) -> pa.Table:
        return example(rows, seed, self.holds_nulls)

    def open(self, place: Path) -> Source:
        return open_source(self.describe(place), place, self.spec)

    @property
    def spec(self) -> ReleaseSpec:
        return spec_of_columns(self.columns, self.entity)

    @property
    def domain(self) -> TableDomain:
        return TableDomain.of(self.spec)

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        made = tmp_path / "place"
        made.mkdir()
        return made

    @pytest.fixture
    def opened(self, place: Path) -> Iterator[Any]:
        """`opened()`: a source of what is stored now; `opened(table)`: of that table. All are closed in the end."""
        with ExitStack() as stack:

            def make(table: pa.Table | None = None) -> Source:
                if table is not None:
                    self.write(table, place)
                source = self.open(place)
                stack.callback(source.close)
                return source

            yield make

    def expected(self, table: pa.Table) -> list[tuple[bytes, ...]]:
        return as_read(table.to_batches(), self.domain)

    def found(self, source: Source, batch_rows: int = 1000) -> list[tuple[bytes, ...]]:
        return as_read(source.read(self.domain.record_names, batch_rows), self.domain)

    def test_the_schema_has_what_was_declared(self, opened: Any) -> None:
        check_columns(opened(self.table(ROWS)).schema(), self.spec)

    @pytest.mark.parametrize("batch_rows", [1, 7, 1_000_000])
    def test_batches_of_any_size_are_the_same_rows(self, opened: Any, batch_rows: int) -> None:
        table = self.table(ROWS)
        assert self.found(opened(table), batch_rows) == self.expected(table)

    def test_a_batch_has_the_columns_in_the_order_they_were_asked_for(self, opened: Any) -> None:
        asked = self.domain.record_names[::-1]
        batches = list(opened(self.table(ROWS)).read(asked, 9))
        assert sum(batch.num_rows for batch in batches) == ROWS
        assert all(tuple(batch.schema.names) == asked for batch in batches)

    def test_a_table_without_rows_is_a_table(self, opened: Any) -> None:
        source = opened(self.table(ROWS).slice(0, 0))
        check_columns(source.schema(), self.spec)
        assert self.found(source) == []

    def test_a_column_that_is_not_there_is_refused(self, opened: Any) -> None:
        with pytest.raises(UnderstudyError):
            list(opened(self.table(ROWS)).read(["no such column"]))

    def test_two_passes_see_one_state_or_fail(self, opened: Any, place: Path) -> None:
        source = opened(self.table(ROWS))
        first = self.found(source)
        assert self.found(source) == first
        private = LocalTable(source, self.domain, Unit(), KEY)
        before = private.counts([()])
        with suppress(Exception):  # what is being read may refuse to be changed: as good
            self.write(self.table(ROWS + 5, seed=1), place)
        try:
            again = private.counts([()])
        except SourceError:
            return
        if source.snapshot_id() is not None:
            assert [count.tolist() for count in again] == [count.tolist() for count in before]

    def test_the_parts_are_the_rows_each_once(self, opened: Any) -> None:
        table = self.table(ROWS)
        parts = opened(table).parts()
        if parts is None:
            pytest.skip("it is one stream")
        batches = [batch for part in parts for batch in part.read(self.domain.record_names, 7)]
        assert as_read(batches, self.domain) == self.expected(table)

    def test_parts_travel_to_other_processes(self, opened: Any) -> None:
        """As Dask sends them. What they need of the source stays with it: it is still open."""
        table = self.table(ROWS)
        parts = opened(table).parts()
        if parts is None:
            pytest.skip("it is one stream")
        sent = [pickle.loads(pickle.dumps(part)) for part in parts]  # noqa: S301
        batches = [batch for part in sent for batch in part.read(self.domain.record_names, 7)]
        assert as_read(batches, self.domain) == self.expected(table)

    def test_the_engine_counts_as_streaming_does(self, opened: Any) -> None:
        source = opened(self.table(ROWS))
        counter = source.counter()
        if counter is None:
            pytest.skip("its rows have to be read")
        able = [i for i, column in enumerate(self.domain.columns) if counter.can_group(column)]
        assert able, "a counter that can group nothing of the example"
        cliques = [*((i,) for i in able), *combinations(able, 2)]
        streamed = LocalTable(source, self.domain, Unit(), KEY).stream_counts(cliques)
        for one, other in zip(count_in_engine(counter, self.domain, cliques), streamed, strict=True):
            assert one.tolist() == other.tolist()

    @pytest.mark.parametrize("most", [1, 2])
    def test_no_entity_has_more_rows_than_its_bound(self, opened: Any, most: int) -> None:
        if self.entity is None:
            pytest.skip("it has no column of entities")
        table = self.table(ROWS)
        unit = Unit(self.entity, most)
        cliques = [(), *((i,) for i in range(len(self.domain.columns)))]
        found = LocalTable(opened(table), self.domain, unit, KEY).counts(cliques)
        owners = [who for who in table.column(self.entity).to_pylist() if who is not None]
        assert int(found[0]) == sum(min(owners.count(who), most) for who in set(owners))
        other = LocalTable(ArrowSource(table), self.domain, unit, KEY).counts(cliques)
        assert [count.tolist() for count in found] == [count.tolist() for count in other]

    def test_rows_of_nobody_are_left_out(self, opened: Any) -> None:
        if self.entity is None or not self.holds_nulls:
            pytest.skip("every row has an entity")
        table = self.table(ROWS)
        nobody = pa.nulls(ROWS, table.schema.field(self.entity).type)
        source = opened(table.set_column(table.column_names.index(self.entity), self.entity, nobody))
        (count,) = LocalTable(source, self.domain, Unit(self.entity, 2), KEY).counts([()])
        assert int(count) == 0

    def test_no_value_makes_a_read_fail(self, opened: Any) -> None:
        if not self.odd_texts:
            pytest.skip("it holds no text")
        table = with_odd_texts(self.table(ROWS), self.odd_texts)
        assert len(self.found(opened(table))) == table.num_rows

    def test_another_state_has_another_snapshot_id(self, opened: Any) -> None:
        source = opened(self.table(ROWS))
        known = source.snapshot_id()
        if known is None:
            pytest.skip("it cannot tell states apart")
        assert known == source.snapshot_id()
        self.found(source)
        assert known == source.snapshot_id()
        source.close()
        assert opened(self.table(ROWS, seed=1)).snapshot_id() != known

    def test_closing_lets_go(self, opened: Any, place: Path) -> None:
        source = opened(self.table(ROWS))
        self.found(source)
        source.close()
        source.close()
        table = self.table(ROWS + 5, seed=1)
        self.write(table, place)
        assert self.found(opened()) == self.expected(table)

    def test_closing_what_was_never_read_is_nothing(self, opened: Any) -> None:
        opened(self.table(ROWS)).close()

    def test_what_cannot_be_read_is_told_without_a_value(self, opened: Any, place: Path) -> None:
        table = self.table(ROWS)
        if self.odd_texts:
            table = with_odd_texts(table, [CANARY])
        self.write(table, place)
        self.damage(place)
        with pytest.raises(UnderstudyError) as caught:
            self.found(opened())
        told = "".join(traceback.format_exception(caught.value, chain=True))
        assert CANARY not in told
        assert caught.value.problem
        assert caught.value.fix

    def test_what_is_not_there_is_told(self, opened: Any) -> None:
        with pytest.raises((SourceError, SpecError)):
            opened().schema()

    def test_its_size_is_a_number_or_unknown(self, opened: Any) -> None:
        estimate = opened(self.table(ROWS)).row_estimate()
        assert estimate is None or isinstance(estimate, int | np.integer)

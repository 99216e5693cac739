"""Making a table in parts: each is drawn, finished, checked, counted and kept, by whoever has time for it.

A part is a function of the maker and its number, and nothing that one part does depends on another, so that parts may
be made in any order, twice, in threads or on workers, and a run that was killed goes on with those that are missing.
Post-processing of released numbers: the random stream of a part is derived from them and protects nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import combinations
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.counting.counting import add_counts, count_items, usable_cores
from understudy.pipelines.counting.tally import Clique, Tally
from understudy.pipelines.methods.base import Progress, Sampler
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.part_files import KeptParts, PartFile, PartPlace, packed, unpacked
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.rules import Rule
from understudy.pipelines.table.checks import Checks
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.keeping import Types
from understudy.pipelines.table.part_checks import PartReport, report_of
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.synthetic import Seen, Synthetic

SHOWN_ROWS = 200_000
"""Rows of all parts together that are looked at again; every row is checked and counted when it is made."""

PAIRED = 24
"""Columns whose pairs are counted over all rows, for the card; those of more over the rows that are shown."""
MOST_CELLS = 1 << 20
"""Of a pair of columns that is counted only for the card."""


@dataclass(frozen=True, eq=False)
class MadePart:
    """What is known of a part: its file, its counts, its checks, its first rows. `content` is for whoever keeps it."""

    number: int
    file: PartFile
    counts: list[np.ndarray] = field(repr=False)
    broken: tuple[int, ...]
    report: PartReport = field(repr=False)
    shown: pa.Table = field(repr=False)
    content: bytes | None = field(default=None, repr=False)

    @property
    def packed(self) -> bytes:
        if self.content is None:
            raise ValueError("the rows of this part lie in its place")
        return self.content


@dataclass(frozen=True, eq=False)
class PartMaker:
    """Everything that makes part n of a table, wherever that is done. It can be pickled."""

    sampler: Sampler
    sizes: tuple[int, ...]
    seed: int
    domain: TableDomain
    types: Types | None
    checks: Checks
    cliques: tuple[Clique, ...]
    rules: tuple[Rule, ...]
    place: PartPlace | None

    def elsewhere(self) -> PartMaker:
        return replace(self, place=None)

    def lies(self, number: int) -> bool:
        return self.place is not None and self.place.get(number) is not None

    def make(self, number: int) -> MadePart:
        """As it lies in its place or, if it does not, drawn and put there; without a place it is handed back."""
        content = None if self.place is None else self.place.get(number)
        drawn = content is None
        part = self.draw(number) if content is None else unpacked(content)
        found = looked_at(part, number, content, self.domain, self.cliques, self.checks, self.rules, len(self.sizes))
        if self.place is None:
            return found
        if drawn:
            self.place.put(number, found.packed)
            fault_point("part_kept")
        return replace(found, content=None)

    def draw(self, number: int) -> pa.Table:
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number + 1,)))
        part = self.sampler.draw(sum(self.sizes[:number]), self.sizes[number], rng)
        return finished(part, self.domain, self.types, rng).combine_chunks()


Part = TypeVar("Part")
PartOut = TypeVar("PartOut", covariant=True)


class Maker(Protocol[PartOut]):
    """Everything that makes part n, wherever that is done. It can be pickled."""

    @property
    def place(self) -> PartPlace | None: ...

    def make(self, number: int) -> PartOut: ...

    def lies(self, number: int) -> bool:
        """Whether that part lies in its place already."""
        ...

    def elsewhere(self) -> Self:
        """The same for whoever does not see the place: parts are handed back, and whoever asked keeps them."""
        ...


class Workers(Protocol):
    """Makes the parts of these numbers, in any order."""

    def __call__(self, maker: Maker[Part], numbers: Sequence[int]) -> Iterable[Part]: ...


def by_threads(maker: Maker[Part], numbers: Sequence[int]) -> Iterator[Part]:
    with ThreadPoolExecutor(min(usable_cores(), len(numbers))) as pool:
        yield from pool.map(maker.make, numbers)


def looked_at(
    part: pa.Table,
    number: int,
    content: bytes | None,
    domain: TableDomain,
    cliques: Sequence[Clique],
    checks: Checks,
    rules: Sequence[Rule],
    parts: int,
) -> MadePart:
    """What is known of a part of a table, with its packed rows; `content` are these, if it was read from them."""
    content, synthetic = packed(part) if content is None else content, Synthetic(part, domain)
    return MadePart(
        number,
        PartFile.of(content),
        count_items([synthetic.codes], Tally.add, domain.sizes, cliques, threads=1),
        tuple(int(broken_rows(rule, synthetic.modelled, domain).sum()) for rule in rules),
        report_of(part, checks),
        _copied(part.slice(0, -(-SHOWN_ROWS // parts))),
        content,
    )


def made_in_parts(
    maker: PartMaker, place: PartPlace, workers: Workers = by_threads, progress: Progress = lambda done, of, note: None
) -> Synthetic:
    """All parts, made and kept, as the table that they are."""
    made: dict[int, MadePart] = {}
    counts: list[np.ndarray] = []
    for part in workers(maker, range(len(maker.sizes))):
        if part.content is not None:
            place.put(part.number, part.content)
            fault_point("part_kept")
        counts = add_counts([counts, part.counts]) if counts else part.counts
        made[part.number] = replace(part, content=None, counts=[])
        done, total = sum(maker.sizes[number] for number in made), sum(maker.sizes)
        progress(done, total, f"{done:,} of {total:,} rows made")
    return table_of_parts(made, counts, maker.cliques, maker.domain, place)


def table_of_parts(
    made: Mapping[int, MadePart],
    counts: Sequence[np.ndarray],
    cliques: Sequence[Clique],
    domain: TableDomain,
    place: PartPlace,
) -> Synthetic:
    """The table that all parts are, which lie in a place; `counts` are of all of them."""
    parts = [made[number] for number in range(len(made))]
    broken = tuple(sum(each) for each in zip(*(part.broken for part in parts), strict=True))
    seen = Seen(dict(zip(cliques, counts, strict=True)), broken, tuple(part.report for part in parts))
    shown = pa.concat_tables([part.shown for part in parts])
    rows = tuple(part.report.rows for part in parts)
    kept = KeptParts.at(place, shown.schema, rows, tuple(part.file for part in parts))
    return Synthetic(shown, domain, kept, seen)


def counted_cliques(domain: TableDomain, compared: Sequence[Clique]) -> tuple[Clique, ...]:
    """What is counted of every part: columns, what the method compares, and pairs that the card shows."""
    sizes = domain.sizes
    shown = combinations(range(min(len(sizes), PAIRED)), 2)
    pairs = [pair for pair in shown if sizes[pair[0]] * sizes[pair[1]] <= MOST_CELLS]
    return tuple(dict.fromkeys([*((column,) for column in range(len(sizes))), *map(tuple, compared), *pairs]))


def generation_key(measured: Measurement, spec: ReleaseSpec, domain: TableDomain, rows: int) -> str:
    """Names a table that is generated: what was released, how rows are made of it, how many, and by which version."""
    digest = hashlib.sha256()
    for name in sorted(measured.arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(measured.arrays[name]).tobytes())
    return hash_of(
        {
            "released": digest.hexdigest(),
            "kind": measured.kind,
            "generate": spec.generate.model_dump(mode="json"),
            "columns": {name: column.model_dump(mode="json") for name, column in spec.columns.items()},
            "types": dict(measured.facts.get("types") or {}),
            "sizes": list(domain.sizes),
            "rows": rows,
            "version": version("understudy"),
        }
    )


def _copied(rows: pa.Table) -> pa.Table:
    """Without the part that it is a slice of, which need not stay in memory for it."""
    return rows.take(pa.array(np.arange(rows.num_rows)))

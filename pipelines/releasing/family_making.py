"""Families made, all at once or in parts: each part is whole families, drawn, checked, counted and kept in Parquet.

A part is a function of the maker and its number, and of no other part, as in `making`: parts may be made in any order,
twice, in threads or on workers, and a run that was killed goes on with those that are missing. A part that lies there
with some of its tables only is made again, to the same bytes. The random streams are derived from what was released.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from understudy.pipelines.counting.counting import add_counts
from understudy.pipelines.methods.base import Progress
from understudy.pipelines.methods.tree.generating.family_parts import family_parts, roots_wanted
from understudy.pipelines.methods.tree.generating.tables import generate_flat, generate_tables
from understudy.pipelines.methods.tree.released import ReleasedTree, released_tree
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.part_files import PartPlace, unpacked
from understudy.pipelines.releasing.families import checks_by_table, failures_between, family_ticks
from understudy.pipelines.releasing.making import (
    MadePart,
    Workers,
    by_threads,
    counted_cliques,
    generation_key,
    looked_at,
    table_of_parts,
)
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import SeenFamilies, Synthetic
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree, tables_of


@dataclass(frozen=True, eq=False)
class MadeFamilies:
    """What is known of a part: its tables, what is broken between them, and ticks of every view."""

    number: int
    tables: Mapping[str, MadePart]
    between: tuple[str, ...]
    ticks: tuple[tuple[np.ndarray, ...], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class FamilyMaker:
    """Everything that makes part n of the families. It can be pickled; `sizes` are the roots of each part."""

    measured: Measurement
    released: ReleasedTree
    planned: Planned
    sizes: tuple[int, ...]
    seed: int
    place: PartPlace | None

    def elsewhere(self) -> FamilyMaker:
        return replace(self, place=None)

    def lies(self, number: int) -> bool:
        return self._kept(number) is not None

    def make(self, number: int) -> MadeFamilies:
        kept = self._kept(number)
        drawn = self.draw(number) if kept is None else self._read(kept)
        checks = checks_by_table(drawn, self.measured, self.planned, None)
        tables = {
            name: looked_at(
                one.table, number, (kept or {}).get(name), one.domain, _cliques(one.domain), checks[name], (),
                len(self.sizes),
            )
            for name, one in tables_of(drawn).items()
        }  # fmt: skip
        ticks = int(self.measured.facts["ticks"])
        found = MadeFamilies(
            number,
            tables,
            tuple(failures_between(drawn, self.planned)),
            family_ticks(drawn, self.released, self.planned, ticks, threads=1),
        )
        if self.place is None:
            return found
        return keep(found, self.place) if kept is None else without_content(found)

    def draw(self, number: int) -> Made:
        """The families of a part, whose keys lie above those of the parts before."""
        spec, types = self.planned.spec, self.measured.facts.get("types")
        stream = np.random.SeedSequence(self.seed, spawn_key=(number + 1,))
        roots, before = self.sizes[number], sum(self.sizes[:number])
        assert spec.tree is not None
        if spec.tree.is_implied:
            return generate_flat(self.released, spec, self.planned.domain, roots, stream, types, before)
        return generate_tables(self.released, spec, roots, stream, types, before)

    def _kept(self, number: int) -> dict[str, bytes] | None:
        """The packed tables of a part, if all of them lie in the place."""
        found = {name: None if self.place is None else self.place.of(name).get(number) for name in self._domains}
        whole = {name: content for name, content in found.items() if content is not None}
        return whole if len(whole) == len(found) else None

    def _read(self, kept: Mapping[str, bytes]) -> Made:
        found = {name: Synthetic(unpacked(kept[name]), domain) for name, domain in self._domains.items()}
        return found[""] if "" in found else SyntheticTree(found)

    @property
    def _domains(self) -> Mapping[str, TableDomain]:
        """Of each published table, parents first."""
        return self.planned.domains if self.planned.spec.tables is not None else {"": self.planned.domain}


def generate_families(
    measured: Measurement,
    planned: Planned,
    roots: int | None,
    progress: Progress,
    place: PartPlace,
    workers: Workers = by_threads,
) -> Made:
    """So many roots with everything below them, by default as many as were measured."""
    released, seed = released_tree(measured), int(families_key(measured, planned, roots), 16)
    wanted = roots_wanted(released, roots)
    sizes = family_parts(released, planned.domains, wanted)
    maker = FamilyMaker(measured, released, planned, sizes, seed, place)
    if len(sizes) > 1:
        return families_in_parts(maker, place, workers, progress)
    progress(0, 1, "")
    made = _all_at_once(maker, wanted)
    progress(1, 1, "")
    return made


def families_key(measured: Measurement, planned: Planned, roots: int | None) -> str:
    """Names the tables that are generated."""
    return generation_key(measured, planned.spec, planned.domain, roots or 0)


def families_in_parts(maker: FamilyMaker, place: PartPlace, workers: Workers, progress: Progress) -> Made:
    """All parts, made and kept, as the tables that they are."""
    made: dict[int, MadeFamilies] = {}
    counts: dict[str, list[np.ndarray]] = {}
    ticks: list[list[np.ndarray]] = []
    for part in workers(maker, range(len(maker.sizes))):
        kept = keep(part, place) if any(each.content is not None for each in part.tables.values()) else part
        for name, each in part.tables.items():
            counts[name] = add_counts([counts[name], each.counts]) if name in counts else each.counts
        views = [list(tables) for tables in part.ticks]
        ticks = [add_counts(both) for both in zip(ticks, views, strict=True)] if ticks else views
        tables = {name: replace(each, counts=[]) for name, each in kept.tables.items()}
        made[part.number] = replace(kept, tables=tables, ticks=())
        done, total = sum(maker.sizes[number] for number in made), sum(maker.sizes)
        progress(done, total, f"{done:,} of {total:,} families made")
    broken = dict.fromkeys(said for number in sorted(made) for said in made[number].between)
    seen = SeenFamilies(tuple(broken), tuple(tuple(tables) for tables in ticks))
    found = {}
    for name, domain in maker._domains.items():
        of_table = {number: part.tables[name] for number, part in made.items()}
        found[name] = table_of_parts(of_table, counts[name], _cliques(domain), domain, place.of(name))
    if "" in found:
        flat = found[""]
        return Synthetic(flat.shown, flat.domain, flat.parts, flat.seen, seen)
    return SyntheticTree(found, seen)


def keep(part: MadeFamilies, place: PartPlace) -> MadeFamilies:
    for name, each in part.tables.items():
        place.of(name).put(part.number, each.packed)
    fault_point("part_kept")
    return without_content(part)


def without_content(part: MadeFamilies) -> MadeFamilies:
    return replace(part, tables={name: replace(each, content=None) for name, each in part.tables.items()})


def _all_at_once(maker: FamilyMaker, roots: int) -> Made:
    spec, types = maker.planned.spec, maker.measured.facts.get("types")
    stream = np.random.SeedSequence(maker.seed)
    assert spec.tree is not None
    if spec.tree.is_implied:
        return generate_flat(maker.released, spec, maker.planned.domain, roots, stream, types)
    return generate_tables(maker.released, spec, roots, stream, types)


def _cliques(domain: TableDomain) -> tuple[tuple[int, ...], ...]:
    return counted_cliques(domain, ())

"""Generating: synthetic rows from what was bought. Post-processing, so it may be repeated for ever.

A small table is made at once. A large one is fitted once and drawn in parts (`making`), which are kept where the
release will be published or, where that is no place for files, in the workspace.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import InParts, Progress
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.part_files import PARTS, FolderOfParts, MemoryOfParts, PartPlace
from understudy.pipelines.publishing.targets.base import open_target, release_id
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.family_making import families_key, generate_families
from understudy.pipelines.releasing.making import (
    PartMaker,
    Workers,
    by_threads,
    counted_cliques,
    generation_key,
    made_in_parts,
)
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.checks import checks_of
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.in_parts import sizes_of
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import Made


def generate_rows(
    measured: Measurement,
    planned: Planned,
    generators: Path | None,
    rows: int | None = None,
    progress: Progress = lambda done, steps, note: None,
    place_of: Callable[[str], PartPlace] = lambda key: MemoryOfParts(),
    workers: Workers = by_threads,
) -> Made:
    """`rows` rows, by default as many as the spec says; `generators` is where a half-trained generator may wait.

    `place_of` says where the parts of a large table are kept, given what names the table that is generated.
    """
    wanted = rows_wanted(rows, planned)
    if planned.spec.tree is not None:
        place = place_of(families_key(measured, planned, wanted))
        return generate_families(measured, planned, wanted, progress, place, workers)
    spec, domain, types = planned.spec, planned.domain, measured.facts.get("types")
    if isinstance(planned.method, InParts):
        total = planned.method.rows_of(measured, spec, domain) if wanted is None else wanted
        sizes = sizes_of(total, len(domain.columns) + sum(tensor.size for tensor in domain.tensors))
        if len(sizes) > 1:
            key = generation_key(measured, spec, domain, total)
            seed = int(key, 16)
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,)))
            place = place_of(key)
            maker = PartMaker(
                planned.method.sampler(measured, spec, domain, total, rng, progress, generators),
                sizes,
                seed,
                domain,
                types,
                checks_of(contract_of(domain, wanted, types)),
                counted_cliques(domain, planned.method.compared(measured)),
                spec.generate.rules,
                place,
            )
            return made_in_parts(maker, place, workers, progress)
    table = planned.method.generate(measured, spec, domain, wanted, progress, generators)
    return Synthetic(finished(table, domain, types), domain)


def parts_beside(spec: ReleaseSpec, mids: tuple[str, ...], books: Books, base: Path) -> Callable[[str], PartPlace]:
    """Where parts of that release are kept: with its target, if that has a place for files, else in the workspace."""

    def place_of(key: str) -> PartPlace:
        identity = release_id(spec, mids)
        place = open_target(spec, base).part_place(spec.name, identity, key)
        return place or FolderOfParts(books.generators / f"{PARTS}{spec.name}-{identity}-{key[:12]}")

    return place_of


def rows_wanted(rows: int | None, planned: Planned) -> int | None:
    """None: as many as were measured."""
    if rows is None:
        return planned.spec.publish.rows
    if rows < 1:
        raise SpecError(f"{rows} rows cannot be made", "ask for at least one")
    return rows

"""A published release beside the table that it is a copy of, read through the same bounded path as the release was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.comparing.distances import distances, pairs_of, triples_of
from understudy.pipelines.comparing.held import intervals_held
from understudy.pipelines.comparing.learning import NOT_LEARNT, can_learn, detection, downstream
from understudy.pipelines.comparing.model import Comparison, Downstream, TreeComparison
from understudy.pipelines.comparing.numbers import compared_numbers
from understudy.pipelines.comparing.trees import compare_tree
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.stored import read_directory
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.releasing.measuring import counted_here, named_source
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.releasing.versions import means_the_table
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import read_numbers
from understudy.pipelines.table.synthetic import Synthetic

MOST_SAMPLED = 500_000
"""Rows of either side that distribution functions and learners see; tables are counted from all."""


@discreet("compare")
def compare_release(
    spec: ReleaseSpec, base: Path, release: str, labels: Sequence[str] = ()
) -> Comparison | TreeComparison:
    """Reads private rows and adds no noise: whatever comes out is as confidential as the table."""
    stored = read_directory(release)
    if means_the_table(spec):  # the version that the release is of
        released = spec.source.model_copy(update={"snapshot": stored.manifest.snapshot})
        spec = spec.model_copy(update={"source": released})
    _require_same(spec, stored.manifest)
    planned = plan_release(spec)
    if spec.tree is not None:
        return compare_tree(planned, base, stored, labels)
    copy = Synthetic(_rows_of(stored.manifest, release), planned.domain)
    wanted = [_column_of(label, planned.domain) for label in labels]
    with closing(named_source(spec, base)) as source:
        table = counted_here(source, planned)
        found = _compared(planned, table, copy, stored.manifest, wanted)
        held = intervals_held(stored, table)
    return found if held is None else replace(found, remarks=(*found.remarks, held))


def _require_same(spec: ReleaseSpec, manifest: Manifest) -> None:
    if manifest.spec_hash != spec.hash:
        raise SpecError(
            f"{manifest.name} {manifest.release_id} was measured by another spec than this one, or of snapshot "
            f"{manifest.snapshot!r}",
            "give the spec as it was released, with that snapshot",
        )


def _rows_of(manifest: Manifest, release: str) -> pa.Table:
    folder = Path(release)
    folder = folder.parent if folder.name == "manifest.json" else folder
    folder = folder if (folder / "data").exists() else folder / "latest"
    try:
        return pq.read_table(folder / "data")
    except (OSError, pa.ArrowException):
        pass
    raise SourceError(f"the rows of {manifest.name} {manifest.release_id} cannot be read", "were they retired?")


def _column_of(name: str, domain: TableDomain) -> int:
    if name in domain.names:
        return domain.index(name)
    raise SpecError(f"there is no modelled column {name!r}", f"choose among {', '.join(domain.names[:20])}")


def _compared(
    planned: Planned, table: PrivateTable, copy: Synthetic, manifest: Manifest, labels: Sequence[int]
) -> Comparison:
    domain = planned.domain
    real, synthetic = table.counts, partial(count_marginals, [copy.codes], domain.sizes)
    [rows] = table.counts([()])
    singles = [(i,) for i in range(len(domain.columns))]
    triples, in_all = triples_of(domain)
    sides = _sampled(table, int(rows), domain), _features(copy.modelled.to_batches(), domain)
    numbers = [
        compared_numbers(column, *(side[:, i] for side in sides))
        for i, column in enumerate(domain.columns)
        if column.kind not in ("category", "boolean")
    ]
    learnt = can_learn()
    scores = [downstream(label, domain.columns, *sides) for label in labels] if learnt else []
    return Comparison(
        manifest.name,
        manifest.release_id,
        manifest.snapshot,
        int(rows),
        copy.table.num_rows,
        tuple(distances(real, synthetic, singles, domain)),
        tuple(distances(real, synthetic, pairs_of(domain), domain)),
        tuple(distances(real, synthetic, triples, domain)),
        in_all,
        tuple(sorted((each for each in numbers if each is not None), key=lambda each: -each.ks)),
        detection(domain.columns, *sides) if learnt else None,
        tuple(each for each in scores if each is not None),
        tuple(_remarks(domain, int(rows), learnt, labels, scores)),
    )


def _remarks(
    domain: TableDomain, rows: int, learnt: bool, labels: Sequence[int], scores: Sequence[Downstream | None]
) -> list[str]:
    found = []
    if rows > MOST_SAMPLED:
        found.append(f"distribution functions and learners saw about {MOST_SAMPLED:,} of the rows; tables count all")
    if not learnt:
        found.append(NOT_LEARNT)
    missing = [domain.names[label] for label, score in zip(labels, scores, strict=False) if score is None]
    if missing:
        found.append(f"too few rows or classes to learn {', '.join(missing)} from")
    return found


def _sampled(table: PrivateTable, rows: int, domain: TableDomain) -> np.ndarray:
    """Every row, or each with the same chance where there are many."""
    chance = np.random.default_rng()
    share = min(1.0, MOST_SAMPLED / max(1, rows))
    batches = (
        batch if share == 1 else batch.filter(pa.array(chance.random(batch.num_rows) < share))
        for batch in table.record_batches()
    )
    return _features(batches, domain)


def _features(batches: Iterable[pa.RecordBatch], domain: TableDomain) -> np.ndarray:
    """A row a record: numbers as they are, categories and truths as codes, NaN where there is none."""
    found = [_numbers(batch, domain) for batch in batches]
    return np.concatenate(found) if found else np.empty((0, len(domain.columns)))


def _numbers(batch: pa.RecordBatch, domain: TableDomain) -> np.ndarray:
    codes = encode(batch, domain)
    made = np.empty((batch.num_rows, len(domain.columns)))
    for i, column in enumerate(domain.columns):
        made[:, i] = _feature(batch.column(column.name), column, codes.columns[i])
    return made


def _feature(values: pa.Array, column: DomainColumn, codes: np.ndarray) -> np.ndarray:
    if column.kind in ("category", "boolean"):
        return np.where(codes == column.null_code, np.nan, codes) if column.nullable else codes.astype(np.float64)
    numbers = read_numbers(values, column)
    return np.where(np.isfinite(numbers), numbers, np.nan)

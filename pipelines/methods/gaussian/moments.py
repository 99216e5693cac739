"""Exact sums of products over a stream of batches: one pass, integers throughout, the same for any partitioning.

The features of a row are integers of size at most 2 `grid` <= 2^13 (see `layout`; centred ones are twice as large).
A block of 2^14 rows is laid out as doubles and multiplied by BLAS: every partial sum is an integer of at most
2^14 * 2^26 = 2^40 < 2^53 in size, so floating point commits no rounding whatever order BLAS adds in. Blocks are added
in int64, which holds any table of fewer than `MAX_ROWS` = 2^37 (10^11) rows: 2^37 * 2^26 = 2^63. Integer addition is
associative, hence the partitioning, the number of workers and the order of batches cannot change one bit of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pyarrow as pa
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.coding.grid import to_grid
from understudy.pipelines.table.reading.values import read_numbers

BLOCK_ROWS = 2**14
MAX_GRID = 2**12
MAX_ROWS = 2**37


def exact_products(batches: Iterable[pa.RecordBatch], layout: Layout, workers: int = 2) -> np.ndarray:
    """Sum over rows of f f^T for each class: int64 of shape (classes, width, width). Counts and sums are its row 0."""
    shape = (layout.classes, layout.width, layout.width)
    return sum_over(batches, lambda batch: products_of(batch, layout), shape, workers)


def sum_over(
    batches: Iterable[pa.RecordBatch],
    work: Callable[[pa.RecordBatch], np.ndarray],
    shape: tuple[int, ...],
    workers: int = 2,
) -> np.ndarray:
    """The int64 sum of `work` over the batches, a few of which are in memory at a time."""
    total = np.zeros(shape, np.int64)
    # One BLAS thread for each worker: small products gain nothing from more, and idle BLAS threads spin.
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        for part in _bounded_map(pool, work, batches, 2 * workers):
            total += part
    return total


@contextmanager
def one_blas_thread() -> Iterator[None]:
    with _blas().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Looking for the loaded BLAS takes milliseconds, so it is done once."""
    return ThreadpoolController()


def products_of(batch: pa.RecordBatch, layout: Layout) -> np.ndarray:
    """The same for one batch or partition; sums of these are the whole table's (a Dask task may compute it)."""
    total = np.zeros((layout.classes, layout.width, layout.width), np.int64)
    for features, classes in feature_blocks(batch, layout, fixed_point_writer(batch, layout)):
        add_products(features, classes, total)
    return total


Writer = Callable[[int, int, np.ndarray, np.ndarray | None], None]
"""Writes rows start..stop of the numeric slots, given the rows' classes, into a block of features."""


def fixed_point_writer(batch: pa.RecordBatch, layout: Layout) -> Writer:
    """Numbers scaled by the public bounds, and their null indicators."""
    numbers = [read_numbers(batch.column(layout.column(i).name), layout.column(i)) for i in layout.numeric]
    unused = np.empty(min(BLOCK_ROWS, batch.num_rows))

    def write(start: int, stop: int, features: np.ndarray, classes: np.ndarray | None) -> None:
        for place, index in enumerate(layout.numeric):
            missing = features[layout.null_row[index]] if index in layout.null_row else unused[: stop - start]
            to_grid(numbers[place][start:stop], layout.column(index), layout.grid, features[1 + place], missing)

    return write


def feature_blocks(
    batch: pa.RecordBatch, layout: Layout, write_numbers: Writer
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Blocks of features (width, rows) as doubles, in one buffer that is overwritten, and the rows' classes."""
    # Rows of zeros up to a multiple of 4, which BLAS multiplies a fifth faster; `add_products` leaves them out.
    buffer = np.zeros((-(-layout.width // 4) * 4, min(BLOCK_ROWS, batch.num_rows)))
    codes = {i: encode_column(batch.column(layout.column(i).name), layout.column(i)) for i in layout.categories}
    labels = None
    if layout.label is not None:
        labels = encode_column(batch.column(layout.column(layout.label).name), layout.column(layout.label))
    for start in range(0, batch.num_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, batch.num_rows)
        features = buffer[:, : stop - start]
        classes = None if labels is None else labels[start:stop]
        features[0] = 1.0
        write_numbers(start, stop, features, classes)
        for index, column_codes in codes.items():
            rows = layout.block_rows[index]
            values = np.arange(len(rows))[:, None]
            np.equal(column_codes[start:stop], values, out=features[rows[0] : rows[-1] + 1])
        yield features, classes


def add_products(features: np.ndarray, classes: np.ndarray | None, total: np.ndarray) -> None:
    """Add f f^T of every row to the total of its class. `features` may have more rows than the total, all zero."""
    width = total.shape[1]
    if classes is None:
        total[0] += (features @ features.T)[:width, :width].astype(np.int64)
        return
    order = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes, minlength=len(total)))
    ordered = features[:, order]
    for label, stop in enumerate(ends):
        start = ends[label - 1] if label else 0
        if stop > start:
            part = ordered[:, start:stop]
            total[label] += (part @ part.T)[:width, :width].astype(np.int64)


def _bounded_map(
    pool: ThreadPoolExecutor,
    work: Callable[[pa.RecordBatch], np.ndarray],
    items: Iterable[pa.RecordBatch],
    ahead: int,
) -> Iterator[np.ndarray]:
    """`pool.map` that holds only a few batches at a time, however long the stream."""
    source = iter(items)
    waiting = [pool.submit(work, item) for item in itertools.islice(source, ahead)]
    while waiting:
        yield waiting.pop(0).result()
        waiting.extend(pool.submit(work, item) for item in itertools.islice(source, 1))

"""Exact sums of products over a stream of batches: one pass, integers throughout, the same for any partitioning.

The features of a row are integers of size at most `grid` <= 2^12 (see `layout`). A block of 2^14 rows is laid out as
doubles and multiplied by BLAS: every partial sum is an integer of at most 2^14 * 2^24 = 2^38 < 2^53 in size, so
floating point commits no rounding whatever order BLAS adds in. Blocks are added in int64, which holds any table of
fewer than 2^39 (5 * 10^11) rows: 2^39 * 2^24 = 2^63. Integer addition is associative, hence the partitioning, the
number of workers and the order of batches cannot change one bit of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits
from understudy.pipelines.encoding import encode_column
from understudy.pipelines.gaussian.layout import Layout
from understudy.pipelines.gaussian.reading import read_numbers, to_grid

BLOCK_ROWS = 2**14
MAX_GRID = 2**12


def exact_products(batches: Iterable[pa.RecordBatch], layout: Layout, workers: int = 2) -> np.ndarray:
    """Sum over rows of f f^T for each class: int64 of shape (classes, width, width). Counts and sums are its row 0."""
    return sum_over(batches, lambda batch: products_of(batch, layout), layout, workers)


def sum_over(
    batches: Iterable[pa.RecordBatch],
    products: Callable[[pa.RecordBatch], np.ndarray],
    layout: Layout,
    workers: int = 2,
) -> np.ndarray:
    """Add up one batch's products after another's, a few batches in memory at a time."""
    total = np.zeros((layout.classes, layout.width, layout.width), np.int64)
    # One BLAS thread for each worker: small products gain nothing from more, and idle BLAS threads spin.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        for part in _bounded_map(pool, products, batches, 2 * workers):
            total += part
    return total


def products_of(batch: pa.RecordBatch, layout: Layout) -> np.ndarray:
    """The same for one batch or partition; sums of these are the whole table's (a Dask task may compute it)."""
    numbers = [read_numbers(batch.column(layout.column(i).name), layout.column(i)) for i in layout.numeric]
    unused = np.empty(BLOCK_ROWS)

    def write(start: int, stop: int, features: np.ndarray) -> None:
        for place, index in enumerate(layout.numeric):
            missing = features[layout.null_row[index]] if index in layout.null_row else unused[: stop - start]
            to_grid(
                numbers[place][start:stop], layout.column(index), layout.grid, features[1 + place], missing
            )

    return summed_blocks(batch, layout, write)


def summed_blocks(
    batch: pa.RecordBatch, layout: Layout, write_numbers: Callable[[int, int, np.ndarray], None]
) -> np.ndarray:
    """Products of one batch, its numeric rows written block by block by `write_numbers(start, stop, features)`."""
    total = np.zeros((layout.classes, layout.width, layout.width), np.int64)
    buffer = np.empty((layout.width, BLOCK_ROWS))
    codes = {
        i: encode_column(batch.column(layout.column(i).name), layout.column(i)) for i in layout.categories
    }
    classes = None
    if layout.label is not None:
        classes = encode_column(batch.column(layout.column(layout.label).name), layout.column(layout.label))
    for start in range(0, batch.num_rows, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, batch.num_rows)
        features = buffer[:, : stop - start]
        features[0] = 1.0
        write_numbers(start, stop, features)
        for index, column_codes in codes.items():
            rows = layout.block_rows[index]
            np.equal(
                column_codes[start:stop], np.arange(len(rows))[:, None], out=features[rows[0] : rows[-1] + 1]
            )
        if classes is None:
            total[0] += (features @ features.T).astype(np.int64)
        else:
            _add_by_class(features, classes[start:stop], total)
    return total


def _add_by_class(features: np.ndarray, classes: np.ndarray, total: np.ndarray) -> None:
    order = np.argsort(classes, kind="stable")
    ends = np.cumsum(np.bincount(classes, minlength=len(total)))
    ordered = features[:, order]
    for label, stop in enumerate(ends):
        start = ends[label - 1] if label else 0
        if stop > start:
            part = ordered[:, start:stop]
            total[label] += (part @ part.T).astype(np.int64)


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

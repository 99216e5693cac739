"""Parts of a large table made by Dask's workers: drawn, checked, counted and, where they see the place, kept by them.

A part is a pure function of the maker and its number, so a worker that is lost costs the time of its parts, and a part
that is made twice is the same part. Workers put a part where the release will be published if that is a place they see
(an object store; or any, where they are threads of this process); else they hand its packed bytes back and this process
keeps them, so that no directory need be shared. All of it is synthetic, made of released numbers.

Workers of a cluster load the package while the releasing process fits the rows that they will be sent: that is seconds
of each, which would otherwise count for every one of them however few parts it makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice

import dask
import numpy as np
from distributed import Client, Future, as_completed, fire_and_forget

from understudy.pipelines.errors import SourceError
from understudy.pipelines.releasing.making import Maker, Part, Workers
from understudy.pipelines.table.coding.bucketing import look_up
from understudy.tasks.engines.dask_counting import client_of

LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "1GB"}
"""Fitted rows travel with the first task, once."""
MOST_AHEAD = 2
"""Parts for each thread of a worker that are on their way at a time: one that it makes and one that it goes on with.
The others are for whoever is done first."""
LATE_IMPORTS = ("pandas", "pyarrow.parquet")
"""What making a part imports only once it is needed."""


def by_dask(scheduler: str | None, method: str | None = None) -> Workers:
    """On threads of this process or, with `scheduler`, on its workers, which load the module `method` from now on."""
    if scheduler is not None and method is not None:
        with suppress(SourceError), client_of(scheduler) as client:  # a small table needs no worker
            for worker in client.scheduler_info(n_workers=-1)["workers"]:
                fire_and_forget(client.submit(make_ready, method, workers=[worker], pure=False))

    def workers(maker: Maker[Part], numbers: Sequence[int]) -> Iterator[Part]:
        place = maker.place
        elsewhere = scheduler is not None and place is not None and not place.everywhere
        left = [number for number in numbers if elsewhere and maker.lies(number)]
        yield from map(maker.make, left)  # what a killed run left lies here, where workers do not see it
        waiting = (number for number in numbers if number not in left)
        with client_of(scheduler, "made the synthetic table") as client, dask.config.set(LARGE_GRAPH):
            # A task and not scattered data: it is made again should every worker that has it be lost.
            shared = client.submit(_handed_out, maker.elsewhere() if elsewhere else maker, pure=False)
            ahead = MOST_AHEAD * max(1, sum(client.nthreads().values()))
            running = as_completed(_submitted(client, shared, islice(waiting, ahead)))
            for future in running:
                yield future.result()
                future.release()
                running.update(_submitted(client, shared, islice(waiting, 1)))

    return workers


def make_ready(method: str) -> None:
    for module in (method, *LATE_IMPORTS):
        import_module(module)
    code = np.zeros(1, np.uint8)
    look_up(code, 0, code, code.copy())  # any compiled loop loads what all of them need


def make_part(maker: Maker[Part], number: int) -> Part:
    return maker.make(number)


def _handed_out(maker: Maker[Part]) -> Maker[Part]:
    return maker


def _submitted(client: Client, maker: Future, numbers: Iterable[int]) -> list[Future]:
    return [client.submit(make_part, maker, number, pure=False) for number in numbers]

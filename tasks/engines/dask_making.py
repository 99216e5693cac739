"""Parts of a large table made by Dask's workers: drawn, checked, counted and, where they see the place, kept by them.

A part is a pure function of the maker and its number, so a worker that is lost costs the time of its parts, and a part
that is made twice is the same part. Workers put a part where the release will be published if that is a place they see
(an object store; or any, where they are threads of this process); else they hand its packed bytes back and this process
keeps them, so that no directory need be shared. All of it is synthetic, made of released numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import dask
from distributed import Client, Future, as_completed

from understudy.pipelines.releasing.making import Maker, Part, Workers
from understudy.tasks.engines.dask_counting import client_of

LARGE_GRAPH = {"distributed.admin.large-graph-warning-threshold": "1GB"}
"""Fitted rows travel with the first task, once."""
MOST_AHEAD = 4
"""Parts for each thread of a worker that are on their way at a time: what waits here is packed bytes."""


def by_dask(scheduler: str | None) -> Workers:
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


def make_part(maker: Maker[Part], number: int) -> Part:
    return maker.make(number)


def _handed_out(maker: Maker[Part]) -> Maker[Part]:
    return maker


def _submitted(client: Client, maker: Future, numbers: Iterable[int]) -> list[Future]:
    return [client.submit(make_part, maker, number, pure=False) for number in numbers]

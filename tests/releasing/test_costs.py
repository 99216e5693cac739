"""What a release will cost, told before it runs: more rows cost more time and no more memory, and a cluster is advised
where it would help."""

from __future__ import annotations

from typing import Any

from benchmarks.cost import planned
from tests.releasing.test_parts import spec_of
from understudy.api import Synthesizer
from understudy.pipelines.releasing.costs import ReleaseCost, estimate_release
from understudy.pipelines.releasing.planning import plan_release


def cost_of(rows: int, columns: int = 10, **more: Any) -> ReleaseCost:
    known = planned(None, columns)
    found = estimate_release(known.spec, known.plan, rows, **{"cores": 2, **more})
    assert found is not None
    return found


def test_time_grows_with_rows_and_memory_does_not() -> None:
    small, large, huge = (cost_of(rows) for rows in (10**7, 10**8, 10**10))
    assert 5 < large.cpu_seconds / small.cpu_seconds < 10
    assert small.peak_mb == large.peak_mb == huge.peak_mb < 2000
    assert (small.parts, large.parts) == (10, 100)
    assert large.output_mb / small.output_mb == 10


def test_ten_million_rows_are_foretold_as_they_were_measured() -> None:
    """39.7 CPU seconds and 159 MB (docs/costs.md)."""
    assert 0.75 < cost_of(10**7).cpu_seconds / 39.7 < 1.25
    assert 0.75 < cost_of(10**7).output_mb / 158.8 < 1.25


def test_more_columns_cost_as_their_square() -> None:
    making = [next(stage for stage in cost_of(10**7, c).stages if stage.stage == "fitting") for c in (10, 20, 40)]
    assert 3.5 < making[1].cpu_seconds / making[0].cpu_seconds < 4.5
    assert 3.5 < making[2].cpu_seconds / making[1].cpu_seconds < 4.5


def test_a_cluster_is_advised_where_it_would_help() -> None:
    assert cost_of(10**6).advice(2) is None
    advice = cost_of(10**9).advice(2)
    assert advice is not None
    assert "compute.engine: dask would help" in advice
    here, there = cost_of(10**9), cost_of(10**9, workers=100)
    assert there.seconds(100) < here.seconds(2) / 10
    assert any(stage.moved_mb for stage in there.stages)
    assert not any(stage.moved_mb for stage in here.stages)


def test_where_a_methods_own_work_is_not_known_nothing_is_said() -> None:
    known = plan_release(Synthesizer(spec_of("kernel")).spec)
    assert estimate_release(known.spec, known.plan, 10**6) is None

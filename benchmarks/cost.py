"""The cost model of a release, fitted at two sizes and checked at a third; and what it says of ten billion rows.

Releases of `--sizes` (rows x columns) run in processes of their own, by threads, without an orchestrator. The first two
fit the constants of `pipelines/releasing/costs.py` (figures `cost.constant.<name>`, with the constant in force beside),
the third is predicted by them (`cost.check.<stage>`: predicted over measured, wanted between 0.8 and 1.25) and by the
constants in force (`cost.model.<stage>`). `cost.far.*` is `--far` on `--workers` by the constants in force.
"""

from __future__ import annotations

import argparse
import shutil
from typing import Any

import numpy as np

from benchmarks.support.figures import Figures
from benchmarks.support.large import columns_of, measured_release
from understudy.pipelines.releasing import costs
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.reading import spec_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", nargs=3, default=["2e6x10", "2e6x20", "3e6x15"], metavar="ROWSxCOLUMNS")
    parser.add_argument("--far", default="1e10x40", metavar="ROWSxCOLUMNS")
    parser.add_argument("--workers", type=int, default=100)


def run(args: argparse.Namespace) -> None:
    figures, out = Figures(args.only), args.data / "cost-out"
    if figures.wants("cost.constant.") or figures.wants("cost.check.") or figures.wants("cost.model."):
        sizes = [_size(text) for text in args.sizes]
        try:
            found = [measured_release(args.data, rows, columns, out) for rows, columns in sizes]
        finally:
            shutil.rmtree(out, ignore_errors=True)
        _fit_and_check(figures, found)
    _far(figures, *_size(args.far), args.workers)


def _fit_and_check(figures: Figures, found: list[dict[str, Any]]) -> None:
    plans = [planned(each["rows"], each["columns"]) for each in found]
    units = [costs.redraw_units(plan.domain.sizes, plan.plan.counted) for plan in plans]
    cpu = {stage: [each["stages"][stage]["cpu"] for each in found] for stage in found[0]["stages"]}
    making = [(each["rows"] * unit, each["rows"] * each["columns"]) for each, unit in zip(found, units, strict=True)]
    draw, value = np.linalg.solve(np.array(making[:2], float), np.array(cpu["making parts"][:2])) * 1e9
    fitting = [(min(each["rows"], costs.FITTED_ROWS) * unit, 1.0) for each, unit in zip(found, units, strict=True)]
    fit, start = np.linalg.solve(np.array(fitting[:2], float), np.array(cpu["fitting"][:2]))
    once = ("starting", "importing", "planning", "loading loops", "validating")
    fixed = [sum(cpu[stage][size] for stage in once) for size in range(3)]
    starting = start + float(np.mean(fixed[:2]))
    for name, constant, now in (
        ("DRAW_NS", draw, costs.DRAW_NS),
        ("VALUE_NS", value, costs.VALUE_NS),
        ("FIT_NS", fit * 1e9, costs.FIT_NS),
        ("STARTING_SECONDS", starting, costs.STARTING_SECONDS),
    ):
        figures.show(f"cost.constant.{name}", float(constant), "in force", now)
    third = found[2]
    predicted = {
        "making rows": float(np.dot(making[2], (draw, value))) * 1e-9,
        "fitting": float(fitting[2][0] * fit),
        "starting": float(starting),
        "counting": _counting(found),
    }
    real = {
        "making rows": cpu["making parts"][2],
        "fitting": cpu["fitting"][2] - float(start),
        "starting": fixed[2] + float(start),
        "counting": cpu["counting and measuring"][2],
    }
    for stage, seconds in predicted.items():
        figures.show(f"cost.check.{stage.replace(' ', '-')}", seconds / real[stage], "measured seconds", real[stage])
    total = sum(real.values()) + cpu["publishing"][2]
    foretold = sum(predicted.values()) + cpu["publishing"][2]
    figures.show("cost.check.total", foretold / total, "measured seconds", total)
    model = costs.estimate_release(plans[2].spec, plans[2].plan, third["rows"])
    assert model is not None
    figures.show("cost.model.cpu_seconds", model.cpu_seconds / third["total"]["cpu"], "measured", third["total"]["cpu"])
    figures.show("cost.model.peak_mb", model.peak_mb / third["total"]["peak_mb"], "measured", third["total"]["peak_mb"])
    figures.show("cost.model.output_mb", model.output_mb * 1e6 / third["bytes"], "measured", third["bytes"] / 1e6)


def _counting(found: list[dict[str, Any]]) -> float:
    """CPU seconds of counting and measuring at the third size, by the values read at the first two."""
    values = [each["rows"] * each["columns"] for each in found]
    spent = [each["stages"]["counting and measuring"]["cpu"] for each in found[:2]]
    return float(np.polyval(np.polyfit(values[:2], spent, 1), values[2]))


def _far(figures: Figures, rows: int, columns: int, workers: int) -> None:
    far = planned(None, columns)
    cost = costs.estimate_release(far.spec, far.plan, rows, workers=workers)
    assert cost is not None
    for stage in cost.stages:
        name = f"cost.far.{stage.stage.replace(' ', '-')}"
        figures.show(f"{name}.cpu_seconds", stage.cpu_seconds)
        figures.show(f"{name}.seconds", stage.seconds(workers))
        figures.show(f"{name}.peak_mb", stage.peak_mb)
        figures.show(f"{name}.moved_gb", stage.moved_mb / 1e3)
    figures.show("cost.far.seconds", cost.seconds(workers))
    figures.show("cost.far.output_gb", cost.output_mb / 1e3)
    figures.show("cost.far.parts", cost.parts)


def planned(rows: int | None, columns: int) -> Planned:
    return plan_release(
        spec_of(
            {
                "name": "large",
                "source": {"uri": "large", "snapshot": "s"},
                "privacy": {"account": "large", "epsilon": 1.0, "delta": 1e-9},
                "columns": columns_of(columns),
                "publish": {"to": "releases", **({} if rows is None else {"rows": rows})},
            }
        )
    )


def _size(text: str) -> tuple[int, int]:
    rows, columns = text.split("x")
    return int(float(rows)), int(columns)

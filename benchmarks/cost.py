"""The cost model of a release, fitted at two sizes and checked at a third; and what it says of ten billion rows.

Releases of `--sizes` (rows x columns) run in processes of their own, by threads, without an orchestrator. The first two
fit the constants of `pipelines/releasing/costs.py` (figures `cost.release.constant.<name>`, with the constant in force
beside), the third is predicted by them (`cost.release.check.<stage>`: predicted over measured, wanted between 0.8 and
1.25) and by the constants in force (`cost.release.model.<stage>`, CPU seconds, and `.peak_mb`, memory). Counting takes
less than a second at these sizes: it is fitted and checked, with measuring, at `--counted`, the same columns with ten
times the rows (the same two files again and again), by turns, `--repeat` times, of which that of least CPU counts
(`cost.counting.*`).
`cost.far.*` is `--far` on `--workers` by the constants in force.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.support.figures import Figures
from benchmarks.support.large import columns_of, measured_release
from understudy.pipelines.counting import estimate
from understudy.pipelines.counting.counting import usable_cores
from understudy.pipelines.counting.estimate import estimate_counting
from understudy.pipelines.releasing import costs
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.reading import spec_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", nargs=3, default=["2e6x10", "2e6x20", "3e6x15"], metavar="ROWSxCOLUMNS")
    parser.add_argument("--counted", nargs=3, default=["2e7x10", "2e7x20", "3e7x15"], metavar="ROWSxCOLUMNS")
    parser.add_argument("--repeat", type=int, default=3, help="runs of counting; that of least CPU counts")
    parser.add_argument("--far", default="1e10x40", metavar="ROWSxCOLUMNS")
    parser.add_argument("--workers", type=int, default=100)


def run(args: argparse.Namespace) -> None:
    figures, out = Figures(args.only), args.data / "cost-out"
    try:
        if figures.wants("cost.counting."):
            _check_counting(figures, _counted(args, out))
        if figures.wants("cost.release."):
            _fit_and_check(figures, [measured_release(args.data, *_size(text), out) for text in args.sizes])
    finally:
        shutil.rmtree(out, ignore_errors=True)
    _far(figures, *_size(args.far), args.workers)


def _counted(args: argparse.Namespace, out: Path) -> list[dict[str, Any]]:
    """The stages up to measuring: of each the least CPU of several processes, and the most memory. Sizes take turns, so
    that what else the machine does falls on all of them."""
    sizes = [_size(text) for text in args.counted]
    asked = {"until": "measuring", "own": "2"}
    turns = [[measured_release(args.data, *size, out, **asked) for size in sizes] for _ in range(args.repeat)]
    return [
        {
            "rows": runs[0]["rows"],
            "columns": runs[0]["columns"],
            "stages": {
                name: {"cpu": min(run["stages"][name]["cpu"] for run in runs),
                       "peak_mb": max(run["stages"][name]["peak_mb"] for run in runs)}
                for name in ("counting", "measuring")
            },
        }
        for runs in zip(*turns, strict=True)
    ]  # fmt: skip


def _check_counting(figures: Figures, found: list[dict[str, Any]]) -> None:
    """Counting by what reading and joint tables cost, memory as it is in force; measuring by its numbers."""
    models, numbers = [], []
    for each in found:
        plan = planned(each["rows"], each["columns"])
        unit = plan.spec.privacy.protected_unit
        models.append(estimate_counting(plan.domain, plan.plan.counted, unit, each["rows"], usable_cores()))
        numbers.append(sum(line.numbers for line in plan.plan.noise))
    counting, measuring = ([each["stages"][name]["cpu"] for each in found] for name in ("counting", "measuring"))
    terms = np.array([[model.reading_seconds, model.joint_seconds] for model in models])
    memory = np.array([model.memory_seconds for model in models])
    reading, joint = np.linalg.solve(terms[:2], np.array(counting[:2]) - memory[:2])
    number, start = np.polyfit(numbers[:2], measuring[:2], 1)
    figures.show("cost.counting.CODED_NS", float(reading) * estimate.CODED_NS, "in force", estimate.CODED_NS)
    figures.show("cost.counting.PLAIN_NS", float(reading) * estimate.PLAIN_NS, "in force", estimate.PLAIN_NS)
    figures.show("cost.counting.JOINT_NS", float(joint) * estimate.JOINT_NS, "in force", estimate.JOINT_NS)
    figures.show("cost.counting.NUMBER_NS", float(number) * 1e9, "in force", costs.NUMBER_NS)
    figures.show("cost.counting.MEASURING_SECONDS", float(start), "in force", costs.MEASURING_SECONDS)
    counted = float(terms[2] @ (reading, joint) + memory[2])
    third = {"counting": counted, "measuring": float(start + number * numbers[2])}
    for name, predicted in third.items():
        real = found[2]["stages"][name]["cpu"]
        figures.show(f"cost.counting.check.{name}", predicted / real, "measured seconds", real)
    figures.show("cost.counting.model", models[2].core_seconds / counting[2], "measured seconds", counting[2])
    for each, model in zip(found, models, strict=True):
        peak = each["stages"]["counting"]["peak_mb"]
        size = f"{each['rows']:.0e}x{each['columns']}".replace("+0", "")
        figures.show(f"cost.counting.peak_mb.{size}", model.peak_mb / peak, "measured", peak)


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
    byte = sum(cpu["publishing"][:2]) / sum(each["bytes"] for each in found[:2])
    for name, constant, now in (
        ("DRAW_NS", draw, costs.DRAW_NS),
        ("VALUE_NS", value, costs.VALUE_NS),
        ("FIT_NS", fit * 1e9, costs.FIT_NS),
        ("STARTING_SECONDS", starting, costs.STARTING_SECONDS),
        ("BYTE_NS", byte * 1e9, costs.BYTE_NS),
    ):
        figures.show(f"cost.release.constant.{name}", float(constant), "in force", now)
    predicted = {
        "making rows": float(np.dot(making[2], (draw, value))) * 1e-9,
        "fitting": float(fitting[2][0] * fit),
        "starting": float(starting),
        "publishing": byte * found[2]["bytes"],
    }
    real = {
        "making rows": cpu["making parts"][2],
        "fitting": cpu["fitting"][2] - float(start),
        "starting": fixed[2] + float(start),
        "publishing": cpu["publishing"][2],
    }
    for stage, seconds in predicted.items():
        name = f"cost.release.check.{stage.replace(' ', '-')}"
        figures.show(name, seconds / real[stage], "measured seconds", real[stage])
    total = sum(real.values())
    figures.show("cost.release.check.total", sum(predicted.values()) / total, "measured", total)
    _show_model(figures, found[2], plans[2])


def _show_model(figures: Figures, third: dict[str, Any], plan: Planned) -> None:
    """What the constants in force say of the third size."""
    model = costs.estimate_release(plan.spec, plan.plan, third["rows"])
    assert model is not None
    total, name = third["total"], "cost.release.model"
    figures.show(f"{name}.cpu_seconds", model.cpu_seconds / total["cpu"], "measured", total["cpu"])
    figures.show(f"{name}.peak_mb", model.peak_mb / total["peak_mb"], "measured", total["peak_mb"])
    figures.show(f"{name}.output_mb", model.output_mb * 1e6 / third["bytes"], "measured", third["bytes"] / 1e6)
    measured = {**third["stages"], "making rows": third["stages"]["making parts"]}
    for stage in model.stages:
        if stage.stage in ("counting", "measuring", "fitting", "making rows", "publishing"):
            name, real = f"cost.release.model.{stage.stage.replace(' ', '-')}", measured[stage.stage]
            figures.show(f"{name}.cpu_seconds", stage.cpu_seconds / real["cpu"], "measured", real["cpu"])
            figures.show(f"{name}.peak_mb", stage.peak_mb / real["peak_mb"], "measured", real["peak_mb"])


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

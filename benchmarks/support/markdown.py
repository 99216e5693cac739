"""Tables for docs/benchmarks.md from the lines that `python -m benchmarks privpgd` printed.

`python -m benchmarks.support.markdown FILE...`: a table for each peer (ours / theirs, bold where the peer is better)
and one for figures without a peer; below that of a peer, how often ours is at least as good and how much faster.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

SETS = {
    "adult": "Adult",
    "nltcs": "NLTCS",
    "br2000": "BR2000",
    "acs": "ACS",
    "income_ny": "PUMS income NY",
    "diabetes": "diabetes130",
    "nist2019": "NIST 2019",
}
EPSILONS = ("2.5", "1", "0.2")
METRICS = {
    "tv": "total variation",
    "sw1": "sliced W1",
    "covariance": "covariance",
    "counting": "counting",
    "threshold": "threshold",
    "downstream": "downstream",
}
COLUMNS = {**METRICS, "seconds": "seconds"}
SECONDS_DIGITS, METRIC_DIGITS = 2, 3


@dataclass(frozen=True)
class Run:
    """The figures of one set and budget: ours, and those of the peer if there was one."""

    ours: Mapping[str, float]
    theirs: Mapping[str, float]

    @property
    def wins(self) -> int:
        """In how many metrics ours is at least as good."""
        return sum(self.ours[metric] <= self.theirs[metric] for metric in METRICS)


Runs = dict[tuple[str, str], Run]


def read_runs(lines: Iterable[str]) -> dict[str | None, Runs]:
    """Runs by peer, then by set and budget; of figures printed twice the last counts."""
    found: dict[str | None, dict[tuple[str, str], dict[str, tuple[float, float | None]]]] = {}
    for line in lines:
        figure = json.loads(line)
        method, name, *epsilon, metric = figure["figure"].split(".")
        key = name, ".".join(epsilon)
        if method == "privpgd" and name in SETS and key[1] in EPSILONS and metric in COLUMNS:
            figures = found.setdefault(figure["peer"], {}).setdefault(key, {})
            figures[metric] = figure["value"], figure["peer_value"]
    return {
        peer: {
            key: Run(
                {metric: ours for metric, (ours, _) in runs[key].items()},
                {metric: theirs for metric, (_, theirs) in runs[key].items() if theirs is not None},
            )
            for key in ((name, epsilon) for name in SETS for epsilon in EPSILONS)
            if key in runs
        }
        for peer, runs in found.items()
    }


def table(runs: Runs) -> str:
    lines = [f"| | epsilon | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 2) + "|"]
    last = None
    for (name, epsilon), run in runs.items():
        cells = [_cell(run, column) for column in COLUMNS]
        lines.append(f"| {SETS[name] if name != last else ''} | {epsilon} | {' | '.join(cells)} |")
        last = name
    return "\n".join(lines)


def summary(runs: Runs) -> str:
    compared = [run for run in runs.values() if run.theirs]
    if not compared:
        return ""
    ratios = [run.theirs["seconds"] / run.ours["seconds"] for run in compared]
    wins = Counter(run.wins for run in compared)
    said = ", ".join(f"{many} of {len(METRICS)} in {wins[many]}" for many in sorted(wins, reverse=True))
    return f"{len(compared)} runs; at least as good in {said}; {min(ratios):.0f} to {max(ratios):.0f} times faster."


def _cell(run: Run, column: str) -> str:
    if column not in run.ours:
        return "-"
    ours = _number(run.ours[column], column)
    if column not in run.theirs:
        return ours
    theirs = _number(run.theirs[column], column)
    return f"{ours} / **{theirs}**" if run.theirs[column] < run.ours[column] else f"{ours} / {theirs}"


def _number(value: float, column: str) -> str:
    if column == "downstream":
        return f"{value:.4f}"
    if value >= 100:
        return f"{value:.0f}"
    digits = SECONDS_DIGITS if column == "seconds" else METRIC_DIGITS
    return f"{value:#.{digits}g}".rstrip(".")


def main(files: list[str]) -> None:
    lines = [line for file in files for line in Path(file).read_text().splitlines() if line.startswith("{")]
    for peer, runs in read_runs(lines).items():
        print("\n\n".join(part for part in (peer or "without a peer", table(runs), summary(runs)) if part), end="\n\n")


if __name__ == "__main__":
    main(sys.argv[1:])

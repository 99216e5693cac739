"""How often intervals hold the truth, over sets, epsilons, kinds of question and releases (delta 1e-5, ADD_REMOVE).

Figures `coverage.<set>.<epsilon>.<kind>.held`, the share of 95% intervals for the table that hold what the table
answers, beside its standard `error` over releases, and `.width`, their mean width beside that of answering the same
question alone with the whole budget (`alone`); `coverage.<set>.all.<kind>.held` over all epsilons. Groups of a question
count if they have 1% of the rows; of smaller ones the kind begins with `small.`. `empty` are cells that no row is in.
The measurement is that of method privpgd with all pairs, its noise drawn as the flow draws it. The set `workers` has
columns of 100 and 400 codes, which are measured in groups of neighbours too. With `--keep FILE` every release is kept,
and a run goes on where one stopped.

`coverage.ols.<set>.<coefficient>.held` and `.width`: least squares at epsilon 1; the peer, `rows`, is how often the
intervals of a statistics package, computed from synthetic rows, hold the same coefficient.

`coverage.logit.<set>.<coefficient>.held` and `.width`: logistic regression at epsilon 1, each release with rows of its
own; the peer is how often what a statistics package computes from those rows holds the same coefficient.

`coverage.trend.<kind>.quiet`: of a population that does not change (PUMS, 10,000 rows a period drawn anew, epsilon 1),
how many changes from one period to the next are told as none.

`coverage.income-gap`: mean income of men less that of women, on 7,400 rows and 24 columns (NIST national 2019) at
epsilon 1: `.held` for what the binned table answers and `.held_real` for its incomes before binning.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.support.figures import Figures
from benchmarks.support.kept import Found, Kept
from benchmarks.support.strategies import DELTA, grid, residual_draws
from benchmarks.support.tables import CodedTable, load_tables, people, workers
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.released import RESIDUALS, residual_facts, residuals_by_name
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import Answer, Answers
from understudy.pipelines.inference.axes import group_value
from understudy.pipelines.inference.estimating import Told, estimate
from understudy.pipelines.inference.features import parse_formula
from understudy.pipelines.inference.grouped import with_groups
from understudy.pipelines.inference.logistic import logit
from understudy.pipelines.inference.question import parse_question
from understudy.pipelines.inference.regression import ols
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.inference.trends import Trend
from understudy.pipelines.inference.verdict import verdict_of
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.columns import DomainColumn

EPSILONS = ("2.5", "1", "0.2")
Z95 = 1.959964
MOST_GROUPS = 45
SMALL = 0.01
SMALL_GROUPS = "small."
GAP_ROWS = 7_400
REGRESSED = 3
LOOKS, PERIOD_ROWS = 5, 10_000
COUNTS = 20
"""The number of rows is one number a release: it is drawn as many times as often, by itself."""
Group = tuple[Any, ...]


@dataclass(frozen=True)
class Asked:
    """A question, what the table answers, and the width of asking it alone, group by group."""

    kind: str
    text: str
    by: tuple[str, ...]
    truth: dict[Group, float]
    alone: dict[Group, float]
    small: frozenset[Group] = frozenset()
    """Groups with less than `SMALL` of the rows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--questions", type=int, default=8, help="of every kind")
    parser.add_argument("--keep", type=Path, help="a file that keeps what each release found, and goes on from there")
    parser.add_argument("--logistic", type=int, default=40, help="releases with rows, for logistic regressions")
    parser.add_argument("--copies", type=int, default=5, help="synthetic tables, for the naive errors of regressions")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    wide = workers(args.data)
    kept = Kept(f"{args.questions} questions", args.keep)
    for table in [*load_tables(args.data), *([] if wide is None else [wide])]:
        if figures.wants(f"coverage.{table.name}."):
            _cover(table, kept, args)
            _show_covered([table.name], kept, figures)
        if table.name in REGRESSIONS and figures.wants(f"coverage.ols.{table.name}."):
            _regress(table, figures, args)
        if table.name in LOGISTIC and figures.wants(f"coverage.logit.{table.name}."):
            _regress_logistic(table, figures, args.logistic)
    everybody = people(args.data)
    if everybody is not None and figures.wants("coverage.trend."):
        _constant(everybody, figures, LOOKS * args.releases)
    if figures.wants("coverage.income-gap.") and (earners := national_income(args.data)) is not None:
        _income_gap(*earners, figures, args.releases)


def _cover(table: CodedTable, kept: Kept, args: argparse.Namespace) -> None:
    """As many releases as are not kept yet; the epsilons in turn, so that what is cut short is of all of them."""
    columns = domain_of(table)
    covers = {epsilon: _Cover(table, columns, epsilon, args.questions) for epsilon in EPSILONS}
    for _ in range(args.releases - min(kept.releases(table.name, epsilon) for epsilon in EPSILONS)):
        for epsilon, cover in covers.items():
            if kept.releases(table.name, epsilon) < args.releases:
                kept.add(table.name, epsilon, cover.release())


class _Cover:
    """One set at one epsilon."""

    def __init__(self, table: CodedTable, columns: tuple[DomainColumn, ...], epsilon: str, questions: int) -> None:
        z = noise_multiplier(Budget(float(epsilon), DELTA), Relation.ADD_REMOVE, "rounded")
        self._columns = columns
        self._asked = [(each, parse_question(each.text)) for each in _questions(table, columns, z, questions)]
        sets = [tuple(sorted(table.columns.index(name) for name in question.names)) for _, question in self._asked]
        needed = {subset for clique in sets for subset in subsets(clique)}
        self._draw = residual_draws(table, table.codes, float(epsilon), needed)
        self._counted = residual_draws(table, table.codes, float(epsilon), {()})

    def release(self) -> Found:
        found = defaultdict(list)
        for place in range(COUNTS):
            told = Told(self._counted() if place else self._draw(), self._columns)
            for each, question in self._asked:
                if place and each.kind != "count":
                    continue
                for answer in estimate(question, told):
                    group = tuple(answer.group[name] for name in each.by)
                    if group in each.truth and answer.interval is not None:
                        low, high = answer.interval.low, answer.interval.high
                        kind = f"{SMALL_GROUPS}{each.kind}" if group in each.small else each.kind
                        width = (1, high - low, each.alone[group]) if math.isfinite(high - low) else (0, 0.0, 0.0)
                        found[kind].append((1, int(low <= each.truth[group] <= high), *width))
        return {kind: tuple(np.sum(lines, axis=0).tolist()) for kind, lines in found.items()}


def _show_covered(names: Sequence[str], kept: Kept, figures: Figures) -> None:
    for name in names:
        for epsilon in EPSILONS:
            for kind, pooled in kept.pooled((name,), (epsilon,)).items():
                figures.show(f"coverage.{name}.{epsilon}.{kind}.held", pooled.held, "error", pooled.error)
                figures.show(f"coverage.{name}.{epsilon}.{kind}.width", pooled.width, "alone", pooled.alone)
        for kind, pooled in kept.pooled((name,), EPSILONS).items():
            figures.show(f"coverage.{name}.all.{kind}.held", pooled.held, "error", pooled.error)


def domain_of(table: CodedTable) -> tuple[DomainColumn, ...]:
    """Ordered columns and those of two values as whole numbers, the others as categories."""
    return tuple(
        DomainColumn(name, "integer", (), tuple(range(size + 1)), False, False, True)
        if ordered or size == 2
        else DomainColumn(name, "category", tuple(f"v{code}" for code in range(size)), (), False, False, False)
        for name, size, ordered in zip(table.columns, table.sizes, table.ordered, strict=True)
    )


def _questions(table: CodedTable, columns: tuple[DomainColumn, ...], z: float, many: int) -> Iterator[Asked]:
    """The same for every epsilon. Columns and values are those of rows drawn at random: not the easiest ones."""
    rng = np.random.default_rng(7)
    numbers = [place for place, column in enumerate(columns) if column.kind == "integer"]
    groups = [place for place, column in enumerate(columns) if column.size <= MOST_GROUPS]
    yield Asked("count", "count", (), {(): float(len(table.codes))}, {(): 2 * Z95 * z})
    for _ in range(many):
        x = int(rng.choice(numbers))
        g, h = (int(place) for place in rng.permutation([place for place in groups if place != x])[:2])
        row = table.codes[rng.integers(len(table.codes))]
        yield from _about(table.codes, columns, x, g, h, row, z)


def _about(
    codes: np.ndarray, columns: tuple[DomainColumn, ...], x: int, g: int, h: int, row: np.ndarray, z: float
) -> Iterator[Asked]:
    size, top = columns[g].size, columns[x].size - 1
    names = [f'"{column.name}"' for column in columns]
    by, t = names[g], max(1, int(row[x]))
    values = [group_value(columns[g], code) for code in range(size)]
    of = codes[:, g]
    counts = np.bincount(of, minlength=size).astype(float)
    above = np.bincount(of, codes[:, x] >= t, size)
    same = np.bincount(of, codes[:, h] == row[h], size)
    totals = np.bincount(of, codes[:, x], size)
    with np.errstate(divide="ignore", invalid="ignore"):
        means, shares, parts = totals / counts, same / counts, above / counts
    once = 2 * Z95 * z
    named = _quoted(group_value(columns[h], int(row[h])))
    here = _quoted(group_value(columns[g], int(row[g])))

    def asked(kind: str, text: str, truth: np.ndarray, alone: np.ndarray | float, keep: np.ndarray) -> Asked:
        widths = np.broadcast_to(alone, truth.shape)
        kept = [code for code in range(size) if keep[code] and np.isfinite(truth[code])]
        return Asked(
            kind,
            text,
            (columns[g].name,),
            {(values[code],): float(truth[code]) for code in kept},
            {(values[code],): float(widths[code]) for code in kept},
            frozenset((values[code],) for code in kept if counts[code] < SMALL * len(codes)),
        )

    def alone_ratio(ratio: np.ndarray, half: float, middle: float) -> np.ndarray:
        """Of numerator (centred, at most `half`) and denominator, noised together."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(once * math.sqrt(2) * np.sqrt(half**2 + (ratio - middle) ** 2) / counts)

    some = counts > 0
    mean_alone, share_alone = alone_ratio(means, top / 2, top / 2), alone_ratio(shares, 0.5, 0.5)
    yield asked("groups", f"count by {by}", counts, once, some)
    yield asked("empty", f"count by {by} where {names[h]} = {named}", same, once, same == 0)
    yield asked("cells", f"count by {by} where {names[h]} = {named}", same, once, same > 0)
    yield asked("range", f"count by {by} where {names[x]} >= {t}", above, once, above > 0)
    either = float(((codes[:, x] >= t) | (of == row[g])).sum())
    yield Asked("either", f"count where {names[x]} >= {t} or {by} = {here}", (), {(): either}, {(): once})
    yield asked("sum", f"sum({names[x]}) by {by}", totals, once * top, some)
    yield asked("mean", f"mean({names[x]}) by {by}", means, mean_alone, some)
    yield asked("share", f"share({names[h]} = {named}) by {by}", shares, share_alone, some)
    yield asked("range-share", f"share({names[x]} >= {t}) by {by}", parts, alone_ratio(parts, 0.5, 0.5), some)
    yield asked("parts", f"share by {by}", counts / len(codes), once / len(codes), some)
    for level in (0.5, 0.9):
        places, density = _quantiles(codes[:, x], of, size, top + 1, level)
        with np.errstate(divide="ignore"):
            alone = once * max(level, 1 - level) / density
        yield asked(
            "median" if level == 0.5 else "quantile", f"quantile({names[x]}, {level}) by {by}", places, alone, some
        )
    base = int(counts.argmax())
    others = some & (np.arange(size) != base)
    against = _quoted(values[base])
    for kind, text, truth, alone in (
        ("mean-difference", f"mean({names[x]})", means, mean_alone),
        ("share-difference", f"share({names[h]} = {named})", shares, share_alone),
    ):
        both = np.sqrt(alone**2 + alone[base] ** 2)
        yield asked(kind, f"{text} by {by} difference from {against}", truth - truth[base], both, others)
    gap = counts - counts[base]
    yield asked("count-difference", f"count by {by} difference from {against}", gap, once * math.sqrt(2), others)
    ratio = counts / counts[base]
    alone = once * np.sqrt(1 + ratio**2) / counts[base]
    yield asked("count-ratio", f"count by {by} ratio to {against}", ratio, alone, others)
    if means[base] > 0:
        ratio = means / means[base]
        alone = np.sqrt(mean_alone**2 + (ratio * mean_alone[base]) ** 2) / means[base]
        yield asked("mean-ratio", f"mean({names[x]}) by {by} ratio to {against}", ratio, alone, others & (means > 0))


def _quantiles(x: np.ndarray, of: np.ndarray, size: int, bins: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each group, with rows spread over a bin; and how many rows a bin holds there."""
    table = np.zeros((size, bins))
    np.add.at(table, (of, x), 1)
    places, density = np.full(size, np.nan), np.full(size, np.nan)
    for group in range(size):
        below = np.r_[0, np.cumsum(table[group])]
        wanted = level * below[-1]
        if below[-1] == 0:
            continue
        place = int(np.flatnonzero((below[1:] >= wanted) & (table[group] > 0))[0])
        places[group] = place + (wanted - below[place]) / table[group, place]
        density[group] = table[group, place]
    return places, density


REGRESSIONS = {
    "adult": "hours-per-week ~ age + education-num + sex + relationship",
    "income_ny": "WKHP ~ AGEP + SCHL + SEX + MAR",
}


def _regress(table: CodedTable, figures: Figures, args: argparse.Namespace) -> None:
    """Intervals at epsilon 1 for the coefficients of the real rows; beside them those that synthetic rows give."""
    formula, columns = REGRESSIONS[table.name], domain_of(table)
    wanted, given = parse_formula(formula)
    truth, _ = _least_squares(table, columns, table.codes, wanted, given)
    draw, held, widths, names = residual_draws(table, table.codes, 1.0), [], [], []
    for _ in range(REGRESSED * args.releases):
        found = ols(Told(draw(), columns), formula)
        names = [each.name for each in found]
        spans = [each.interval for each in found]
        held.append([span.low <= value <= span.high for span, value in zip(spans, truth, strict=True)])
        widths.append([each.interval.high - each.interval.low for each in found])
    naive = []
    for _ in range(args.copies):
        rows = synthesize(draw(), grid(table), len(table.codes), PrivPGDConfig())
        values, errors = _least_squares(table, columns, rows, wanted, given)
        naive.append(np.abs(values - truth) <= Z95 * errors)
    for place, name in enumerate(names):
        beside = float(np.mean([each[place] for each in naive])) if naive else None
        figures.show(f"coverage.ols.{table.name}.{name}.held", float(np.mean(held, axis=0)[place]), "rows", beside)
        figures.show(f"coverage.ols.{table.name}.{name}.width", float(np.mean(widths, axis=0)[place]))
    beside = float(np.mean(naive)) if naive else None
    figures.show(f"coverage.ols.{table.name}.all.held", float(np.mean(held)), "rows", beside)


LOGISTIC = {
    "adult": '"income>50K" ~ age + education-num + sex + relationship + hours-per-week',
    "income_ny": "income ~ AGEP + SCHL + SEX + MAR",
}


def _regress_logistic(table: CodedTable, figures: Figures, releases: int) -> None:
    formula, columns = LOGISTIC[table.name], domain_of(table)
    wanted, given = parse_formula(formula)
    truth, _ = _likeliest(table, columns, table.codes, wanted, given)
    draw, held, widths, naive, names, refused = residual_draws(table, table.codes, 1.0), [], [], [], [], 0
    for _ in range(releases):
        residuals = draw()
        rows = synthesize(residuals, grid(table), len(table.codes), PrivPGDConfig())
        values, errors = _likeliest(table, columns, rows, wanted, given)
        naive.append(np.abs(values - truth) <= Z95 * errors)
        try:
            found = logit(Told(residuals, columns), formula, {place: rows[:, place] for place in range(rows.shape[1])})
        except SpecError:
            refused += 1
            continue
        names = [each.name for each in found]
        spans = [each.interval for each in found]
        held.append([span.low <= value <= span.high for span, value in zip(spans, truth, strict=True)])
        widths.append([each.interval.high - each.interval.low for each in found])
    for place, name in enumerate(names):
        beside = float(np.mean([each[place] for each in naive]))
        figures.show(f"coverage.logit.{table.name}.{name}.held", float(np.mean(held, axis=0)[place]), "rows", beside)
        figures.show(f"coverage.logit.{table.name}.{name}.width", float(np.mean(widths, axis=0)[place]))
    figures.show(f"coverage.logit.{table.name}.all.held", float(np.mean(held)), "rows", float(np.mean(naive)))
    figures.show(f"coverage.logit.{table.name}.refused", refused / releases)


def _likeliest(
    table: CodedTable, columns: tuple[DomainColumn, ...], codes: np.ndarray, wanted: str, given: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Logistic coefficients and the standard errors that statistics packages give, from rows."""
    x, y = _by_row(table, columns, codes, wanted, given)
    beta = np.zeros(x.shape[1])
    for _ in range(40):
        likely = 1 / (1 + np.exp(-np.clip(x @ beta, -30, 30)))
        inner = (x * (likely * (1 - likely))[:, None]).T @ x
        beta = beta + np.linalg.lstsq(inner, x.T @ (y - likely), rcond=1e-12)[0]
    return beta, np.sqrt(np.maximum(np.diag(np.linalg.pinv(inner)), 0.0))


def _least_squares(
    table: CodedTable, columns: tuple[DomainColumn, ...], codes: np.ndarray, wanted: str, given: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and the standard errors that statistics packages give, from rows."""
    x, y = _by_row(table, columns, codes, wanted, given)
    inverse = np.linalg.pinv(x.T @ x)
    beta = inverse @ (x.T @ y)
    squares = float(((y - x @ beta) ** 2).sum()) / max(1, len(y) - len(beta))
    return beta, np.sqrt(np.maximum(squares * np.diag(inverse), 0.0))


def _by_row(
    table: CodedTable, columns: tuple[DomainColumn, ...], codes: np.ndarray, wanted: str, given: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Features and outcome."""
    parts = [np.ones(len(codes))]
    for name in given:
        place = table.columns.index(name)
        if columns[place].kind == "integer":
            parts.append(codes[:, place].astype(float))
        else:
            parts += [(codes[:, place] == code).astype(float) for code in range(1, columns[place].size)]
    return np.stack(parts, axis=1), codes[:, table.columns.index(wanted)].astype(float)


CONSTANT = {
    "count": "count by MAR",
    "share": "share(HICOV = 1) by RAC1P",
    "mean": "mean(AGEP) by SEX",
    "quantile": "median(AGEP) by SEX",
    "cells": "count by ESR where DIS = 1",
}


def _constant(table: CodedTable, figures: Figures, looks: int) -> None:
    columns, rng = domain_of(table), np.random.default_rng(3)
    asked = {kind: parse_question(text) for kind, text in CONSTANT.items()}
    sets = [tuple(sorted(table.columns.index(name) for name in question.names)) for question in asked.values()]
    needed = {subset for clique in sets for subset in subsets(clique)}
    quiet = defaultdict(list)
    for _ in range(looks):
        told = []
        for _period in range(2):
            rows = table.codes[rng.integers(0, len(table.codes), rng.poisson(PERIOD_ROWS))]
            told.append(Told(residual_draws(table, rows, 1.0, needed)(), columns))
        for kind, question in asked.items():
            periods = [(str(place), Answers(question, estimate(question, each))) for place, each in enumerate(told)]
            quiet[kind] += [not change.shows for change in Trend(question, tuple(periods)).changes]
    for kind, found in quiet.items():
        figures.show(f"coverage.trend.{kind}.quiet", float(np.mean(found)))


def national_income(data: Path) -> tuple[ReleaseSpec, pa.Table] | None:
    """7,400 rows and all 24 columns of NIST's national set of 2019, by its own schema."""
    folder = data / "nist2019"
    if not (folder / "national2019.csv").exists():
        return None
    frame = pd.read_csv(folder / "national2019.csv", dtype=str, keep_default_na=False)
    frame = frame.iloc[np.random.default_rng(5).permutation(len(frame))[:GAP_ROWS]]
    columns: dict[str, Any] = {}
    for name, facts in json.loads((folder / "national2019.json").read_text())["schema"].items():
        nullable = bool(facts.get("has_null"))
        if "values" in facts:
            values = [str(value) for value in facts["values"] if not (nullable and str(value) == "N")]
            columns[name] = {"type": "category", "values": values, "nullable": nullable}
        else:
            ends = {"min": float(facts["min"]), "max": float(facts["max"])}
            columns[name] = {"type": "number", **ends, "bins": 32, "scale": "signed", "nullable": nullable}
    spec = spec_of(
        {
            "name": "income-gap",
            "source": {"uri": "memory", "snapshot": "2019"},
            "privacy": {"account": "a", "epsilon": 1, "delta": DELTA},
            "columns": columns,
            "publish": {"to": "out"},
        }
    )
    rows = {name: [None if value == "N" else value for value in frame[name]] for name in columns}
    return spec, pa.table(rows)


def _income_gap(spec: ReleaseSpec, rows: pa.Table, figures: Figures, releases: int) -> None:
    planned = plan_release(spec)
    domain, design = planned.domain, planned.plan.design
    exact = count_marginals([encode(rows, domain)], domain.sizes, design.workload.measured[1:])
    counts = residuals_by_name([np.array(rows.num_rows), *exact])
    facts = residual_facts(design.workload, design.noise, domain, None)
    asked = parse_question("mean(PINCP) by SEX difference from 2")

    def answer(arrays: dict[str, np.ndarray]) -> tuple[Told, Answer]:
        told = Told(with_groups(residuals_of(Measurement(RESIDUALS, facts, arrays))), domain.columns)
        [found] = estimate(asked, told)
        return told, found

    scaled = {
        name: differences(math.prod(shape) * table.astype(np.int64).reshape(shape)).reshape(-1)
        for (name, table), shape in zip(counts.items(), design.noise.shapes, strict=True)
    }
    truth = answer(scaled)[1].estimate
    income = pd.to_numeric(pd.Series(rows["PINCP"].to_pylist()), errors="coerce")
    real = income.groupby(pd.Series(rows["SEX"].to_pylist())).mean()
    gap = float(real["1"] - real["2"])
    held, held_real, widths, good = [], [], [], []
    for _ in range(releases):
        told, found = answer(design.noise.draw(counts, operating_system_randomness()))
        assert found.interval is not None
        assert truth is not None
        held.append(found.interval.low <= truth <= found.interval.high)
        held_real.append(found.interval.low <= gap <= found.interval.high)
        widths.append(found.interval.high - found.interval.low)
        good.append(verdict_of(told.residuals, domain.names).pair("SEX", "PINCP").grade == "good")
    figures.show("coverage.income-gap.truth", gap)
    figures.show("coverage.income-gap.truth_of_bins", truth)
    figures.show("coverage.income-gap.held", float(np.mean(held)))
    figures.show("coverage.income-gap.held_real", float(np.mean(held_real)))
    figures.show("coverage.income-gap.width", float(np.mean(widths)))
    figures.show("coverage.income-gap.called_good", float(np.mean(good)))


def _quoted(value: Any) -> str:
    return f"'{value}'"

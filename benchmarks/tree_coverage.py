"""How often intervals of answers over several tables hold the truth (delta 1e-6, ADD_REMOVE).

Figures `tree_coverage.<set>.<epsilon>.<kind>.held`, the share of 95% intervals for the tables that hold what the
tables answer, beside its standard `error` over releases; `.width`, their mean width; `tree_coverage.<set>.all.<kind>`
over all epsilons. The unit is a root with everything below it. What the tables answer weighs the m rows of a root by
1 / m. Groups with less than 1% of the roots are apart: their kind begins with `small.`. Noise is drawn as the flow
draws it, of the tables that questions need.
Kinds: `root`, columns of the root; `number`, how many rows lie below; `own`, two columns of a child table; `across`,
its columns by those above and the reverse; `siblings`, by how many there are; `place`, first or later; `lag`, by the
row before; `gap`, the step from it.
Sets: those of `trees`, the clinic made with 5,000 patients. With `--keep FILE` a run goes on where one stopped.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.support.families import FamilySet, load_families, made_clinic
from benchmarks.support.figures import Figures
from benchmarks.support.kept import Found, Kept
from benchmarks.trees import private_tree, spec_of
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.counting.shares import subsets, summed_out, widest_of
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.counting.tree.views import View
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.asking_trees import AskedTree
from understudy.pipelines.inference.axes import group_value
from understudy.pipelines.inference.question import Question, parse_question
from understudy.pipelines.inference.tree_views import described, told_tree
from understudy.pipelines.methods.tree.plan import TreeDesign, design_tree, tree_domains
from understudy.pipelines.methods.tree.released import TREE, released_tree, residual_name, tree_facts
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

KINDS = ("root", "own", "across", "number", "siblings", "place", "lag", "gap")
EPSILONS = ("2.5", "1", "0.2")
PATIENTS = 5_000
MOST_GROUPS = 40
SMALL = 0.01
FINE = 360_360
"""Ticks that every number of rows up to 15 divides, and others nearly: what the tables answer by weights 1 / m."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--questions", type=int, default=2, help="draws of columns for every kind")
    parser.add_argument("--keep", type=Path, help="a file that keeps what each release found, and goes on from there")


def run(args: argparse.Namespace) -> None:
    figures, kept = Figures(args.only), Kept(f"trees, {args.questions} draws", args.keep)
    loaders = {**load_families(args.data), "clinic": lambda: made_clinic(PATIENTS)}
    for name, load in loaders.items():
        if not figures.wants(f"tree_coverage.{name}.") or (data := load()) is None:
            continue
        _cover(name, data, kept, args)
        for epsilon in EPSILONS:
            for kind, pooled in kept.pooled((name,), (epsilon,)).items():
                figures.show(f"tree_coverage.{name}.{epsilon}.{kind}.held", pooled.held, "error", pooled.error)
                figures.show(f"tree_coverage.{name}.{epsilon}.{kind}.width", pooled.width)
        for kind, pooled in kept.pooled((name,), EPSILONS).items():
            figures.show(f"tree_coverage.{name}.all.{kind}.held", pooled.held, "error", pooled.error)


def _cover(name: str, data: FamilySet, kept: Kept, args: argparse.Namespace) -> None:
    """As many releases as are not kept yet; the epsilons in turn, so that what is cut short is of all of them."""
    missing = {epsilon: args.releases - kept.releases(name, epsilon) for epsilon in EPSILONS}
    releases = {epsilon: _Releases(data, epsilon, args.questions) for epsilon in EPSILONS if missing[epsilon] > 0}
    for number in range(max(missing.values())):
        for epsilon, each in releases.items():
            if number < missing[epsilon]:
                kept.add(name, epsilon, each.one())


@dataclass(frozen=True)
class Asked:
    kind: str
    question: Question
    truth: dict[tuple[object, ...], float]
    small: frozenset[tuple[object, ...]]


class _Releases:
    """One set at one epsilon: counted once, noised anew for every release."""

    def __init__(self, data: FamilySet, epsilon: str, draws: int) -> None:
        spec = spec_of(data, epsilon)
        self._tree, self._domains = spec.tree, tree_domains(spec)
        self._private, self._design = private_tree(data, spec), design_tree(spec, self._domains)
        texts = list(_questions(self._design, self._private, draws))
        self._needed = [
            sorted({subset for _, _, view, pair in texts if view == i for subset in subsets(pair)}, key=len)
            for i in range(len(self._design.views))
        ]
        measured = [workload.measured for workload in self._design.workloads]
        places = [[measured[i].index(clique) for clique in needed] for i, needed in enumerate(self._needed)]
        self._stds = [[self._design.stds(i)[place] for place in kept] for i, kept in enumerate(places)]
        shapes = [
            tuple(view.sizes[column] for column in clique)
            for view, needed in zip(self._design.views, self._needed, strict=True)
            for clique in needed
        ]
        stds = tuple(std for each in self._stds for std in each)
        self._noise = replace(self._design.noise, shapes=tuple(shapes), stds=stds, beside=None)
        self._exact = self._counts(self._design.ticks)
        fine = {
            name: differences(table.size * table.astype(np.int64)).reshape(-1)
            for name, table in self._counts(FINE).items()
        }
        truth = self._released(fine, FINE, quiet=True)
        self._asked = [_with_truth(kind, text, truth) for kind, text, _, _ in texts]

    def one(self) -> Found:
        released = self._released(self._noise.draw(self._exact, operating_system_randomness()), self._design.ticks)
        found = defaultdict(list)
        for each in self._asked:
            for answer in released.answer(each.question):
                group = tuple(answer.group.values())
                if group not in each.truth or answer.interval is None:
                    continue
                low, high = answer.interval.low, answer.interval.high
                kind = f"small.{each.kind}" if group in each.small else each.kind
                width = (1, high - low, 0.0) if math.isfinite(high - low) else (0, 0.0, 0.0)
                found[kind].append((1, int(low <= each.truth[group] <= high), *width))
        return {kind: tuple(np.sum(lines, axis=0).tolist()) for kind, lines in found.items()}

    def _counts(self, ticks: int) -> dict[str, np.ndarray]:
        found = {}
        for i, (view, needed) in enumerate(zip(self._design.views, self._needed, strict=True)):
            wide = widest_of(needed)
            counts = self._private.counts(view, wide, ticks) if wide else []
            for place, table in enumerate(summed_out(needed, wide, counts)):
                found[residual_name(i, place)] = table
        return found

    def _released(self, arrays: dict[str, np.ndarray], ticks: int, *, quiet: bool = False) -> AskedTree:
        stds = [[1e-9 if quiet else std for std in each] for each in self._stds]
        facts = tree_facts(ticks, self._design.views, self._needed, stds, {}, "rounded")
        released = released_tree(Measurement(TREE, facts, arrays))
        assert self._tree is not None
        return AskedTree(told_tree(released, self._tree, self._domains, ticks), dict)


def _with_truth(kind: str, text: str, told: AskedTree) -> Asked:
    """What the tables answer; groups that they have no row of are left out."""
    answers = {tuple(answer.group.values()): answer.estimate for answer in told.answer(text)}
    by = re.search(r" by (\S+)", text)
    counted = told.answer(f"share by {by.group(1)}") if by else ()
    shares = {tuple(answer.group.values()): answer.estimate or 0.0 for answer in counted}
    truth = {
        group: value for group, value in answers.items() if value is not None and shares.get(group[:1], 1.0) > 1e-6
    }
    small = frozenset(group for group in truth if shares.get(group[:1], 1.0) < SMALL)
    return Asked(kind, parse_question(text), truth, small)


def _questions(design: TreeDesign, private: LocalTree, draws: int) -> Iterator[tuple[str, str, int, Clique]]:
    """Kind, text, view and columns, drawn at random; the same for every epsilon."""
    rng, domains = np.random.default_rng(7), private.domains
    columns = [_columns(view, domains) for view in design.views]
    yield "root", "count", 0, ()
    for i, view in enumerate(design.views):
        every = columns[i]
        for _ in range(draws):
            for pair in _drawn(view, every, rng):
                one, other = (every[place] for place in pair)
                kind = _kind(view, pair)
                yield from ((kind, text, i, pair) for text in _texts(one, other, rng))


def _drawn(view: View, columns: Sequence[DomainColumn], rng: np.random.Generator) -> Iterator[Clique]:
    """A pair of each kind that was asked for, where there is one: columns of at most so many values."""
    fit = [pair for pair in view.asked if all(1 < columns[c].size <= MOST_GROUPS for c in pair)]
    for kind in KINDS:
        found = [pair for pair in fit if _kind(view, pair) == kind]
        if found:
            yield found[int(rng.integers(len(found)))]


def _kind(view: View, pair: Clique) -> str:
    roles = {view.columns[column].role for column in pair}
    if view.kind == "order":
        return "gap" if "gap" in roles else "lag"
    for role in ("number", "siblings", "place"):
        if role in roles:
            return role
    is_child = any(column.role == "siblings" for column in view.columns)
    return "across" if "above" in roles else "own" if is_child else "root"


def _texts(one: DomainColumn, other: DomainColumn, rng: np.random.Generator) -> Iterator[str]:
    """Both ways round: counts, shares, means and quantiles of one by the other, and a difference."""
    for of, by in ((one, other), (other, one)):
        condition, name = _condition(of, int(rng.integers(of.value_codes))), f'"{by.name}"'
        if condition is not None:
            yield f"count by {name} where {condition}"
            yield f"share({condition}) by {name}"
            yield f"share({condition}) by {name} difference"
        if of.kind in ("integer", "number"):
            yield f'mean("{of.name}") by {name}'
            yield f'sum("{of.name}") by {name}'
            yield f'quantile("{of.name}", 0.5) by {name}'


def _condition(column: DomainColumn, code: int) -> str | None:
    if column.kind in ("date", "datetime"):
        return None
    if column.kind in ("integer", "number"):
        return f'"{column.name}" >= {column.intervals()[0][code].item()}'
    value = group_value(column, code)
    return f"\"{column.name}\" = '{str(value).lower() if isinstance(value, bool) else value}'"


def _columns(view: View, domains: Mapping[str, TableDomain]) -> tuple[DomainColumn, ...]:
    return tuple(described(column, domains) for column in view.columns)

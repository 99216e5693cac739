"""What is asked about the columns that a spec leaves open, what it costs, and which noise that means: a plan, made of
public numbers before a row is read.

Theorem, relation, sensitivity, noise unit, reference. Those of `mechanism`; here a budget is split. Each question gets
a share of its round's part of the budget by what it is for. The second round is chosen by what the first one released,
its noise and delta are not: adaptive composition of two events that were fixed before. Proof: docs/proofs/discovery.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.discovery.closing import kind_of
from understudy.pipelines.discovery.found import SURE, Found
from understudy.pipelines.discovery.grid import COARSE_CELLS, FINE_CELLS
from understudy.pipelines.discovery.mechanism import DiscoveryNoise, Question, discovery_noise
from understudy.pipelines.discovery.observing import Looking
from understudy.pipelines.discovery.tally import COARSE, FINE, UNITS, VALUES, Asked, question_name
from understudy.pipelines.privacy.events import Approximate, Event, Gaussian
from understudy.pipelines.privacy.mechanism import PlannedCharge
from understudy.pipelines.privacy.relation import Budget, Unit
from understudy.pipelines.privacy.rounding import planned
from understudy.pipelines.spec.formats import Form
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.spec.protection import DiscoverySpec, SplitBudget, split_budget
from understudy.pipelines.spec.tree import tree_of

STAGES = ("discover", "discover further")
KIND = "domain"
ROUNDS = (0.5, 0.5)
"""Parts of discovery's budget, and of its delta: what kind columns are and what most rows hold; then, of columns of
which that leaves much open, their rarer values, and where numbers lie more exactly."""

LEFT_OPEN = 0.01
"""Of a column's rows that no value was found for, above which it is asked about again."""

_WEIGHTS = ({VALUES: 1.0, COARSE: 0.12, UNITS: 0.3}, {VALUES: 3.0, COARSE: 0.2, FINE: 0.2, UNITS: 0.05})
_CELLS = {VALUES: None, COARSE: COARSE_CELLS, FINE: FINE_CELLS}


@dataclass(frozen=True)
class OpenQuestion:
    """One open column, and what is asked about it."""

    name: str
    column: OpenColumn
    asked: Asked


@dataclass(frozen=True)
class DiscoveryPlan:
    """One round of questions. `place` 0 or 1."""

    place: int
    columns: tuple[OpenQuestion, ...]
    noise: DiscoveryNoise

    @property
    def charge(self) -> PlannedCharge:
        return PlannedCharge(STAGES[self.place], self.noise.event)


def purchase_key(subject: str, columns: Mapping[str, OpenColumn]) -> str:
    """What the ledger knows a purchase by: the table and the columns, not the rest of the spec."""
    asked = [[name, declaration_of(column)] for name, column in columns.items()]
    return hash_of({"discover": subject, "columns": asked})


def declaration_of(column: OpenColumn) -> dict[str, Any]:
    """What an answer is an answer to: found again for the same column, declared the same."""
    declared: dict[str, Any] = column.model_dump(mode="json")
    return declared


def open_columns(spec: ReleaseSpec) -> dict[str, OpenColumn]:
    """By name; those of several tables are called by their table too."""
    if spec.tables is None:
        return {name: column for name, column in spec.columns.items() if isinstance(column, OpenColumn)}
    return {
        f"{table}.{name}": column
        for table, declared in spec.tables.items()
        for name, column in declared.columns.items()
        if isinstance(column, OpenColumn)
    }


def discovery_unit(spec: ReleaseSpec) -> Unit:
    """Whose presence is hidden: of several tables a root with everything below it, which may have as many rows of a
    table as the bounds allow (docs/proofs/discovery.md, step 10)."""
    if spec.tables is None:
        return spec.privacy.protected_unit
    tree = tree_of(spec.tables)
    return Unit(tree.root.name, max(tree.most_rows(name) for name in tree.names))


def subject_of(spec: ReleaseSpec) -> str:
    """The table whose domain it is, which later snapshots share: by its id, else its name in a database, else the
    release's."""
    return spec.source.id or spec.source.table or spec.name


def first_round(spec: ReleaseSpec, columns: Mapping[str, OpenColumn]) -> DiscoveryPlan:
    """What kind columns are, roughly where their numbers lie, and the values that most rows hold."""
    asked = []
    for name, column in columns.items():
        about = [VALUES] if column.asks & {"kind", "values", "spikes"} else []
        about += [COARSE] if column.asks & {"kind", "bounds", "quantiles"} else []
        asked.append(OpenQuestion(name, column, _asked(spec, name, column, about)))
    return _planned(spec, 0, asked)


def second_round(
    spec: ReleaseSpec, columns: Mapping[str, OpenColumn], found: Mapping[str, Found]
) -> DiscoveryPlan | None:
    """What the first round leaves open; chosen by what was released there, with noise that was fixed before."""
    asked = [
        OpenQuestion(name, columns[name], _asked(spec, name, columns[name], about))
        for name, about in further_questions(columns, found).items()
    ]
    return _planned(spec, 1, asked) if asked else None


def further_questions(columns: Mapping[str, OpenColumn], found: Mapping[str, Found]) -> dict[str, list[str]]:
    """Of each column that the first round leaves open, what is asked in the second."""
    asked = {}
    for name, column in columns.items():
        kind = kind_of(column, found[name])
        about = [VALUES] if kind == "category" and _leaves_much(column, found[name]) else []
        if kind not in (None, "category") and column.asks & {"kind", "bounds", "quantiles"}:
            about += [COARSE, FINE]
        if about:
            asked[name] = about
    return asked


def nominal_events(spec: ReleaseSpec) -> tuple[Event, Event]:
    """What both rounds cost at most, whatever will be asked."""
    split = split_budget(whole_budget(spec), terms_of(spec))
    first, second = (Approximate(Gaussian(_multiplier(split, i)), split.own_delta * ROUNDS[i]) for i in (0, 1))
    return first, second


def _leaves_much(column: OpenColumn, found: Found) -> bool:
    listed = math.fsum(found.values.values())
    left = found.present - listed
    return left > max(LEFT_OPEN * found.units, SURE * found.present_std) and len(found.values) < column.most


def _planned(spec: ReleaseSpec, place: int, asked: Sequence[OpenQuestion]) -> DiscoveryPlan:
    privacy = spec.privacy
    weights = _WEIGHTS[place]
    questions = [Question(UNITS, 1, weights[UNITS])]
    for number, one in enumerate(asked):
        questions += [
            Question(question_name(number, about), _CELLS[about], weights[about], one.column.most)
            for about in one.asked.about
        ]
    split = split_budget(whole_budget(spec), terms_of(spec))
    noise = discovery_noise(
        tuple(questions),
        _multiplier(split, place),
        split.own_delta * ROUNDS[place],
        privacy.relation,
        discovery_unit(spec),
    )
    return DiscoveryPlan(place, tuple(asked), noise)


def _multiplier(split: SplitBudget, place: int) -> float:
    return planned(split.noise_multiplier / math.sqrt(ROUNDS[place]))


def terms_of(spec: ReleaseSpec) -> DiscoverySpec:
    return spec.privacy.discovery or DiscoverySpec()


def whole_budget(spec: ReleaseSpec) -> Budget:
    return Budget(spec.privacy.epsilon, spec.privacy.delta)


def _asked(spec: ReleaseSpec, name: str, column: OpenColumn, about: Sequence[str]) -> Asked:
    table, own = ("", name) if spec.tables is None else tuple(name.split(".", 1))
    return Asked(Looking(own, column.kind, _form(column), column.longest), tuple(about), table)


def _form(column: OpenColumn) -> Form | None:
    """How its values are written, where that is declared."""
    if column.kind is None or column.kind == "category":
        return None
    form: Form | None = column.plain().form
    return form

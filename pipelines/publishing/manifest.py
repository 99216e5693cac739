"""The manifest: the guarantee in words and numbers, and a hash of every file. It holds public values only."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import distributions, version
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import describe, to_json
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.public import Public

if TYPE_CHECKING:  # whoever reads a manifest needs no method
    from understudy.pipelines.counting.quality import ColumnQuality
    from understudy.pipelines.inference.verdict import Verdict
    from understudy.pipelines.methods.base import MethodPlan

FORMAT = 1
MOST_PAIRS = 20
_VERSIONED = ("understudy", "numpy", "pyarrow", "torch", "dp-accounting", "opendp", "prefect")


class ChargedEvent(Public):
    stage: str
    mid: str = Field(description="the ledger's id of the charge that paid for it")
    description: str
    event: dict[str, Any]
    measurement_sha256: str


class Guarantee(Public):
    """The loss of this release alone: its events were fixed by its plan, so any accountant of fixed events may say."""

    sentence: str
    relation: Relation
    unit: str
    epsilon: float
    delta: float
    accountant: str
    events: tuple[ChargedEvent, ...]


class AccountState(Public):
    """The account when this release was published: what its filter counts of all its releases, not a sum of losses.

    `filter` and `theorem` say which rule holds the cap however later releases are chosen; manifests from before filters
    have neither.
    """

    name: str
    cap_epsilon: str
    cap_delta: str
    spent_epsilon: float
    filter: str = ""
    theorem: str = ""
    releases_charged: int
    history_head: str = Field("", description="hash of the account's newest entry: a rewritten ledger lacks it")


class NoiseFact(Public):
    query: str
    numbers: int
    std: float


class QualityFact(Public):
    """Noisy shares of a column's rows: understood, null, unreadable, below and above the range, not listed."""

    column: str
    shares: dict[str, float]
    std: float
    alarming: bool


class UnlistedFact(Public):
    """The noisy share of a discovered column's rows whose value was not found: they are `other`."""

    column: str
    share: float
    std: float


class ColumnFitness(Public):
    """What a published column is good for: how fine it is, which values are exact, and what to be careful about."""

    column: str
    resolution: str
    exact: tuple[str, ...] = ()
    caution: str = ""


class MeasuredFact(Public):
    """What lies in `measured/`: noisy numbers of column sets, as they were bought. How to combine them stands there."""

    kind: str
    sets: int
    numbers: int


class TableFact(Public):
    """One of several tables: its rows and columns, and whose rows its rows are."""

    name: str
    rows: int
    columns: tuple[str, ...]
    key: str | None = None
    parent: str | None = None
    by: str | None = None
    max_rows: int | None = Field(None, description="rows of one row of the parent, at most")


class TableGrade(Public):
    """How far noise puts a typical cell of a column or pair off; of a pair, whether its columns' dependence shows."""

    table: str
    grade: str
    off: float
    std: float
    stands_out: bool | None = Field(None, exclude_if=lambda out: out is None)


class VerdictFact(Public):
    """What the copy is good for, from signal and noise alone. Columns and the pairs that are named: the worst first."""

    grade: str
    sentence: str
    smallest_group: int = Field(description="rows of the smallest group to quote at 10% error")
    columns: tuple[TableGrade, ...]
    worst_pairs: tuple[TableGrade, ...] = ()


@dataclass(frozen=True)
class ReleaseFile:
    """A file that travels with a release, beside its rows and papers, before it is published."""

    path: str
    content: bytes = field(repr=False)


class PublishedFile(Public):
    path: str
    sha256: str
    bytes: int


class Manifest(Public):
    format: int = FORMAT
    name: str
    release_id: str
    snapshot: str
    created_at: str
    guarantee: Guarantee
    account: AccountState
    method: str
    steps: tuple[str, ...]
    noise: tuple[NoiseFact, ...]
    counted: Literal["rows", "entities"] = Field(
        "rows",
        exclude_if=lambda what: what == "rows",
        description="what noise and shares of columns are of: rows, or entities, each of which counts once",
    )
    quality: tuple[QualityFact, ...] = Field((), exclude_if=lambda facts: not facts)
    unlisted: tuple[UnlistedFact, ...] = Field((), exclude_if=lambda facts: not facts)
    left_out: tuple[str, ...] = Field(
        (), exclude_if=lambda names: not names, description="open columns of which nothing stood above the noise"
    )
    rows: int
    columns: tuple[str, ...]
    tables: tuple[TableFact, ...] = Field(
        (),
        exclude_if=lambda facts: not facts,
        description="of a release of several tables, parents first; columns are then named table.column",
    )
    spec_hash: str
    spec: dict[str, Any]
    versions: dict[str, str]
    fitness: tuple[ColumnFitness, ...] = ()
    verdict: VerdictFact | None = Field(None, exclude_if=lambda fact: fact is None)
    measured: MeasuredFact | None = Field(None, exclude_if=lambda fact: fact is None)
    files: tuple[PublishedFile, ...] = ()


def guarantee_of(loss: Loss, spec: ReleaseSpec, events: Sequence[ChargedEvent]) -> Guarantee:
    return Guarantee(
        sentence=_sentence(loss, spec.privacy.relation, spec.protects),
        relation=spec.privacy.relation,
        unit=spec.protects,
        epsilon=loss.epsilon,
        delta=loss.delta,
        accountant=loss.accountant,
        events=tuple(events),
    )


def charged_event(stage: str, mid: str, event: Any, measurement_sha256: str) -> ChargedEvent:
    return ChargedEvent(
        stage=stage,
        mid=mid,
        description=describe(event),
        event=to_json(event),
        measurement_sha256=measurement_sha256,
    )


def noise_facts(plan: MethodPlan[Any]) -> tuple[NoiseFact, ...]:
    return tuple(NoiseFact(query=line.query, numbers=line.numbers, std=line.std) for line in plan.noise)


def quality_facts(qualities: Sequence[ColumnQuality]) -> tuple[QualityFact, ...]:
    from understudy.pipelines.table.columns import CELLS

    return tuple(
        QualityFact(
            column=each.column,
            shares=dict(zip(CELLS, each.shares, strict=True)),
            std=each.std,
            alarming=each.is_alarming,
        )
        for each in qualities
    )


def verdict_fact(verdict: Verdict | None) -> VerdictFact | None:
    if verdict is None:
        return None
    columns, pairs = (
        tuple(
            TableGrade(
                table=one.name,
                grade=one.grade,
                off=round(one.off, 4),
                std=round(one.std, 3),
                stands_out=one.stands_out,
            )
            for one in tables
        )
        for tables in (verdict.columns, verdict.pairs[:MOST_PAIRS])
    )
    return VerdictFact(
        grade=verdict.grade,
        sentence=verdict.sentence,
        smallest_group=verdict.smallest_group,
        columns=columns,
        worst_pairs=pairs,
    )


_WHERE = {"uri", "table", "id", "external"}


def public_spec(spec: ReleaseSpec) -> dict[str, Any]:
    """The spec without its addresses: where the table lives is nobody's business but the operator's."""
    tables = {"tables": {"__all__": {"source": True}}} if spec.tables is not None else {}
    return spec.model_dump(mode="json", exclude={"source": _WHERE, "publish": True, "compute": True, **tables})


def software_versions() -> dict[str, str]:
    found = {name: version(name) for name in _VERSIONED if any(distributions(name=name))}
    return {"python": platform.python_version(), **found}


def _sentence(loss: Loss, relation: Relation, unit: str) -> str:
    epsilon, delta = at_most(loss.epsilon), at_most(loss.delta, 3)
    change = "adding or removing" if relation is Relation.ADD_REMOVE else "replacing"
    return (
        f"This release is ({epsilon}, {delta})-differentially private: {change} {unit} changes the "
        f"probability of any published outcome by a factor of at most e^{epsilon}, up to {delta}."
    )

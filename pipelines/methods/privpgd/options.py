"""What a spec may say under `method:` for privpgd."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from understudy.pipelines.counting.shares import Split
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.counting.workload import Named
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.privpgd.statistics import StatisticOptions, refuse_what_cannot_be_bought
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.options import read_options
from understudy.pipelines.spec.public import Public
from understudy.pipelines.table.domain import TableDomain


class PrivPGDOptions(Public):
    marginals: Named | Literal["auto", "adaptive"] | tuple[tuple[str, ...], ...] = Field(
        "all-2way",
        description="which marginals are measured; auto: all pairs and the triples that they do not explain; adaptive "
        "chooses them round by round, for a price",
    )
    one_way_share: float | None = Field(
        None,
        ge=0,
        le=0.9,
        description="part of the budget for columns by themselves; default: what the marginals and the budget ask for",
    )
    split: Split = Field(
        "equal", description="noise of the wider marginals: equal in every cell, or less where there are more cells"
    )
    candidates: Named | tuple[tuple[str, ...], ...] = Field(
        "all-2way", description="adaptive only: the marginals it may choose from"
    )
    focus: tuple[str, ...] = Field(
        (), description="columns whose relations to all others matter most: their marginals get more of the budget"
    )
    statistics: dict[str, StatisticOptions] = Field({}, description="shares of rows to keep or to hide, bought by name")
    count: Literal["entities", "rows"] | None = Field(
        None,
        description="entities: every entity counts once, so that noise does not grow with max_rows; rows: every row "
        "does. Default: entities where max_rows is above 1, unless marginals are chosen adaptively",
    )
    rounds: int | None = Field(
        None, ge=1, le=1000, description="adaptive only: marginals it chooses; default: twice the number of columns"
    )


def privpgd_options(spec: ReleaseSpec, domain: TableDomain) -> PrivPGDOptions:
    options = read_options(spec, PrivPGDOptions)
    _refuse_unknown_focus(options.focus, domain)
    refuse_what_cannot_be_bought(options.statistics, spec, domain)
    if options.count == "entities" and spec.privacy.unit.max_rows == 1:
        raise SpecError("method.count: entities, but every unit has one row", "set unit.max_rows, or drop it")
    if options.marginals == "adaptive":
        if options.count == "entities":
            raise SpecError("adaptive selection counts rows", "drop method.count, or name marginals")
        if options.statistics:
            raise SpecError(
                "method.statistics cannot be bought with adaptive selection", "name marginals, or drop them"
            )
        if options.focus:
            raise SpecError("method.focus cannot be had with adaptive selection", "name marginals, or drop it")
        if options.one_way_share == 0:
            raise SpecError("method.one_way_share is 0, but adaptive selection starts from them", "try 0.2")
        if spec.privacy.noise != "rounded":
            raise SpecError("adaptive selection draws rounded Gaussian noise only", "set privacy.noise to rounded")
    return options


def entity_weights(spec: ReleaseSpec, options: PrivPGDOptions) -> EntityWeights | None:
    """How the rows of an entity are weighed; None where every row counts."""
    most = spec.privacy.unit.max_rows
    return EntityWeights.of(most) if most > 1 and options.count != "rows" else None


def _refuse_unknown_focus(focus: tuple[str, ...], domain: TableDomain) -> None:
    unknown = [name for name in focus if name not in domain.names]
    if unknown:
        raise SpecError(
            f"method.focus names {', '.join(map(repr, unknown))}, which no modelled column is called",
            f"modelled columns: {', '.join(domain.names)}",
        )

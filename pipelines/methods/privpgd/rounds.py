"""Adaptive selection for privpgd: the plan of its rounds, and the quick copies that rounds compare the table with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from understudy.pipelines.counting.adaptive import AdaptivePlan, Bought, Model, plan_rounds
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.groups import groupings_of
from understudy.pipelines.counting.lifted import residuals_of_tables
from understudy.pipelines.counting.quality import quality_cliques
from understudy.pipelines.counting.released import estimated_total, title
from understudy.pipelines.counting.workload import Clique, choose_cliques
from understudy.pipelines.methods.base import MethodPlan, NoiseLine
from understudy.pipelines.methods.privpgd.options import PrivPGDOptions
from understudy.pipelines.methods.privpgd.problem import GridColumn, Noisy, NoisyMarginal
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.encode import EncodedBatch
from understudy.pipelines.table.columns import CELLS
from understudy.pipelines.table.domain import TableDomain

QUICK_ROWS = 20_000
QUICK_EPOCHS = 12
QUICK_REDRAWS = 1
QUICK_SWEEPS = 4
ONE_WAY_SHARE = 0.1  # of the budget, where the spec does not say


def plan_adaptive(spec: ReleaseSpec, options: PrivPGDOptions, domain: TableDomain) -> AdaptivePlan:
    candidates = [clique for clique in choose_cliques(options.candidates, domain) if len(clique) > 1]
    rounds = options.rounds or default_rounds(len(domain.columns))
    privacy = spec.privacy
    return plan_rounds(
        len(domain.columns),
        candidates or [(0,)],
        min(rounds, max(1, len(candidates))),
        ONE_WAY_SHARE if options.one_way_share is None else options.one_way_share,
        privacy.budget,
        privacy.relation,
        privacy.protected_unit,
        tuple(quality_cliques(domain)) if privacy.quality is not None else (),
        privacy.quality or 0.0,
        groupings_of(domain),
    )


def quality_lines(quality: Sequence[Clique], stds: Sequence[float]) -> tuple[NoiseLine, ...]:
    """How columns were understood: the last of the stds are theirs, and alike."""
    if not quality:
        return ()
    return (NoiseLine("how each column was understood", len(quality) * len(CELLS), stds[-1]),)


def quality_steps(quality: Sequence[Clique]) -> tuple[str, ...]:
    return ("count how many values of each column were understood, null, unreadable, out of range",) if quality else ()


def default_rounds(columns: int) -> int:
    return 2 * columns


def describe_rounds(plan: AdaptivePlan, domain: TableDomain) -> MethodPlan[Any]:
    one_ways = tuple(
        NoiseLine(name, size, std)
        for name, size, std in zip(domain.names, domain.sizes, plan.one_way.stds, strict=False)
    )
    largest = max(plan.candidates, key=lambda clique: math.prod(domain.sizes[index] for index in clique))
    cells = math.prod(domain.sizes[index] for index in largest)
    chosen = NoiseLine(
        f"each of {plan.rounds} chosen marginals (at most {title(largest, domain)})",
        cells,
        plan.each_round.noise_of(largest).stds[0],
    )
    return MethodPlan(
        method="privpgd",
        charges=plan.charges,
        noise=(*one_ways, chosen, *quality_lines(plan.quality, plan.one_way.stds)),
        steps=(
            f"count {len(one_ways)} one-way marginals and {len(plan.candidates)} candidates exactly",
            *quality_steps(plan.quality),
            "release the one-way marginals with rounded Gaussian noise",
            f"{plan.rounds} times: choose the candidate the copy gets most wrong, privately, and release it with noise",
            "move particles until their marginals fit the noisy ones",
        ),
        design=plan,
        details={"candidates": len(plan.candidates), "rounds": plan.rounds},
        counted=(*((index,) for index in range(len(one_ways))), *plan.candidates),
    )


def quick_copy(columns: Sequence[GridColumn]) -> Model:
    """A model for `measure_adaptively`: a small copy fitted to what is released so far, scaled to the noisy total."""
    from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
    from understudy.pipelines.methods.privpgd.engine import synthesize

    sizes = [column.size for column in columns]
    config = PrivPGDConfig(
        particles=QUICK_ROWS,
        epochs=QUICK_EPOCHS,
        redraws=QUICK_REDRAWS,
        polish_sweeps=QUICK_SWEEPS,
        device="cpu",
    )

    def fit(bought: Bought) -> Callable[[Clique], np.ndarray]:
        noisy: Noisy = [NoisyMarginal(*marginal) for marginal in bought.marginals]
        if bought.grouped:
            noisy = residuals_of_tables(bought.marginals, bought.grouped, sizes)
        codes = synthesize(noisy, columns, QUICK_ROWS, config)
        batch = EncodedBatch(tuple(np.ascontiguousarray(codes[:, i]) for i in range(codes.shape[1])), len(codes))
        scale = max(0.0, estimated_total(bought.marginals)) / QUICK_ROWS
        return lambda clique: scale * count_marginals([batch], sizes, [clique])[0]

    return fit

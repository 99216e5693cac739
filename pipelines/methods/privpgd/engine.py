"""PrivPGD, Algorithm 3 in full: projection, particle descent, finalisation; then a discrete polish.

Input is what was already released with noise, so everything here is post-processing (Lemma 3.2) and costs
nothing. Against the paper: particles start as a draw from the best tree of the targets instead of uniform
noise; targets are estimated from all that was released and shrunk before projection; and snapping is followed
by redraws, which leave no structure that the targets do not ask for, and by single-code moves towards the target
counts, which recover what rounding to the grid loses.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import cos, pi
from typing import Protocol

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.constraints import Constraint, Penalty, Rule
from understudy.pipelines.methods.privpgd.directions import TransportPlan, build_plan
from understudy.pipelines.methods.privpgd.embedding import build_embedding
from understudy.pipelines.methods.privpgd.merging import Merged
from understudy.pipelines.methods.privpgd.polish import polish
from understudy.pipelines.methods.privpgd.problem import GenerationError, GridColumn, Noisy, validate
from understudy.pipelines.methods.privpgd.repair import replace_broken_rows
from understudy.pipelines.methods.privpgd.row_targets import row_targets
from understudy.pipelines.methods.privpgd.start import draw_from_tree
from understudy.pipelines.methods.privpgd.targets import Target, build_targets
from understudy.pipelines.methods.privpgd.transport import CpuParticles
from understudy.pipelines.methods.privpgd.written_last import write_last

Int32Array = npt.NDArray[np.int32]
Progress = Callable[[int, int, float], None]

MOST_PARTICLES = 100_000


class Particles(Protocol):
    def step(self, chosen: npt.NDArray[np.intp], slices: npt.NDArray[np.intp], rate: float) -> float: ...
    def points(self) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """Rows of codes that fit the targets, and all that is needed to draw further ones like them. Can be pickled."""

    codes: Int32Array
    targets: tuple[Target, ...]
    sizes: tuple[int, ...]
    rules: tuple[Rule, ...]
    penalties: tuple[Penalty, ...]
    merged: Mapping[int, Merged]
    focus: tuple[int, ...] = ()

    def unmerged(self, codes: Int32Array, rng: np.random.Generator) -> Int32Array:
        """In place: a code of its own for every merged one."""
        for column, merged in self.merged.items():
            codes[:, column] = merged.single_codes(codes[:, column], rng)
        return codes


def synthesize(
    noisy: Noisy,
    columns: Sequence[GridColumn],
    rows: int,
    config: PrivPGDConfig = PrivPGDConfig(),
    *,
    constraints: Sequence[Constraint] = (),
    total: float | None = None,
    seed: int | None = None,
    focus: frozenset[int] = frozenset(),
    progress: Progress | None = None,
) -> Int32Array:
    """Codes [rows, columns] whose marginals match the noisy ones as far as the noise lets them be known.

    `total` is the table's number of rows where that is public (REPLACE_ONE); otherwise it is estimated from
    what was released. A column that no marginal covers is uniform. Every row obeys the hard rules
    among `constraints`. `seed` makes a run repeatable; it protects
    nothing and need not be secret. What the other columns say of those of `focus` is estimated together, and they are
    written last. `progress` is told (epochs done, epochs in all, mean SW2^2 of the
    epoch).
    """
    rng = np.random.default_rng(seed)
    fitted = fit(
        noisy, columns, rows, config, rng, constraints=constraints, total=total, focus=focus, progress=progress
    )
    return fitted.unmerged(fitted.codes, rng)


def fit(
    noisy: Noisy,
    columns: Sequence[GridColumn],
    rows: int,
    config: PrivPGDConfig,
    rng: np.random.Generator,
    *,
    constraints: Sequence[Constraint] = (),
    total: float | None = None,
    focus: frozenset[int] = frozenset(),
    progress: Progress | None = None,
) -> Fitted:
    """`synthesize`, up to where codes are still merged."""
    validate(noisy, columns)
    if rows < 0:
        raise GenerationError(f"cannot generate {rows} rows.", "Ask for zero rows or more.")
    sizes = [column.size for column in columns]
    rules = [rule for c in constraints if (rule := c.rule(sizes)) is not None]
    penalties = [penalty for c in constraints if (penalty := c.penalty(sizes)) is not None]
    touched = {column for rule in rules for column in rule.columns}
    touched |= {column for penalty in penalties for column in penalty.statistic.scores}
    if isinstance(noisy, EntityResiduals):
        targets = row_targets(noisy, columns, frozenset(touched), focus)
    else:
        targets = build_targets(noisy, columns, total, frozenset(touched), focus)
    columns = [targets.merged[c].column(each) if c in targets.merged else each for c, each in enumerate(columns)]
    sizes = [column.size for column in columns]
    particles = config.particles or min(max(rows, 1), MOST_PARTICLES)
    codes = draw_from_tree([t.probabilities for t in targets.single], targets.pairs, particles, rng)
    if targets.joint and config.epochs:
        embedding = build_embedding(columns)
        plan = build_plan(targets.joint, embedding, config.direction_pool, config.quantiles, rng)
        cloud = _particles_on(config.device, embedding.place(codes), plan, config.bins)
        descend(cloud, plan, config, rng, progress)
        codes = embedding.snap(cloud.points())
    codes = resize(codes, rows, rng)
    fitting = (*targets.joint, *targets.single)
    polish(codes, fitting, sizes, config.polish_sweeps, rng, rules, penalties, config.redraws)
    if rules and replace_broken_rows(codes, rules, sizes, rng):
        polish(codes, fitting, sizes, config.polish_sweeps, rng, rules, penalties)
    for column in sorted(focus):
        write_last(codes, column, targets.joint, sizes, config.polish_sweeps, rng, rules, penalties)
    return Fitted(codes, fitting, tuple(sizes), tuple(rules), tuple(penalties), targets.merged, tuple(sorted(focus)))


def descend(
    cloud: Particles,
    plan: TransportPlan,
    config: PrivPGDConfig,
    rng: np.random.Generator,
    progress: Progress | None,
) -> float:
    """Mini-batch particle descent with a rate falling as a cosine; returns the last epoch's loss.

    Stops early once the loss is below what the noise alone would leave: from there on it would fit noise.
    """
    loss = float("inf")
    for epoch in range(config.epochs):
        rate = config.learning_rate * (1.0 + cos(pi * epoch / config.epochs)) / 2.0
        order, losses = rng.permutation(plan.marginals), []
        for first in range(0, len(order), config.batch):
            chosen = order[first : first + config.batch]
            pool = np.argsort(rng.random((len(chosen), config.direction_pool)), axis=1)
            losses.append(cloud.step(chosen, pool[:, : config.directions], rate))
        loss = float(np.mean(losses))
        if progress is not None:
            progress(epoch + 1, config.epochs, loss)
        if loss <= plan.floor:
            break
    return loss


def resize(codes: Int32Array, rows: int, rng: np.random.Generator) -> Int32Array:
    """`rows` of the given rows: each equally often, up to one."""
    have = codes.shape[0]
    extra = rng.permutation(have)[: rows % have]
    return np.concatenate([np.tile(codes, (rows // have, 1)), codes[extra]])


def _particles_on(device: str, points: npt.NDArray[np.float32], plan: TransportPlan, bins: int) -> Particles:
    # torch takes seconds to import, and a machine without a GPU needs none of it.
    if device == "cuda" or (device == "auto" and shutil.which("nvidia-smi") and find_spec("torch")):
        import torch

        from understudy.pipelines.methods.privpgd.transport_torch import TorchParticles

        if torch.cuda.is_available():
            return TorchParticles(points, plan, bins, "cuda")
        if device == "cuda":
            raise GenerationError("device cuda was asked for, but torch finds none.", "Use device: auto or cpu.")
    return CpuParticles(points, plan, bins)

"""What a table can hold: noisy sums over public cells, and over values nobody listed that many units share.

Theorem. For each question q the units give weights to cells: `weight(t)` to each of the t cells that a unit touches
  (thresholds.py). Of a *closed* question, whose cells are public, release every sum + Z; of an *open* one, whose cells
  are whatever values the rows hold, draw Z for every value that some row holds and release those whose sum + Z reaches
  the threshold, with their sums. Z = round(N(0, std_q^2)), independent per cell. All questions together are, except
  with probability delta under either neighbour, post-processing of one Gaussian mechanism with z = 1 / sqrt(sum_q (S /
  std_q)^2): the event Approximate(Gaussian(z), delta), delta = the sum of `spill` over open questions. It claims z
  rounded down and delta rounded up, computed from the stds and thresholds that are drawn with.
Relation, sensitivity. S = G (ADD_REMOVE) or sqrt(2) G (REPLACE_ONE) in L2, of each question: `counts_sensitivity`.
Noise unit. `std` in weights: G is one unit with one value (`thresholds.grain`; 1 where a unit has one row).
Proof. docs/proofs/discovery.md.
Reference. Gopi et al. 2020; Desfontaines, Voss, Gipson & Mandayam 2022 (why a value's sum may be shown); Dwork & Roth
  2014, Appendix A.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.discovery.thresholds import grain, spill, threshold_for
from understudy.pipelines.privacy.events import Approximate, Event, Gaussian
from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian
from understudy.pipelines.privacy.relation import Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, root_down, root_up, sum_of_squares, up


@dataclass(frozen=True)
class Question:
    """One thing that is asked about one column. `cells` None: open, and then shown from `threshold` on, at `most` so
    many values. `share` is its part of the budget; an open question's part of delta is the same for each."""

    name: str
    cells: int | None
    share: float
    most: int = 0


@dataclass(frozen=True)
class Sums:
    """Exact sums of weights: of every public cell in its order, or of each of `values`, which are different texts."""

    weights: np.ndarray
    values: pa.LargeStringArray | None = None


@dataclass(frozen=True)
class DiscoveryNoise:
    """How the sums of each question are noised, in order, and from where on those of open ones are shown."""

    questions: tuple[Question, ...]
    stds: tuple[float, ...]
    thresholds: tuple[int | None, ...]
    relation: Relation
    unit: Unit

    @property
    def event(self) -> Event:
        moved = counts_sensitivity(self.relation, grain(self.unit))
        gaussian = Gaussian(root_down(1 / sum_of_squares((moved, std) for std in self.stds), CLAIMED_BITS))
        shown = [(std, from_) for std, from_ in zip(self.stds, self.thresholds, strict=True) if from_ is not None]
        if not shown:
            return gaussian
        own = sum((Fraction(spill(threshold, std, self.unit)) for std, threshold in shown), Fraction(0))
        return Approximate(gaussian, up(own))

    def draw(self, exact: Mapping[str, Sums], randomness: RandomSource) -> dict[str, np.ndarray]:
        """Noisy int64 sums by question; of an open one those shown, largest first, and their texts as bytes and ends.

        What is not shown leaves no trace: order is by noisy sum, then by text, not as rows came.
        """
        drawn: dict[str, np.ndarray] = {}
        for question, std, threshold in zip(self.questions, self.stds, self.thresholds, strict=True):
            sums = exact[question.name]
            noisy = sums.weights.astype(np.int64) + rounded_gaussian(sums.weights.shape, std, randomness)
            if threshold is None:
                drawn[question.name] = noisy
                continue
            assert sums.values is not None
            drawn |= _shown(question, noisy, sums.values, threshold)
        return drawn


def _shown(question: Question, noisy: np.ndarray, values: pa.LargeStringArray, threshold: int) -> dict[str, np.ndarray]:
    passed = np.flatnonzero(noisy >= threshold)
    found = pa.table({"sum": noisy[passed], "text": values.take(pa.array(passed))})
    order = pc.sort_indices(found, sort_keys=[("sum", "descending"), ("text", "ascending")])
    found = found.take(order).slice(0, question.most)
    texts = [text.encode() for text in found["text"].to_pylist()]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    letters = np.frombuffer(b"".join(texts), np.uint8)
    sums = found["sum"].to_numpy()
    return {question.name: sums, f"{question.name}/ends": ends, f"{question.name}/text": letters}


def shown_values(arrays: Mapping[str, np.ndarray], name: str) -> dict[str, int]:
    """The values that an open question found, and their noisy sums, largest first."""
    ends, letters = arrays[f"{name}/ends"], arrays[f"{name}/text"].astype(np.uint8).tobytes()
    starts = [0, *ends[:-1].tolist()] if len(ends) else []
    texts = [letters[start:end].decode() for start, end in zip(starts, ends.tolist(), strict=True)]
    return dict(zip(texts, arrays[name].tolist(), strict=True))


def discovery_noise(
    questions: tuple[Question, ...], noise_multiplier: float, delta: float, relation: Relation, unit: Unit
) -> DiscoveryNoise:
    """The noise at which all questions are together Gaussian(z) but for `delta`, by their shares of the budget."""
    total = sum((Fraction(question.share) for question in questions), Fraction(0))
    square = Fraction(noise_multiplier) ** 2 * Fraction(counts_sensitivity(relation, grain(unit))) ** 2 * total
    stds = tuple(root_up(square / Fraction(question.share)) for question in questions)
    asked = sum(question.cells is None for question in questions)
    part = delta / asked * (1 - 1e-9) if asked else delta  # so that their sum, each rounded up, is no more than delta
    thresholds = tuple(
        threshold_for(std, part, unit) if question.cells is None else None
        for question, std in zip(questions, stds, strict=True)
    )
    return DiscoveryNoise(questions, stds, thresholds, relation, unit)

"""Attacks that people fear, on made tables, beside what the guarantee allows each of them: alarms, not certificates.

One person, in the farthest corner of the domain, is in the table of a small crowd, or is not. The attacker knows
everybody else, the method and all of its settings.

- **membership, numbers**: by the likelihood ratio of the released numbers; no attack is better.
- **membership, rows**: by the published rows alone: the attacker makes as many releases of either table itself, fits
  what the rows look like with the person and without, and decides by the likelihood ratio of the two fits.
- **attribute**: knowing that the person is in the table and all other columns of it, which value of the first column it
  has: the likeliest by the released numbers.
- **linkage**: one of a public list of candidates is in the table; which one is the likeliest by `measured/`.

Ceilings. Between two tables the best guess is right with at most (1 + TV) / 2. Where one of v is to be named, a guess
is right with chance 1/v on average where nobody of them is in the table, hence with at most 1 - f(1/v) where one is, f
the trade-off function of all that was released, which is convex (Dong, Roth & Su 2022). More than that, beyond what
chance explains, is a broken promise.

Similarity is shown beside them because it is no evidence: how many published rows lie nearer to a real row than to any
row of a second sample (one half is what is usually called safe) hardly moves when the noise is left out.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import stats
from scipy.special import ndtr, ndtri

from understudy.pipelines.auditing.attacks import claimed_mu, log_ratio
from understudy.pipelines.auditing.cases import planned_case
from understudy.pipelines.auditing.made import Canaries, canaries_of, farthest
from understudy.pipelines.auditing.replay import (
    ADDED,
    Recorder,
    Replayer,
    Step,
    drawn,
    measured,
    released_without_noise,
)
from understudy.pipelines.auditing.values import Row
from understudy.pipelines.auditing.words import same_copies
from understudy.pipelines.methods.mixing.mechanism import SliceNoise
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.releasing.generating import generate_rows
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.table.synthetic_tree import tables_of

EPSILONS = ("1", "10", "none")
CROWD, CANDIDATES, ROWS = 24, 20, 20
CONFIDENCE = 0.9999
"""Of each alarm: there are many of them."""
_QUICK = {"epochs": 60, "particles": 200, "device": "cpu", "training_steps": 20}
_QUIET = 1e-5
_STEPS = np.linspace(0.01, 0.6, 60)


@dataclass(frozen=True)
class Alarm:
    """One attack on one method at one epsilon: how often it was right, and may be at most."""

    case: str
    epsilon: str
    attack: str
    tries: int
    right: int
    ceiling: float

    @property
    def rate(self) -> float:
        return self.right / self.tries

    @property
    def holds(self) -> bool:
        """Whether so many right guesses are believable under the ceiling."""
        return bool(stats.binom.sf(self.right - 1, self.tries, self.ceiling) > 1 - CONFIDENCE)


@dataclass(frozen=True)
class Similarity:
    """The share of published rows that lie nearer to a real row than to any of a second sample."""

    case: str
    epsilon: str
    nearer: float


@dataclass(frozen=True)
class Scene:
    """A crowd, the one person that may be among it, and the candidates of which that person is the first. Nobody of the
    crowd is like that person in all columns but the first, so that the person could be found."""

    planned: Planned
    without: pa.Table
    people: Canaries
    crowd: tuple[Any, ...]
    quiet: bool

    def with_candidate(self, place: int) -> pa.Table:
        return self.people.table([place], self.crowd)


class Quiet(Recorder):
    """Sells without noise. What is sampled is sampled still."""

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        noise = mechanism.noise
        calls: tuple[int, ...] = ()
        if isinstance(noise, ADDED):
            exact = released_without_noise(noise, mechanism.exact)
            released = Measurement(mechanism.kind, mechanism.facts, dict(exact))
        elif isinstance(noise, SliceNoise):
            design = replace(noise.design, noise_multiplier=_QUIET)
            released, calls = drawn(replace(mechanism, noise=replace(noise, design=design)), self._seed)
        else:
            raise NotImplementedError(f"{type(noise).__name__} has no quiet draw")
        self.steps.append(Step(charge, mechanism, released, calls))
        return released


def sounded(case: str, epsilon: str, tries: int, seed: int = 1) -> tuple[list[Alarm], Similarity]:
    """Every attack on one method, so many times each."""
    scene = scene_of(case, epsilon, seed)
    most = 1.0 if scene.quiet else best_right(scene.planned)
    rng = random.Random(f"{seed} {case} {epsilon}")  # noqa: S311 (made tables, nothing private)
    numbers = [_is_in(scene, truth, rng.randrange(2**40)) == truth for truth in (False, True) for _ in range(tries)]
    rows = [[_rows(scene, truth, rng.randrange(2**40)) for _ in range(2 * tries)] for truth in (False, True)]
    people = list(scene.people.rows)
    values = [{**people[0], **dict([each])} for each in _values_of_first(scene)]
    alarms = [
        Alarm(case, epsilon, "membership, numbers", 2 * tries, sum(numbers), most),
        Alarm(case, epsilon, "membership, rows", 2 * tries, _told_by_rows(scene, rows), most),
        Alarm(case, epsilon, "attribute", tries, _named(scene, values, tries, rng), _raised(scene, len(values))),
        Alarm(case, epsilon, "linkage", tries, _named(scene, people, tries, rng), _raised(scene, len(people))),
    ]
    return alarms, Similarity(case, epsilon, _nearer(scene, rows[1], rng))


def scene_of(case: str, epsilon: str, seed: int) -> Scene:
    planned = planned_case(case, "10" if epsilon == "none" else epsilon)
    generate = planned.spec.generate.model_copy(update=_QUICK)
    planned = plan_release(planned.spec.model_copy(update={"generate": generate}))
    rng = random.Random(f"{seed} crowd")  # noqa: S311 (made tables, nothing private)
    made, far = canaries_of(planned.spec, 40 * CROWD, rng), farthest(planned.spec)
    unlike = [row for row in made.rows if any(row[name] != far[name] for name in list(far)[1:])]
    candidates = [far, *(row for place, row in enumerate(unlike) if row not in unlike[:place])][:CANDIDATES]
    crowd = tuple(unlike[-CROWD:])
    people = replace(made, rows=tuple(candidates))
    return Scene(planned, people.table([], crowd), people, crowd, epsilon == "none")


def best_right(planned: Planned) -> float:
    """How often the best guess between two neighbours can be right, at most."""
    events = [charge.event for charge in planned.plan.charges]
    found = []
    for alarms in _STEPS[::6]:
        mu = claimed_mu(events, float(alarms), planned)
        found.append(1 - (float(alarms) + float(ndtr(ndtri(1 - alarms) - mu))) / 2)
    return min(1.0, max(found) + 0.005)  # the best rate lies between two of those tried


def _raised(scene: Scene, candidates: int) -> float:
    """How often the right one of so many can be named, at most."""
    if scene.quiet:
        return 1.0
    mu = claimed_mu([charge.event for charge in scene.planned.plan.charges], 1 / candidates, scene.planned)
    return float(ndtr(ndtri(1 / candidates) + mu))


def _sold(scene: Scene, table: pa.Table, seed: int) -> tuple[Recorder, Measurement]:
    seller = Quiet(seed) if scene.quiet else Recorder(seed)
    with same_copies(seed):
        found = measured(scene.planned, table, seller)
    if isinstance(found, str):
        raise RuntimeError(f"a made table cannot be measured: {found}")
    return seller, found


def _likelihood(scene: Scene, seller: Recorder, table: pa.Table, seed: int) -> float:
    """Of what was sold: how much likelier it is with this table than without the person."""
    steps = []
    for each in (scene.without, table):
        other = Replayer(seed, seller.steps, draws=False)
        with same_copies(seed):
            found = measured(scene.planned, each, other)
        if isinstance(found, str):
            raise RuntimeError(f"a made table cannot be measured: {found}")
        steps.append(other.steps)
    return sum(
        log_ratio(one.mechanism.noise, one.mechanism.exact, other.mechanism.exact, step.released)
        for step, one, other in zip(seller.steps, *steps, strict=True)
    )


def _is_in(scene: Scene, truth: bool, seed: int) -> bool:
    far = scene.with_candidate(0)
    seller, _ = _sold(scene, far if truth else scene.without, seed)
    return _likelihood(scene, seller, far, seed) > 0


def _named(scene: Scene, candidates: Sequence[Row], tries: int, rng: random.Random) -> int:
    """How often the likeliest of the candidates is the one that is in the table."""
    tables = [replace(scene.people, rows=(row,)).table([0], scene.crowd) for row in candidates]
    right = 0
    for _ in range(tries):
        place, seed = rng.randrange(len(tables)), rng.randrange(2**40)
        seller, _ = _sold(scene, tables[place], seed)
        scores = [_likelihood(scene, seller, each, seed) for each in tables]
        ties = [each for each, score in enumerate(scores) if score >= max(scores) - 1e-9]
        right += rng.choice(ties) == place
    return right


def _values_of_first(scene: Scene) -> list[tuple[str, Any]]:
    name, values = next(iter(scene.people.columns.items()))
    return [(name, value) for value in values.plain]


def _rows(scene: Scene, truth: bool, seed: int) -> np.ndarray:
    _, found = _sold(scene, scene.with_candidate(0) if truth else scene.without, seed)
    [made] = tables_of(generate_rows(found, scene.planned, None, ROWS)).values()
    return points(made.table, scene.people)


def _told_by_rows(scene: Scene, rows: Sequence[Sequence[np.ndarray]]) -> int:
    """Right guesses on the second half of the releases, by fits to the first."""
    [far] = points(scene.people.table([0]), scene.people)
    features = [np.array([_features(each, far) for each in side]) for side in rows]
    half = len(rows[0]) // 2
    means = [side[:half].mean(axis=0) for side in features]
    spread = sum(np.cov(side[:half].T) for side in features) / 2
    spread += np.eye(len(means[0])) * (1e-9 + 0.1 * np.trace(spread) / len(means[0]))
    direction = np.linalg.solve(spread, means[1] - means[0])
    middle = direction @ (means[0] + means[1]) / 2
    return int((features[0][half:] @ direction <= middle).sum() + (features[1][half:] @ direction > middle).sum())


def _features(rows: np.ndarray, far: np.ndarray) -> np.ndarray:
    apart = np.sort(np.abs(rows - far).sum(axis=1))
    return np.array([apart[0], apart[: len(apart) // 4 + 1].mean(), apart.mean(), *rows.mean(axis=0)])


def _nearer(scene: Scene, releases: Sequence[np.ndarray], rng: random.Random) -> float:
    real = points(scene.with_candidate(0), scene.people)
    again = canaries_of(scene.planned.spec, len(real), rng)
    second = points(again.table(range(len(real))), scene.people)
    rows = np.concatenate(releases)
    nearest = [np.abs(rows[:, None] - each[None]).sum(axis=2).min(axis=1) for each in (real, second)]
    return float(((nearest[0] < nearest[1]) + 0.5 * (nearest[0] == nearest[1])).mean())


def points(table: pa.Table, people: Canaries) -> np.ndarray:
    """Rows as vectors: every number by its place in the range, every word by a 1 in its own place."""
    parts = []
    for name in (each for each in people.columns if each in table.column_names):
        plain, cells = people.columns[name].plain, table[name].to_pylist()
        if isinstance(plain[0], str):
            parts.append(np.array([[float(cell == value) for value in plain] for cell in cells]))
        elif isinstance(plain[0], list):
            low, high = float(plain[0][0]), float(plain[-1][0])
            flat = [
                np.asarray(cell, float).ravel() if cell is not None else np.full(len(plain[0]), low) for cell in cells
            ]
            parts.append((np.array(flat) - low) / (high - low))
        else:
            low, high = _number(plain[0]), _number(plain[-1])
            parts.append(
                np.array([[((low if cell is None else _number(cell)) - low) / (high - low)] for cell in cells])
            )
    return np.concatenate([part.reshape(table.num_rows, -1) for part in parts], axis=1)


def _number(cell: Any) -> float:
    return float(cell.toordinal()) if isinstance(cell, dt.date) else float(cell)

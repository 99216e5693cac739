"""Bins of neighbouring siblings, as far as the gaps between them tell."""

from __future__ import annotations

import numpy as np

from tests.methods.tree.released_trees import released_from
from tests.trees import clinic, domains_of
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.tree.generating.gap_codes import beside_gaps, led_by_gaps
from understudy.pipelines.methods.tree.generating.generate import generate_tree
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.spec.model import ReleaseSpec

WEEKS = {"visited_on": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "bins": "week"}}


def regular(spec: ReleaseSpec, patients: int, rng: np.random.Generator) -> TreeCodes:
    """Patients who come every two to three weeks, up to six times."""
    domains = domains_of(spec)
    numbers = rng.integers(1, 7, patients)
    parent = np.repeat(np.arange(patients), numbers)
    first = np.append(True, parent[1:] != parent[:-1])
    gap = np.where(first, 0, rng.integers(14, 22, len(parent)))
    day = np.cumsum(gap) - np.cumsum(gap)[first].repeat(numbers) + rng.integers(0, 240, patients)[parent]
    column = domains["visits"].columns[0]
    low, _ = column.intervals()
    values = low[0] + day.astype(float)
    codes = np.searchsorted(low, values, side="right") - 1
    return TreeCodes(
        {
            "patients": np.stack([rng.integers(0, 2, patients), rng.integers(0, 4, patients)], 1).astype(np.int32),
            "visits": codes[:, None].astype(np.int32),
            "drugs": np.zeros((len(parent), 1), dtype=np.int32),
        },
        {"visits": parent, "drugs": np.arange(len(parent))},
        {"visits": values},
    )


def weekly() -> ReleaseSpec:
    return clinic(visits={"columns": WEEKS, "max_rows": 6})


def test_gaps_lead_from_bin_to_bin_as_they_do_in_the_rows() -> None:
    spec, rng = weekly(), np.random.default_rng(1)
    made = regular(spec, 20_000, rng)
    column = domains_of(spec)["visits"].columns[0]
    values, follows = made.values["visits"], made.parent["visits"][1:] == made.parent["visits"][:-1]
    codes = made.codes["visits"][:, 0]
    pairs = np.histogram2d(codes[:-1][follows], codes[1:][follows], bins=np.arange(column.size + 1))[0] / follows.sum()
    edges = np.array([0.0, 7, 14, 18, 22, 30, 366])
    gaps = np.histogram(np.diff(values)[follows], bins=edges)[0] / follows.sum()
    led = led_by_gaps(pairs.sum(axis=1), pairs.sum(axis=0), gaps, edges, column)
    assert np.abs(led - pairs).sum() / 2 < 0.06
    assert np.abs(led.sum(axis=1) - pairs.sum(axis=1)).sum() < 0.01
    alone = np.outer(pairs.sum(axis=1), pairs.sum(axis=0))
    assert np.abs(alone - pairs).sum() / 2 > 0.8


def test_what_was_measured_otherwise_is_kept_as_far_as_noise_allows() -> None:
    led = np.full((4, 4), 1 / 16)
    seen = led * 1_000
    seen[0, 0] += 60
    seen[0, 1] -= 60
    seen[1, 0] -= 60
    seen[1, 1] += 60
    assert np.abs(beside_gaps(led, seen, 1.0, 1_000) - seen / 1_000).max() < 0.003
    assert np.abs(beside_gaps(led, seen, 1e6, 1_000) - led).max() < 0.001


def test_gaps_are_honest_where_pairs_of_bins_are_noise() -> None:
    spec, rng = weekly(), np.random.default_rng(2)
    released = released_from(regular(spec, 1_500, rng), spec, 8.0, rng)
    made = generate_tree(
        released, domains_of(spec), 1_500, np.random.SeedSequence(3), PrivPGDConfig(epochs=1, device="cpu")
    )
    follows = made.parent["visits"][1:] == made.parent["visits"][:-1]
    gaps = np.diff(made.values["visits"])[follows]
    low, middle, high = np.quantile(gaps, [0.1, 0.5, 0.9])
    assert low > 10
    assert 15 < middle < 20
    assert high < 28  # 102 where bins of neighbours are taken for what their noisy pair says

"""Whatever a record is seen through, windows or edges: the same bound, the same noise, nothing of its neighbours."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from tests.methods.kernel import test_edges, test_windows
from understudy.pipelines.methods.kernel.features import LEVELS
from understudy.pipelines.methods.kernel.mechanism import EMBEDDING, EmbeddingDesign, OnceNoise, exact_embedding
from understudy.pipelines.privacy.relation import Relation

SEEN = {"windows": test_windows.FEATURES, "edges": test_edges.FEATURES}
seen = pytest.mark.parametrize("features", SEEN.values(), ids=SEEN)


def design_of(features, relation=Relation.ADD_REMOVE):
    return EmbeddingDesign("once", features, 2, 2, 1.0, 2.0, relation)


def records(features, count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, LEVELS + 1, (count, features.width)).astype(np.uint16), rng.integers(0, 2, count)


def features_of(features, record, block=0):
    total = np.zeros((1, 2 * features.frequencies), dtype=np.int64)
    features.add(block, record[None, :], np.zeros(1, dtype=np.int64), total)
    return total[0]


@seen
def test_no_record_exceeds_the_bound(features):
    @settings(max_examples=60, deadline=None)
    @given(arrays(np.uint16, features.width, elements=st.integers(0, LEVELS)), st.integers(0, 3))
    def check(record, block):
        assert int(np.square(features_of(features, record, block)).sum()) <= features.largest_square

    check()


@seen
def test_a_records_features_do_not_depend_on_its_neighbours(features):
    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 60), st.integers(1, 40), st.integers(0, 1000))
    def check(before, after, seed):
        rows, labels = records(features, before + after, seed)
        total = np.zeros((2, 2 * features.frequencies), dtype=np.int64)
        features.add(0, rows, labels, total)
        np.testing.assert_array_equal(total.sum(axis=0), sum(features_of(features, row) for row in rows))

    check()


@seen
@pytest.mark.parametrize("relation", list(Relation))
def test_neighbours_differ_by_at_most_the_sensitivity(replayed, features, relation):
    """Neighbour replay: with shared noise, one more record, or another in its place, moves it so far at most."""
    design = design_of(features, relation)
    rows, labels = records(features, 60, 3)
    near = rows[:-1] if relation is Relation.ADD_REMOVE else np.concatenate([rows[:-1], LEVELS - rows[-1:]])
    pair = [
        OnceNoise(design).draw(exact_embedding([(some, labels[: len(some)])], design), replayed(1))[EMBEDDING]
        for some in (rows, near)
    ]
    moved = math.sqrt(float(np.square(pair[0] - pair[1]).sum()))
    assert moved <= design.sensitivity
    assert moved > (0.99 if relation is Relation.ADD_REMOVE else 0.4) * design.sensitivity


@seen
@pytest.mark.parametrize("scale", [0.97, 1.0, 1.03])
def test_noise_of_another_scale_is_rejected(seeded, features, scale):
    """Too little noise breaks the guarantee and too much wastes the budget: either is seen."""
    wide = design_of(replace(features, frequencies=4000))
    noise = OnceNoise(replace(wide, noise_multiplier=2.0 * scale)).draw(
        np.zeros((2, wide.numbers), dtype=np.int64), seeded(3)
    )[EMBEDDING]
    share = noise.ravel() / (OnceNoise(wide).event.noise_multiplier * wide.sensitivity)
    plausible = abs(float(np.square(share).mean()) - 1) < 5 * math.sqrt(2 / noise.size)
    assert (plausible and stats.kstest(share, "norm").pvalue > 1e-4) == (scale == 1.0)

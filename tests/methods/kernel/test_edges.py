"""Edges: whole numbers of one record alone, so the same bound and the same noise as for its pixels."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.methods.kernel.conftest import planned
from tests.methods.kernel.test_windows import large
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.kernel.design import from_facts, to_facts
from understudy.pipelines.methods.kernel.edges import DIRECTIONS, Edges
from understudy.pipelines.methods.kernel.features import AMPLITUDE, LEVELS, FeatureBlocks
from understudy.pipelines.methods.kernel.generated import BlockFeatures, edges_of, joint_features
from understudy.pipelines.methods.kernel.generators import Shape
from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign, OnceNoise
from understudy.pipelines.methods.kernel.method import training_plan
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.relation import Relation

HEIGHT, WIDTH = 9, 14
PICTURE = (HEIGHT, WIDTH, 1)
EDGES = Edges(*PICTURE)
FEATURES = FeatureBlocks("edges", HEIGHT * WIDTH, 60, (0.9, 1.7), PICTURE, 0.7, (2.0,), (0.4, 0.9))
DESIGN = EmbeddingDesign("once", FEATURES, 2, 2, 1.0, 2.0, Relation.ADD_REMOVE)
GRID = st.integers(0, LEVELS)


def features_of(record, block=0):
    total = np.zeros((1, 2 * FEATURES.frequencies), dtype=np.int64)
    FEATURES.add(block, record[None, :], np.zeros(1, dtype=np.int64), total)
    return total[0]


def test_squares_follow_the_size_of_a_picture():
    assert [Edges(28, 28, 1).square, Edges(64, 48, 3).square, Edges(5, 5, 1).square] == [4, 6, 1]
    assert Edges(28, 28, 1).numbers == 7 * 7 * DIRECTIONS
    assert Edges(64, 48, 3).numbers == 10 * 8 * DIRECTIONS  # four rows below are in no square


def test_a_picture_that_brightens_to_the_right_has_that_slope_and_no_other():
    ramp = np.tile(np.arange(28) * 64, (28, 1)).astype(np.uint16)
    found = Edges(28, 28, 1).of(ramp.reshape(1, -1)).reshape(DIRECTIONS, 7, 7)
    # 64 levels a pixel; the outermost pixels stand beside themselves
    np.testing.assert_array_equal(found[0, :, 1:-1], 64)
    np.testing.assert_array_equal(found[4], 0)
    assert (found[[1, 7], 3, 3] == int(64 * math.cos(math.pi / 4))).all()
    turned = Edges(28, 28, 1).of(ramp.T.reshape(1, -1)).reshape(DIRECTIONS, 7, 7)
    np.testing.assert_array_equal(turned[2], found[0].T)


def test_no_records_have_no_edges():
    assert EDGES.of(np.zeros((0, HEIGHT * WIDTH), np.uint16)).shape == (0, EDGES.numbers)


def test_golden_edges():
    """Whole numbers that a released embedding rests on: they may never change."""
    picture = (np.arange(HEIGHT * WIDTH) ** 2 % (LEVELS + 1)).astype(np.uint16)
    assert EDGES.of(picture[None])[0, 20:26].tolist() == [40, 42, 44, 46, 48, 50]
    assert FEATURES.integer_edge_frequencies(1)[0, :3].tolist() == [-324.0, -7015.0, 11092.0]


@settings(max_examples=80, deadline=None)
@given(arrays(np.uint16, HEIGHT * WIDTH, elements=GRID))
def test_edges_are_records_on_the_grid(record):
    found = EDGES.of(record[None])
    assert found.dtype == np.int64
    assert 0 <= found.min() <= found.max() <= LEVELS


@pytest.mark.parametrize("channels", [1, 3])
def test_the_steepest_picture_stays_on_the_grid(channels):
    stripes = np.repeat((np.indices((28, 28)).sum(axis=0) // 2 % 2 * LEVELS)[..., None], channels, axis=2)
    found = Edges(28, 28, channels).of(stripes.reshape(1, -1).astype(np.uint16))
    assert LEVELS // 4 < found.max() <= LEVELS


def test_half_of_the_frequencies_look_at_edges():
    flat = np.full(HEIGHT * WIDTH, 1000, dtype=np.uint16)  # no edge anywhere: all phases of edges are 0
    cosines, sines = features_of(flat)[:60], features_of(flat)[60:]
    assert (np.abs(cosines[30:]) == AMPLITUDE).all()
    assert not sines[30:].any()
    assert sines[:30].any()


def test_edges_cost_no_noise_and_change_no_event():
    """So a release that an earlier version charged and did not finish is resumed at the price that was paid."""
    plain = replace(DESIGN, features=replace(FEATURES, windows=(), edges=()))
    assert plain.record_norm == DESIGN.record_norm
    assert OnceNoise(plain).event == OnceNoise(DESIGN).event == Gaussian(2.0)


def test_frequencies_of_pixels_are_those_of_every_version_before():
    """Where no edges are looked at; the first ones are the same where they are."""
    without = replace(FEATURES, edges=())
    assert without.frequencies_of_edges == 0
    assert without.integer_edge_frequencies(0).shape == (0, 0)
    assert without.integer_frequencies(0).shape == (HEIGHT * WIDTH, 60)


@pytest.mark.parametrize("channels", [1, 3])
def test_generated_records_have_the_features_of_real_ones(channels):
    picture = (28, 28, channels)
    features = FeatureBlocks("both", 784 * channels, 40, (3.0, 6.0), picture, 0.7, (4.0,), (0.63, 1.17))
    rows = np.random.default_rng(5).integers(0, LEVELS + 1, (20, 784 * channels)).astype(np.uint16)
    exact = []
    for row in rows:
        total = np.zeros((1, 80), dtype=np.int64)
        features.add(1, row[None], np.zeros(1, dtype=np.int64), total)
        exact.append(total[0])
    made = BlockFeatures(features, 1)(torch.from_numpy(rows / LEVELS)).numpy()
    # floor of 392 whole edges: at most a level each, and the table's steps
    np.testing.assert_allclose(made, np.stack(exact) / (AMPLITUDE * math.sqrt(40)), atol=5e-3)


def test_joint_features_are_those_of_all_blocks_and_of_norm_1():
    rows = torch.rand(7, HEIGHT * WIDTH)
    blocks = [BlockFeatures(FEATURES, block) for block in range(3)]
    found = joint_features(blocks, rows)
    torch.testing.assert_close(found.square().sum(dim=1), torch.ones(7))
    torch.testing.assert_close(found[:, :120] * math.sqrt(3), blocks[0](rows))


def test_gradients_reach_the_pixels_through_edges():
    rows = torch.rand(3, HEIGHT * WIDTH, requires_grad=True)
    edges_of(rows, EDGES).sum().backward()
    assert rows.grad is not None
    assert (rows.grad != 0).any(dim=1).all()


def test_large_pictures_have_edges_unless_told_otherwise():
    spec, _, plan = large("")
    features = plan.design.design.features
    assert features.edges == pytest.approx((0.032 * math.sqrt(640), 0.059 * math.sqrt(640)))
    without = large(", edges: false")[2].design.design.features
    assert (without.edges, without.windows) == ((), (4.0, 2.0))
    only = large(", windows: []")[2].design.design.features
    assert only.edges
    assert not only.windows
    assert training_plan(spec.generate, Shape(320, (16, 20, 1)), only).metric == "whitened"
    assert large(", release: steps, rate: 0.1, steps: 10")[2].design.design.features.edges == ()
    assert planned()[2].design.design.features.edges == ()  # four pixels a side
    assert planned(method=", edges: true")[2].design.design.features.edges


def test_what_was_released_without_edges_is_trained_on_as_before():
    spec, shape = planned()[0], Shape(784, (28, 28, 1))
    generators = {
        key: training_plan(spec.generate, shape, replace(FEATURES, **changes)).architecture
        for key, changes in (("edges", {}), ("windows", {"edges": ()}), ("neither", {"edges": (), "windows": ()}))
    }
    assert generators == {"edges": "warped", "windows": "wide", "neither": "conv"}


def test_facts_hold_the_edges_and_old_facts_have_none():
    assert from_facts(json.loads(json.dumps(to_facts(DESIGN)))) == DESIGN
    old = replace(DESIGN, features=replace(FEATURES, edges=()))
    assert "edges" not in to_facts(old)["features"]
    assert from_facts(to_facts(old)) == old


def test_phases_of_edges_stay_exact_or_are_refused():
    """65,536 numbers of 12 bits times frequencies of 24 bits are below 2^53; a long strip has more edges than that."""
    for height, width, numbers in ((12, 4000, "384,000"), (20, 3000, "120,000")):
        strip = f"strip: {{type: tensor, shape: [{height}, {width}], min: 0, max: 255}}"
        assert large("", strip)[2].design.design.features.edges == ()
        with pytest.raises(SpecError, match=f"{numbers} edges; 65,536 is the most"):
            large(", edges: true", strip)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": ", release: steps, edges: true"}, "belong to `release: once`"),
        (
            {"method": ", edges: true", "column": "age: {type: integer, min: 0, max: 9}"},
            "records that are one picture",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        planned(**changes)

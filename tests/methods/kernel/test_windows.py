"""Frequencies that look through windows: the same bound, the same noise, other public directions."""

import hashlib
import json
from dataclasses import replace
from importlib.metadata import version

import numpy as np
import pytest

from tests.methods.kernel.conftest import SPEC, planned
from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.kernel.design import from_facts, to_facts
from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.features import FeatureBlocks
from understudy.pipelines.methods.kernel.generators import Shape
from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign, OnceNoise
from understudy.pipelines.methods.kernel.method import KernelMethod, training_key, training_plan
from understudy.pipelines.methods.kernel.training import PLAIN
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

SIDE = 8
FEATURES = FeatureBlocks("windows", SIDE * SIDE, 48, (0.9, 1.7), (SIDE, SIDE, 1), 0.7, (2.0, 1.0))
DESIGN = EmbeddingDesign("once", FEATURES, 2, 2, 1.0, 2.0, Relation.ADD_REMOVE)
LARGE = """scene: {type: tensor, shape: [16, 20], min: 0, max: 255}"""


def first_numbers(features):
    return hashlib.sha256(features.integer_frequencies(2).tobytes()).hexdigest()[:16]


def test_frequencies_without_windows_are_those_of_every_version_before():
    assert first_numbers(FeatureBlocks("g", 784, 50, (3.0, 6.0), (28, 28, 1), 0.7)) == "7d44a8d69db7788d"
    assert first_numbers(FeatureBlocks("g", 6, 40, (0.5, 1.0))) == "97f1bf6fe3776085"


def test_half_of_the_frequencies_see_all_and_the_windows_share_the_rest():
    seen = FEATURES.seen_through
    assert {window: int((seen == window).sum()) for window in (0, 2, 1)} == {0: 24, 2: 12, 1: 12}


@pytest.mark.parametrize("window", [2.0, 1.0])
def test_what_lies_far_from_a_window_does_not_reach_it(window):
    weights = np.abs(FEATURES.float_frequencies(0)).reshape(SIDE, SIDE, -1)[:, :, FEATURES.seen_through == window]
    rows, columns = np.mgrid[0:SIDE, 0:SIDE]
    total = weights.sum(axis=(0, 1))
    spreads = []
    for places in (rows, columns):
        middle = (weights * places[..., None]).sum(axis=(0, 1)) / total
        spreads.append(((places[..., None] - middle) ** 2 * weights).sum(axis=(0, 1)) / total)
    assert np.sqrt(np.mean(spreads)) < 1.2 * window
    whole = np.abs(FEATURES.float_frequencies(0)).reshape(SIDE, SIDE, -1)[:, :, FEATURES.seen_through == 0]
    assert (whole > 0).mean() > 0.99


def test_channels_of_a_pixel_are_seen_together():
    colour = replace(FEATURES, width=SIDE * SIDE * 3, picture=(SIDE, SIDE, 3))
    narrow = np.abs(colour.float_frequencies(0)).reshape(SIDE, SIDE, 3, -1)[..., colour.seen_through == 1.0]
    far = narrow.max(axis=2) < 1e-6
    assert far.any()
    assert (narrow.max(axis=2)[~far] > 0).all()


def test_windows_cost_no_noise_and_change_no_event():
    """So a release that an earlier version charged and did not finish is resumed at the price that was paid."""
    plain = replace(DESIGN, features=replace(FEATURES, windows=()))
    assert plain.record_norm == DESIGN.record_norm
    assert OnceNoise(plain).event == OnceNoise(DESIGN).event == Gaussian(2.0)


def test_large_pictures_have_windows_unless_told_otherwise():
    spec, _, plan = large("")
    features = plan.design.design.features
    assert features.windows == (4.0, 2.0)
    assert training_plan(spec.generate, Shape(320, (16, 20, 1)), features).metric == "whitened"
    assert large(", windows: []")[2].design.design.features.windows == ()
    assert large(", release: steps, rate: 0.1, steps: 10")[2].design.design.features.windows == ()
    assert planned()[2].design.design.features.windows == ()  # four pixels a side


def large(method, column=LARGE):
    """Planned for one tensor column alone."""
    filled = SPEC.format(privacy="", column=column, method=method, generate=", generator: mlp")
    lines = [line for line in filled.splitlines() if not line.startswith("  image:")]
    spec = parse_spec("\n".join(lines))
    domain = TableDomain.of(spec)
    return spec, domain, KernelMethod().plan(spec, domain)


def test_facts_hold_the_windows_and_old_facts_have_none():
    assert from_facts(json.loads(json.dumps(to_facts(DESIGN)))) == DESIGN
    old = replace(DESIGN, features=replace(FEATURES, windows=()))
    facts = to_facts(old)
    assert "windows" not in facts["features"]
    assert from_facts(facts) == old


def test_what_was_released_without_windows_is_trained_on_as_before():
    spec, _, _ = planned()
    plan = training_plan(spec.generate, Shape(64), replace(FEATURES, windows=()))
    assert (plan.metric, plan.latent, plan.blocks_a_step, plan.batch) == ("plain", 10, 2, 500)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": ", windows: [0]"}, "windows lie between"),
        ({"method": ", windows: [2, 2]"}, "named twice"),
        ({"method": ", release: steps", "generate": ", judged: true"}, "judged needs `release: once`"),
        ({"method": ", release: steps", "generate": ", metric: whitened"}, "whitened needs `release: once`"),
        ({"method": ", release: steps, windows: [2]"}, "belong to `release: once`"),
        (
            {"method": ", windows: [2]", "column": "age: {type: integer, min: 0, max: 9}"},
            "records that are one picture",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(SpecError, match=message):
        planned(**changes)


def test_what_an_earlier_version_trained_without_windows_is_found_by_its_name():
    """The name of a training run has every fact of its plan; one that came later is none of a plain plan."""
    features = FeatureBlocks("key", 4, 8, (1.0,))
    design = EmbeddingDesign("once", features, 1, 2, 1.0, 3.0, Relation.ADD_REMOVE)
    released = ReleasedEmbedding(design, np.zeros((2, design.numbers), np.int64))
    earlier = {
        "released": hashlib.sha256(released.released.tobytes()).hexdigest(),
        "plan": {
            "architecture": "conv", "steps": 1500, "batch": 500, "rate": 2e-3, "latent": 10, "blocks_a_step": 2,
            "one_a_class": False, "device": "cpu",
        },
        "design": to_facts(design),
        "version": version("understudy"),
    }  # fmt: skip
    assert training_key(released, PLAIN) == hash_of(earlier)
    assert training_key(released, replace(PLAIN, metric="whitened")) != hash_of(earlier)

"""What is stored of a measured tree is read back as it was meant."""

from __future__ import annotations

import numpy as np

from tests.trees import clinic, domains_of
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.counting.shares import share_out
from understudy.pipelines.counting.tree.views import views_of
from understudy.pipelines.methods.tree.released import (
    TREE,
    numbers_name,
    released_tree,
    residual_name,
    tree_facts,
)
from understudy.pipelines.privacy.measurement import Measurement

TICKS = 12


def test_residuals_without_noise_give_back_the_counts_in_roots():
    spec = clinic()
    assert spec.tree is not None
    views = views_of(spec.tree, domains_of(spec))
    workloads = [share_out(view.asked, view.sizes, 1.0) for view in views]
    rng, arrays, pairs = np.random.default_rng(1), {}, []
    for number, (view, workload) in enumerate(zip(views, workloads, strict=True)):
        whole = TICKS * rng.integers(0, 5, view.sizes)  # every marginal of one table, so that they agree
        pairs.append([whole.sum(axis=tuple(set(range(whole.ndim)) - set(pair))) for pair in view.asked])
        for place, clique in enumerate(workload.measured):
            counts = whole.sum(axis=tuple(set(range(whole.ndim)) - set(clique)))
            arrays[residual_name(number, place)] = differences(counts.size * counts).reshape(-1)
    arrays[numbers_name("visits")] = TICKS * np.arange(4)
    stds = [[float(TICKS)] * len(workload.measured) for workload in workloads]
    facts = tree_facts(TICKS, views, [w.measured for w in workloads], stds, {"visits": 24.0}, "rounded")
    told = released_tree(Measurement(TREE, facts, arrays))
    assert [each.view for each in told.views] == list(views)
    assert told.rows_view("drugs").view == views[3]
    assert told.order_view("drugs") is None
    for each, exact in zip(told.views, pairs, strict=True):
        assert each.residuals.by_clique[()].std == 1.0
        for pair, counts in zip(each.view.asked, exact, strict=True):
            np.testing.assert_allclose(each.residuals.marginal(pair), counts / TICKS, atol=1e-6)
    assert told.numbers["visits"].tolist() == [0, 1, 2, 3]
    assert told.numbers_std == {"visits": 2.0}

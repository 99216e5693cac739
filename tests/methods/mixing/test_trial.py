"""Trying orders on public rows: nothing is charged, and an order that drowns in noise loses."""

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.mixing.trial import try_orders
from understudy.pipelines.spec.reading import parse_spec

SPEC = """
name: flowers
source: {uri: flowers.parquet, snapshot: "1"}
privacy: {account: garden, epsilon: 0.5, delta: 1e-6}
columns:
  a: {type: number, min: -4, max: 4}
  b: {type: number, min: -4, max: 4}
  c: {type: number, min: -4, max: 4, nullable: true}
  kind: {type: category, values: [rose, daisy]}
method: {name: mixing, label: kind, rows: 3000}
publish: {to: releases/}
"""


def test_a_sensible_order_beats_one_that_drowns_in_noise():
    """The classes differ in spread alone, which only mixtures, not the bought means, can tell."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["rose", "daisy"], 800)
    wide = np.where(kind == "rose", 1.6, 0.4)
    public = pa.table(
        {
            "kind": kind,
            "a": rng.normal(0, 1, 800) * wide,
            "b": rng.normal(0, 1, 800) * wide,
            "c": pa.array(rng.normal(0, 1, 800) * wide, mask=rng.random(800) < 0.1),
            "not in the spec": np.arange(800),
        }
    )
    spec = parse_spec(SPEC)
    good, drowned = try_orders(spec, public, [8, 512], seed=1)
    assert (good.order, drowned.order) == (8, 512)
    assert good.accuracy > 0.75
    assert good.accuracy > drowned.accuracy

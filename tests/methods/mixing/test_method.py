"""Mixing as a method: plan, purchases, tables in and out, and data that must not be able to make it fail."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pytest

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.mixing import design as design_module
from understudy.pipelines.methods.mixing import slices
from understudy.pipelines.methods.mixing.method import MixingMethod
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

SPEC = """
name: flowers
source: {{uri: flowers.parquet, snapshot: "1"}}
privacy: {{account: garden, epsilon: 1, delta: 1e-6{privacy}}}
columns:
  id: {{type: identifier, action: surrogate}}
  length: {{type: number, min: 0, max: 10, decimals: 2}}
  petals: {{type: integer, min: 0, max: 40, nullable: true}}
  seen: {{type: date, min: 2026-01-01, max: 2026-12-31}}
  kind: {{type: category, values: [rose, daisy], other: true}}
  {column}
method: {{name: mixing, label: kind, rows: 900, order: 8{method}}}
generate: {{{generate}}}
publish: {{to: releases/{publish}}}
"""
METHOD = MixingMethod()


@lru_cache(maxsize=32)
def planned(privacy="", column="", method="", publish="", generate=""):
    spec = parse_spec(SPEC.format(privacy=privacy, column=column, method=method, publish=publish, generate=generate))
    domain = TableDomain.of(spec)
    return spec, domain, METHOD.plan(spec, domain)


class Rows:
    def __init__(self, domain, *batches):
        self.domain, self.batches = domain, batches

    def record_batches(self):
        return iter(self.batches)

    def counts(self, cliques):
        raise AssertionError("mixing counts nothing exactly")


class Shop:
    """A purchase that draws for real and shelves what it sold."""

    def __init__(self, randomness):
        self.randomness, self.charges, self.bought, self.fetched = randomness, [], {}, []

    def __call__(self, charge, mechanism):
        assert mechanism.event == charge.event
        self.charges.append(charge)
        self.bought[charge.stage] = mechanism.draw(self.randomness)
        return replace(self.bought[charge.stage], stored=Shelf(self, charge.stage))


@dataclass(frozen=True)
class Shelf:
    """Where a shop keeps what it sold; it notes what is fetched."""

    shop: Shop
    stage: str

    def read(self):
        self.shop.fetched.append(self.stage)
        return self.shop.bought[self.stage]


def flowers(seed=0, count=900, kinds=("rose", "daisy", "weed")):
    rng = np.random.default_rng(seed)
    kind = rng.choice(kinds, count)
    rose = kind == "rose"
    return pa.record_batch(
        {
            "length": np.where(rose, 7.0, 3.0) + rng.normal(0, 0.7, count),
            "petals": np.where(rose, 30, 12) + rng.integers(-4, 5, count),
            "seen": np.datetime64("2026-05-01") + rng.integers(0, 60, count),
            "kind": kind,
        }
    )


def released(batch, seeded, **changes):
    spec, domain, plan = planned(**changes)
    shop = Shop(seeded(5))
    measured = METHOD.measure(Rows(domain, batch), spec, plan, shop)
    assert tuple(shop.charges) == plan.charges
    table = METHOD.generate(measured, spec, domain, None, lambda *_: None)
    return table, measured


def check_contract(table, rows):
    assert table.schema.names == ["id", "length", "petals", "seen", "kind"]
    assert table.schema.types == [pa.int64(), pa.float64(), pa.int64(), pa.date32(), pa.string()]
    assert table.num_rows == rows
    frame = table.to_pandas()
    assert frame["length"].between(0, 10).all()
    assert frame["petals"].between(0, 40).all()
    assert set(frame["kind"]) <= {"rose", "daisy", "other"}
    assert frame["id"].tolist() == list(range(1, rows + 1))
    return frame


def test_a_release_from_end_to_end(seeded):
    table, measured = released(flowers(), seeded)
    frame = check_contract(table, 900)
    assert frame["kind"].value_counts().to_dict() == {"rose": 300, "daisy": 300, "other": 300}
    means = frame.groupby("kind")["length"].mean()
    assert abs(means["rose"] - 7.0) < 1.0
    assert abs(means["daisy"] - 3.0) < 1.0
    _, domain, _ = planned()
    assert all(line.distance <= line.allowed for line in METHOD.agreement(Synthetic(table, domain), measured))
    json.dumps(dict(measured.facts))


def test_the_plan_is_public_and_within_budget():
    spec, _, plan = planned()
    json.dumps(plan.details)
    loss = composed_loss([charge.event for charge in plan.charges], 1e-6, Relation.ADD_REMOVE)
    assert loss.epsilon <= float(spec.privacy.epsilon)
    assert plan.details["epsilon_charged"] == pytest.approx(loss.epsilon)
    assert plan.details["epsilon_by_the_papers_theorem"] > loss.epsilon
    assert [charge.stage for charge in plan.charges] == ["class-statistics", "mixtures"]


def test_the_order_is_swept_and_the_table_kept(monkeypatch):
    monkeypatch.setattr(design_module, "ORDERS", (1, 8, 64))
    spec = parse_spec(
        SPEC.format(privacy="", column="", method="", publish="", generate="").replace("order: 8", "order: auto")
    )
    plan = METHOD.plan(spec, TableDomain.of(spec))
    table = plan.details["orders"]
    assert [line["order"] for line in table] == [1, 8, 64]
    assert plan.details["order"] == max(table, key=lambda line: line["signal_to_noise"])["order"]


@pytest.mark.parametrize(
    "batch",
    [
        flowers(count=0),
        flowers(count=3),  # every class below the order
        flowers(kinds=("daisy",)),  # two empty classes
        flowers(kinds=("never", "declared")),
        pa.record_batch(
            {
                "length": [np.nan, np.inf, -np.inf, 1e300, None],
                "petals": pa.array([None, 10**15, -5, 3, 0], pa.int64()),
                "seen": ["2026-02-30", "", None, "2026-03-01", "soon"],
                "kind": [None, "", "rose", "rose", "\x00"],
            }
        ),
    ],
    ids=["empty", "tiny", "one class", "undeclared", "malformed"],
)
@pytest.mark.parametrize("method", ["", ", sampler: fixed"], ids=["poisson", "fixed"])
def test_no_data_can_make_it_fail(batch, method, seeded):
    table, _ = released(batch, seeded, method=method)
    check_contract(table, 900)


@pytest.mark.parametrize("method", ["", ", sampler: fixed"], ids=["poisson", "fixed"])
@pytest.mark.parametrize(
    ("batch", "without"),
    [
        (flowers(), slice(0, 899)),
        (flowers(count=1), slice(0, 0)),  # a class that is no longer empty
        (flowers(count=8, kinds=("rose",)), slice(0, 7)),  # a class that reaches the order
        (flowers(count=3, kinds=("undeclared",)), slice(0, 2)),
    ],
    ids=["large", "empty", "below the order", "undeclared"],
)
def test_neighbours_take_the_same_path(method, batch, without, replayed):
    """One row less: the same purchases, the same calls for words, and the same shapes released."""
    spec, domain, plan = planned(method=method)
    results = []
    for rows in (batch, batch.slice(without.start, without.stop)):
        shop = Shop(replayed(6))
        measured = METHOD.measure(Rows(domain, rows), spec, plan, shop)
        results.append((shop.charges, len(shop.randomness.calls), {n: a.shape for n, a in measured.arrays.items()}))
    assert results[0] == results[1]


def test_long_releases_are_bought_slice_by_slice(monkeypatch, seeded):
    monkeypatch.setattr(design_module, "SLICE_NUMBERS", 3 * 3 * 110)
    spec, domain, _ = planned()
    plan = METHOD.plan(spec, domain)
    assert [charge.stage for charge in plan.charges][1:] == [f"mixtures-{n:05d}" for n in range(3)]
    loss = composed_loss([charge.event for charge in plan.charges], 1e-6, Relation.ADD_REMOVE)
    assert loss.epsilon <= 1
    shop = Shop(seeded(5))
    measured = METHOD.measure(Rows(domain, flowers()), spec, plan, shop)
    assert tuple(shop.charges) == plan.charges
    assert [len(measured.arrays[f"sums_{n:05d}"]) for n in range(3)] == [330, 330, 240]
    batches = list(METHOD.generate_batches(measured, spec, domain, 400, lambda *_: None))
    assert sum(batch.num_rows for batch in batches) == 400
    counts = pa.Table.from_batches(batches).to_pandas()["kind"].value_counts()
    assert counts.max() - counts.min() <= 1  # any prefix is balanced
    assert tuple(shop.charges) == plan.charges  # slices were fetched again, none was drawn again


def test_a_sliced_release_holds_one_slice_and_makes_the_same_table(monkeypatch, seeded):
    """Slices are re-read from where they were bought; a large table comes from disk and equals the one in memory."""
    monkeypatch.setattr(design_module, "SLICE_NUMBERS", 3 * 3 * 110)
    spec, domain, _ = planned()
    shop = Shop(seeded(5))
    measured = METHOD.measure(Rows(domain, flowers()), spec, METHOD.plan(spec, domain), shop)
    assert sorted(measured.arrays) == ["statistics", *(f"sums_{n:05d}" for n in range(3))]
    assert len(measured.arrays) == 4
    assert "labels_00000" not in measured.arrays
    in_memory = METHOD.generate(measured, spec, domain, None, lambda *_: None)
    assert shop.fetched == [f"mixtures-{n:05d}" for n in (0, 1, 2)] * 2  # once to learn the spread, once to restore
    monkeypatch.setattr(slices, "TABLE_BYTES", 100)
    on_disk = METHOD.generate(measured, spec, domain, None, lambda *_: None)
    assert on_disk.equals(in_memory)


def test_records_follow_noisy_sizes_and_never_exceed_what_is_charged(seeded):
    batch = flowers(kinds=("rose", "rose", "rose", "daisy"))
    _, measured = released(batch, seeded, method=", balance: sizes")
    counts = measured.facts["counts"]
    assert counts[0] > 2 * counts[1] > 0
    assert max(counts) <= measured.facts["design"]["per_class"] == 600


def test_records_of_each_class_and_public_sizes_may_be_given(seeded):
    sizes = ", centre: bounds, class_sizes: {rose: 300, daisy: 300, other: 300}"
    table, measured = released(
        flowers(),
        seeded,
        method=sizes + ", records: {rose: 50, daisy: 70, other: 30}",
        generate="denoise: none",
    )
    assert set(measured.arrays) == {"sums"}  # all of it is one charge, stored as it is
    assert table.to_pandas()["kind"].value_counts().to_dict() == {"rose": 50, "daisy": 70, "other": 30}


def test_denoising_is_chosen_after_the_measurement_and_for_free(seeded):
    """One measurement, one hash, any number of ways to make records of it."""
    plain, as_image = planned(generate="denoise: none")[0], planned(generate="image: [1, 3]")[0]
    spec, domain, plan = planned()
    assert spec.hash == plain.hash == as_image.hash
    measured = METHOD.measure(Rows(domain, flowers()), spec, plan, Shop(seeded(5)))
    lengths = []
    for each in (spec, plain, as_image):
        table = METHOD.generate(measured, each, domain, None, lambda *_: None)
        assert all(line.distance <= line.allowed for line in METHOD.agreement(Synthetic(table, domain), measured))
        lengths.append(check_contract(table, 900)["length"].to_numpy())
    assert not np.array_equal(lengths[0], lengths[1])
    assert not np.array_equal(lengths[0], lengths[2])


def test_bought_scales_and_label_noise(seeded):
    table, measured = released(flowers(), seeded, method=", scale: bought, label_noise: 0.6")
    frame = check_contract(table, 900)
    assert measured.arrays["labels_00000"].shape == (900,)
    assert frame["kind"].value_counts().max() > 300  # the paper's label noise spoils some labels


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": ", lable: x"}, "lable.*\n.*label, rows, records"),
        ({"privacy": ", relation: replace_one"}, "add_remove"),
        ({"privacy": ", unit: {entity: who, max_rows: 3}"}, "max_rows: 1"),
        ({"privacy": ", noise: opendp"}, "rounded"),
        ({"column": "soil: {type: category, values: [clay, sand]}"}, "soil"),
        ({"method": ", class_sizes: {rose: 1}"}, "missing: daisy, other"),
        ({"method": ", centre: {length: 1, petals: 2, sean: 3}"}, "sean"),
        ({"generate": "image: [2, 2]"}, "generate.image"),
        ({"generate": "image: [-1, -3]"}, "generate.image"),
        ({"method": ", denoise: none"}, "costs nothing.*\n.*generate: {denoise"),
        ({"method": ", image: [1, 3]"}, "costs nothing.*\n.*generate: {image"),
        ({"method": ", records: 0"}, "records"),
        ({"publish": ", rows: 901"}, "901"),
    ],
)
def test_a_wrong_spec_is_refused_by_name(changes, words):
    with pytest.raises(SpecError, match=words):
        planned(**changes)


def test_the_label_must_be_a_declared_category():
    text = SPEC.format(privacy="", column="", method="", publish="", generate="")
    for label, words in (("length", "not a category"), ("colour", "no modelled column")):
        spec = parse_spec(text.replace("label: kind", f"label: {label}"))
        with pytest.raises(SpecError, match=words):
            METHOD.plan(spec, TableDomain.of(spec))

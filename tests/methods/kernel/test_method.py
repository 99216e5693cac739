"""Kernel as a method: plans that read nothing, purchases, tables in and out, and data that cannot make it fail."""

import json

import numpy as np
import pyarrow as pa
import pytest

from tests.methods.kernel.conftest import Rows, Shop, planned, shapes
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.kernel import design as design_module
from understudy.pipelines.methods.kernel import options as options_module
from understudy.pipelines.methods.kernel.design import from_facts, to_facts
from understudy.pipelines.methods.kernel.method import KernelMethod
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.table.synthetic import Synthetic

METHOD = KernelMethod()
STEPS = ", release: steps, rate: 0.1, steps: 60"


def released(batch, seeded, rows=300, **changes):
    spec, domain, plan = planned(**changes)
    shop = Shop(seeded(5))
    measured = METHOD.measure(Rows(domain, *([batch] if batch.num_rows else [])), spec, plan, shop)
    assert tuple(shop.charges) == plan.charges
    table = METHOD.generate(measured, spec, domain, rows, lambda *_: None)
    return table, measured, domain


def check_contract(table, rows):
    assert table.schema.names == ["kind", "image"]
    assert table.schema.field("image").type == pa.list_(pa.uint8(), 16)
    assert table.num_rows == rows
    assert set(table["kind"].to_pylist()) <= {"dot", "bar", "other"}
    return np.stack(table["image"].to_numpy(zero_copy_only=False)).reshape(-1, 4, 4), table["kind"].to_numpy()


@pytest.mark.parametrize(
    ("method", "training"),
    [
        ("", ""),
        (STEPS, ""),
        (", windows: [1]", ""),
        ("", ", judged: true"),
        (", windows: [1]", ", judged: true"),
        (", edges: true", ""),
    ],
)
def test_a_release_from_end_to_end(seeded, method, training):
    generate = ", class_mix: {dot: 2, bar: 1}" + training
    table, measured, domain = released(shapes(), seeded, method=method, generate=generate)
    images, kinds = check_contract(table, 300)
    assert (kinds == "dot").sum() == 200
    json.dumps(dict(measured.facts))
    assert all(line.distance <= line.allowed for line in METHOD.agreement(Synthetic(table, domain), measured))
    if method != STEPS:
        corner = [images[kinds == kind][:, :2, :2].mean() for kind in ("dot", "bar")]
        assert corner[0] > corner[1] + 50


def test_rows_and_classes_default_to_what_was_released(seeded):
    table, _, _ = released(shapes(), seeded, rows=None)
    _, kinds = check_contract(table, table.num_rows)
    assert abs(table.num_rows - 400) < 60
    assert (kinds == "other").sum() == 0


def test_the_plan_is_public_and_within_budget():
    spec, _, plan = planned()
    json.dumps(plan.details)
    [charge] = plan.charges
    assert isinstance(charge.event, Gaussian)
    loss = composed_loss([charge.event], 1e-6, Relation.ADD_REMOVE)
    assert 0.999 * float(spec.privacy.epsilon) < loss.epsilon <= float(spec.privacy.epsilon)
    assert plan.details["epsilon_charged"] == loss.epsilon


def test_steps_are_charged_in_chunks_that_add_up_to_the_budget(monkeypatch):
    monkeypatch.setattr(design_module, "CHUNK_STEPS", 25)
    spec, _, plan = planned(method=STEPS + " ")  # a spelling of its own: plans are remembered
    assert [charge.stage for charge in plan.charges] == ["steps-00000", "steps-00001", "steps-00002"]
    assert [charge.event.count for charge in plan.charges] == [25, 25, 10]
    loss = composed_loss([charge.event for charge in plan.charges], 1e-6, Relation.ADD_REMOVE)
    assert 0.98 * float(spec.privacy.epsilon) < loss.epsilon <= float(spec.privacy.epsilon)


def test_the_schedule_is_chosen_by_predicted_error_and_shown():
    _, _, plan = planned(method=", release: steps, seconds: 2")
    table = plan.details["schedules"]
    assert [line["release"] for line in table] == ["once"] + ["steps"] * 6
    best = min(table[1:], key=lambda line: line["error"])
    assert plan.details["design"]["rate"] == best["rate"]
    assert plan.details["design"]["blocks"] == best["steps"]
    assert table[0]["error"] < best["error"]


def test_no_schedule_releases_more_than_memory_holds(monkeypatch):
    monkeypatch.setattr(options_module, "MAX_NUMBERS", 120_300)
    _, _, plan = planned(method=", release: steps, seconds: 3")
    assert plan.details["design"]["blocks"] == 100


def test_a_design_survives_its_facts():
    _, _, plan = planned(method=", bandwidths: [1, 2], smoothing: 0.3")
    design = from_facts(json.loads(json.dumps(plan.details["design"])))
    assert design.features.bandwidths == (1.0, 2.0)
    assert design.features.smoothing == 0.3
    assert to_facts(design) == plan.details["design"]


def test_public_class_sizes_save_their_share_of_the_noise():
    _, _, counted = planned()
    _, _, public = planned(method=", class_sizes: {dot: 200, bar: 200, other: 0}")
    assert public.noise[0].std < counted.noise[0].std
    assert [line.query for line in public.noise] == ["class embeddings"]


STRANGE = pa.record_batch(
    {
        "kind": pa.array(["never", None, "dot", "bar", "dot"]),
        "image": pa.array([[1.0] * 16, None, [np.nan] * 16, [1e300] * 16, [1.0, 2.0]], pa.list_(pa.float64())),
    }
)


@pytest.mark.parametrize("method", ["", STEPS])
@pytest.mark.parametrize(
    "batch",
    [
        shapes(0),
        shapes(1),
        shapes(kinds=("bar",)),  # two classes without a record
        shapes(kinds=("never", "declared")),
        shapes(4000),  # ten times the declared number
        STRANGE,
    ],
    ids=["empty", "one row", "one class", "undeclared", "ten times the rows", "unreadable"],
)
def test_no_data_can_make_it_fail(seeded, batch, method):
    table, measured, domain = released(batch, seeded, rows=50, method=method, generate=", class_mix: equal")
    check_contract(table, 50)
    METHOD.agreement(Synthetic(table, domain), measured)


def test_numeric_columns_without_a_label(seeded):
    columns = "size: {type: number, min: 0, max: 10}\n  born: {type: date, min: 2020-01-01, max: 2025-12-31}"
    spec, domain, plan = planned(column=columns)
    text = {"name": "kernel", "rows": 100, "frequencies": 50}
    spec = spec.model_copy(update={"method": type(spec.method)(**text)})
    spec = spec.model_copy(update={"columns": {k: v for k, v in spec.columns.items() if k in ("size", "born")}})
    domain = type(domain).of(spec)
    plan = METHOD.plan(spec, domain)
    rng = np.random.default_rng(0)
    batch = pa.record_batch(
        {"size": rng.normal(7, 1, 300), "born": np.datetime64("2024-01-01") + rng.integers(0, 9, 300)}
    )
    measured = METHOD.measure(Rows(domain, batch), spec, plan, Shop(seeded(1)))
    table = METHOD.generate(measured, spec, domain, 100, lambda *_: None)
    assert table.schema.types == [pa.float64(), pa.date32()]
    assert table["size"].to_numpy().mean() == pytest.approx(7, abs=1.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": ", bandwidths: [0]"}, "bandwidths lie between"),
        ({"method": ", rate: 0.1"}, "belong to `release: steps`"),
        ({"method": ", colour: red"}, "kernel knows"),
        ({"method": ", class_sizes: {dot: 1}"}, "one size for each class"),
        ({"privacy": ", noise: opendp"}, "rounded Gaussian"),
        ({"privacy": ", unit: {entity: who, max_rows: 2}", "method": STEPS}, "one row each"),
        ({"column": "sex: {type: category, values: [F, M]}"}, "not numeric: sex"),
        ({"generate": ", generator: conv"}, "28 or 32 pixels"),
        ({"method": ", release: steps, rate: 0.1, steps: 50000"}, "60,150,000 numbers would be released"),
        ({"generate": ", class_mix: {square: 1}"}, "no class is called square"),
    ],
)
def test_what_cannot_work_is_refused_before_a_row_is_read(changes, message):
    with pytest.raises(SpecError, match=message):
        planned(**changes)


def test_entities_of_several_rows_pay_with_noise():
    _, _, one = planned()
    _, _, three = planned(privacy=", unit: {entity: who, max_rows: 3}", column="who: {type: identifier}")
    assert three.noise[0].std == pytest.approx(3 * one.noise[0].std)
    assert three.charges == one.charges


def test_replaced_records_pay_with_noise():
    _, _, added = planned()
    _, _, replaced = planned(privacy=", relation: replace_one")
    assert replaced.noise[0].std == pytest.approx(2 * added.noise[0].std)

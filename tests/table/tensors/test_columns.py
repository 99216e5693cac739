"""Tensor columns in the spec, the domain, the schema check and the contract."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from tests.examples import SPEC
from tests.table.tensors.examples import picture_spec
from understudy.cli.planning import cautions
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.targets.base import check_target
from understudy.pipelines.sources.opening import check_columns
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.checks import TensorsWithin, Verdict, breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.tasks.engines.expectations import expectations_failed

DOMAIN = TableDomain.of(picture_spec())


def test_a_tensor_is_part_of_the_domain_but_no_coded_column():
    assert DOMAIN.tensors == (TensorDomain("image", (4, 3), 0.0, 255.0),)
    assert DOMAIN.names == ("label",)
    assert DOMAIN.sizes == (3,)
    assert DOMAIN.record_names == DOMAIN.published_names == ("label", "image")
    assert DOMAIN.tensors[0].size == 12
    assert DOMAIN.tensors[0].middle == 127.5


@pytest.mark.parametrize(
    ("shape", "is_picture"),
    [((4, 3), True), ((4, 3, 1), True), ((4, 3, 3), True), ((4, 3, 2), False), ((12,), False), ((1, 2, 3, 4), False)],
)
def test_which_shapes_are_pictures(shape, is_picture):
    assert TableDomain.of(picture_spec(shape)).tensors[0].is_picture is is_picture


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"shape": []}, "at least 1"),
        ({"shape": [1, 1, 1, 1, 1]}, "at most 4"),
        ({"shape": [0, 3]}, "greater than or equal to 1"),
        ({"shape": [300, 300]}, "at most 65,536 numbers"),
        ({"min": 5, "max": 5}, "must be below"),
        ({"max": float("inf")}, "finite|1e\\+30"),
        ({"max": 1e31}, "less than or equal"),
        ({"min": 1.0, "max": 1.0 + 1e-9}, "too close"),
        ({"min": 0, "max": 1e-44}, "too close"),
        ({"nullable": True}, "Extra inputs"),
    ],
)
def test_impossible_tensors_are_refused(column, message):
    tensor = {"type": "tensor", "shape": [2, 2], "min": 0, "max": 1, **column}
    with pytest.raises(ValidationError, match=message):
        picture_spec(columns={"image": tensor})


def test_only_kernel_copies_tensors_and_postgresql_takes_none():
    with pytest.raises(
        ValidationError, match=r"tensors \(image\) are copied by the method kernel only, not by privpgd"
    ):
        picture_spec(method={"name": "privpgd"})
    with pytest.raises(SpecError, match="publish to a directory"):
        check_target(picture_spec(publish={"to": "postgresql://me@host/db", "table": "t"}))
    with pytest.raises(ValidationError, match="cannot be modelled"):
        picture_spec(privacy={"account": "a", "epsilon": 1, "delta": 1e-6, "unit": {"entity": "image", "max_rows": 2}})
    rule = {"forbid": {"label": ["0"], "image": ["1"]}}
    with pytest.raises(ValidationError, match=r"generate\.rules"):
        picture_spec(generate={"rules": [rule]})


def test_a_misspelt_type_lists_tensor_among_the_valid_ones():
    with pytest.raises(SpecError, match="tensor"):
        parse_spec(SPEC.replace("type: boolean", "type: bolean"))


def test_other_spellings_of_one_range_have_one_hash():
    assert picture_spec(low=0, high=255).hash == picture_spec(low=0.0, high=255.0).hash
    assert picture_spec().hash != picture_spec((3, 4)).hash


def test_a_plan_does_not_warn_of_tensors():
    assert all("image" not in line for line in cautions(picture_spec()))


@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (pa.list_(pa.uint8(), 12), None),
        (pa.list_(pa.float64()), None),
        (pa.binary(), None),
        (
            pa.list_(pa.uint8(), 11),
            "'image' is declared a tensor of 12 numbers but the table holds lists of 11 numbers",
        ),
        (pa.string(), "but the table holds string"),
        (pa.list_(pa.list_(pa.uint8(), 3), 4), "lists of lists"),
    ],
)
def test_the_schema_check_judges_arrow_types(type_, message):
    schema = pa.schema([("image", type_), ("label", pa.string())])
    if message is None:
        check_columns(schema, picture_spec())
        return
    with pytest.raises(SpecError, match=message) as caught:
        check_columns(schema, picture_spec())
    assert "image" in caught.value.fix


def made(domain: TableDomain, rows: int = 30) -> pa.Table:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, rows) for size in domain.sizes], axis=1)
    return decode(codes, domain, rng, [rng.random((rows, tensor.size)) * 300 for tensor in domain.tensors])


def test_a_decoded_table_keeps_its_contract():
    table = made(DOMAIN)
    assert table.column_names == ["label", "image"]
    assert table.schema.field("image").type == pa.list_(pa.uint8(), 12)
    assert breaches(table, checks_of(contract_of(DOMAIN, 30))) == []
    with pytest.raises(ValueError, match="tensors"):
        decode(np.zeros((3, 1), int), DOMAIN, np.random.default_rng(0))


@pytest.mark.parametrize("failed", [breaches, expectations_failed])
def test_a_tensor_out_of_bounds_or_missing_fails_validation(failed: Verdict):
    domain = TableDomain.of(picture_spec(low=0, high=1.5))
    table, checks = made(domain), checks_of(contract_of(domain, None))
    assert failed(table, checks) == []
    rows = table["image"].to_pylist()
    for broken in ([2.0] * 12, [float("nan")] * 12, None):
        column = pa.array([broken, *rows[1:]], table["image"].type)
        assert failed(table.set_column(1, "image", column), checks) == [TensorsWithin("image", 0.0, 1.5)]
    shorter = pa.array([row[:6] for row in rows], pa.list_(pa.float32(), 6))
    [wrong] = failed(table.set_column(1, "image", shorter), checks)
    assert "type" in str(wrong)

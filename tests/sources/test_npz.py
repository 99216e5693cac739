"""Arrays of an .npz archive as columns; whatever is wrong with them shows before a row is read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.table.tensors.examples import picture_spec
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.opening import check_columns, open_source
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import read_tensor

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (50, 4, 3), dtype=np.uint8)
LABELS = RNG.integers(0, 3, 50)
SPEC = picture_spec()


def _source(base: Path, spec=SPEC, name: str = "t.npz"):
    return open_source(SourceSpec(uri=name, snapshot="s"), base, spec)


def _table(source, columns, batch_rows=7) -> pa.Table:
    return pa.Table.from_batches(list(source.read(columns, batch_rows)))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("images", [IMAGES, np.asfortranarray(IMAGES), IMAGES.astype(">f8"), IMAGES[:, ::-1]])
def test_arrays_are_columns(save, images, tmp_path):
    save(tmp_path / "t.npz", image=images, label=LABELS)
    source = _source(tmp_path)
    check_columns(source.schema(), SPEC)
    table = _table(source, ["label", "image"])
    assert table.column_names == ["label", "image"]
    np.testing.assert_array_equal(table["label"].to_numpy(), LABELS)
    tensor = TableDomain.of(SPEC).tensors[0]
    np.testing.assert_array_equal(read_tensor(table["image"], tensor), images.reshape(50, 12))
    assert source.row_estimate() == 50
    assert source.parts() is None


def test_it_is_read_in_batches_and_counted(tmp_path):
    np.savez(tmp_path / "t.npz", image=IMAGES, label=LABELS, who=np.arange(50) // 10)
    source = _source(tmp_path)
    assert [batch.num_rows for batch in source.read(["image"], 20)] == [20, 20, 10]
    counted = LocalTable(source, TableDomain.of(SPEC), Unit(), b"k").counts([(0,)])[0]
    np.testing.assert_array_equal(counted, np.bincount(LABELS))
    bounded = LocalTable(source, TableDomain.of(SPEC), Unit("who", 3), b"k")
    assert bounded.counts([(0,)])[0].sum() == 15
    kept = pa.Table.from_batches(list(bounded.record_batches()))
    assert kept.num_rows == 15


def test_every_plain_type_is_a_column(tmp_path):
    arrays = {
        "text": np.array(["ä", "longer", ""]),
        "old": np.array(["ä", "longer", ""]).astype(">U6"),
        "raw": np.array([b"a", b"bc", b""]),
        "truth": np.array([True, False, True]),
        "truths": np.array([[True, False]] * 3),
        "half": np.array([1, 2, 3], np.float16),
        "day": np.array(["2026-01-01", "NaT", "2026-01-03"], "M8[D]"),
        "far": np.array([2**40, -(2**40), 0], "M8[D]"),
        "moment": np.array(["2026-01-01T01:02:03", "NaT", "2026-01-03"], ">M8[ms]"),
    }
    np.savez(tmp_path / "t.npz", **arrays)
    source = _source(tmp_path, None)
    table = _table(source, list(arrays), batch_rows=2)
    assert table.schema.types == source.schema().types
    assert table["text"].to_pylist() == table["old"].to_pylist() == ["ä", "longer", ""]
    assert table["raw"].to_pylist() == [b"a", b"bc", b""]
    assert table["truths"].to_pylist() == [[1, 0]] * 3
    assert table["day"].null_count == table["moment"].null_count == 1
    assert str(table["moment"][0].as_py()) == "2026-01-01 01:02:03"


def test_text_that_is_no_text_does_not_fail(tmp_path):
    broken = np.frombuffer(np.array([0x110000, 0xD800, 65, 0], np.uint32).tobytes(), "U2")
    np.savez(tmp_path / "t.npz", a=broken)
    assert _table(_source(tmp_path, None), ["a"])["a"].to_pylist() == ["��", "A"]


def test_only_declared_arrays_must_agree(tmp_path):
    np.savez(tmp_path / "t.npz", image=IMAGES, label=LABELS, test=IMAGES[:7], note=np.array("x"), odd=np.zeros(3, "c8"))
    source = _source(tmp_path)
    check_columns(source.schema(), SPEC)
    assert source.schema().names == ["image", "label", "test"]
    with pytest.raises(SourceError, match="same number of rows"):
        list(source.read(["image", "test"]))
    with pytest.raises(SpecError, match="no column"):
        list(source.read(["note"]))


def test_what_is_wrong_is_found_by_schema(tmp_path):
    np.savez(tmp_path / "t.npz", image=IMAGES, label=LABELS[:-1])
    with pytest.raises(SourceError, match=r"arrays image, label of .*t\.npz do not have the same") as caught:
        _source(tmp_path).schema()
    assert "50" not in str(caught.value).replace(str(tmp_path), "")
    np.savez(tmp_path / "t.npz", image=IMAGES, label=np.array([{"a": 1}] * 50, object))
    with pytest.raises(SourceError, match=r"'label' of .* holds Python objects"):
        _source(tmp_path).schema()
    np.savez(tmp_path / "t.npz", image=np.zeros((50, 4, 3), complex), label=LABELS)
    with pytest.raises(SourceError, match=r"'image' of .* is of a type"):
        _source(tmp_path).schema()
    np.savez(tmp_path / "t.npz", label=LABELS)
    with pytest.raises(SpecError, match="no column 'image'"):
        check_columns(_source(tmp_path).schema(), SPEC)
    np.savez(tmp_path / "t.npz", image=IMAGES[:, :3], label=LABELS)
    with pytest.raises(SpecError, match="lists of 9 numbers"):
        check_columns(_source(tmp_path).schema(), SPEC)
    with pytest.raises(SourceError, match="no file"):
        _source(tmp_path, name="nowhere.npz").schema()


def test_damaged_archives_are_source_errors(tmp_path):
    np.savez(tmp_path / "t.npz", image=IMAGES, label=LABELS)
    whole = (tmp_path / "t.npz").read_bytes()
    for damage in (b"", b"not a zip", whole[: len(whole) // 2]):
        (tmp_path / "t.npz").write_bytes(damage)
        with pytest.raises(SourceError, match=r"t\.npz"):
            _source(tmp_path).schema()
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, IMAGES)
    for content, message in ((buffer.getvalue()[:-5], "not complete"), (b"nonsense" * 20, "header")):
        with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            archive.writestr("image.npy", content)
        with pytest.raises(SourceError, match=message):
            _source(tmp_path).schema()
    np.savez(tmp_path / "t.npz", image=np.tile(IMAGES, (500, 1, 1)), label=np.tile(LABELS, 500))
    flipped = bytearray((tmp_path / "t.npz").read_bytes())
    flipped[250_000] ^= 0xFF
    (tmp_path / "t.npz").write_bytes(flipped)
    source = _source(tmp_path)
    source.schema()
    with pytest.raises(SourceError, match="complete"):
        list(source.read(["image", "label"]))


def test_no_rows_are_no_rows(tmp_path):
    np.savez(tmp_path / "t.npz", image=IMAGES[:0], label=LABELS[:0])
    source = _source(tmp_path)
    check_columns(source.schema(), SPEC)
    assert list(source.read(["image", "label"])) == []

"""The idx format: images with the labels of the file beside them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.table.tensors.examples import picture_spec
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.opening import check_columns, open_source
from understudy.pipelines.spec.source import SourceSpec

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 4, 3), dtype=np.uint8)
LABELS = np.arange(30, dtype=np.uint8) % 3
CODES = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}


def idx(array: np.ndarray) -> bytes:
    code = CODES[array.dtype.str[1:]]
    sizes = np.array(array.shape, ">u4").tobytes()
    return bytes([0, 0, code, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


def _source(base: Path, name: str):
    return open_source(SourceSpec(uri=name, snapshot="s"), base)


def _read(source, columns) -> pa.Table:
    return pa.Table.from_batches(list(source.read(columns, 7)))


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("stem", ["train-{}-{}-ubyte", "t10k-{}.{}-ubyte"])
def test_images_and_labels(ending, stem, tmp_path):
    for name, axes, array in (("images", "idx3", IMAGES), ("labels", "idx1", LABELS)):
        data = idx(array)
        (tmp_path / (stem.format(name, axes) + ending)).write_bytes(gzip.compress(data) if ending else data)
    source = _source(tmp_path, stem.format("images", "idx3") + ending)
    check_columns(source.schema(), picture_spec())
    table = _read(source, ["label", "image"])
    np.testing.assert_array_equal(table["label"].to_numpy(), LABELS)
    np.testing.assert_array_equal(np.array(table["image"].to_pylist()), IMAGES.reshape(30, 12))
    assert source.row_estimate() == 30
    assert _read(source, ["label"]).num_rows == 30


def test_labels_may_be_missing_or_packed_differently(tmp_path):
    (tmp_path / "images-idx3-ubyte").write_bytes(idx(IMAGES))
    assert _source(tmp_path, "images-idx3-ubyte").schema().names == ["image"]
    with pytest.raises(SpecError, match="no column 'label'"):
        check_columns(_source(tmp_path, "images-idx3-ubyte").schema(), picture_spec())
    (tmp_path / "labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(LABELS)))
    assert _read(_source(tmp_path, "images-idx3-ubyte"), ["label"])["label"].to_pylist() == LABELS.tolist()


@pytest.mark.parametrize("kind", CODES)
def test_every_type_of_number(kind, tmp_path):
    (tmp_path / "x-idx2-int").write_bytes(idx(np.array([[1, 2], [3, 100]], kind)))
    assert _read(_source(tmp_path, "x-idx2-int"), ["image"])["image"].to_pylist() == [[1, 2], [3, 100]]


@pytest.mark.parametrize("data", [b"", b"\0\0\x08", b"PAR1" * 9, idx(IMAGES)[:-1], idx(IMAGES) + b"x", b"\0\0\x07\x01"])
def test_damaged_files_are_found_by_schema(data, tmp_path):
    (tmp_path / "images-idx3-ubyte").write_bytes(data)
    with pytest.raises(SourceError, match="images-idx3-ubyte"):
        _source(tmp_path, "images-idx3-ubyte").schema()


def test_other_mistakes(tmp_path):
    (tmp_path / "images-idx3-ubyte").write_bytes(idx(IMAGES))
    (tmp_path / "labels-idx1-ubyte").write_bytes(idx(LABELS[:-1]))
    with pytest.raises(SourceError, match="one label for each"):
        _source(tmp_path, "images-idx3-ubyte").schema()
    with pytest.raises(SpecError, match="no pictures"):
        _source(tmp_path, "labels-idx1-ubyte").schema()
    with pytest.raises(SourceError, match="nowhere"):
        _source(tmp_path, "nowhere-images-idx3-ubyte").schema()
    (tmp_path / "labels-idx1-ubyte").unlink()
    (tmp_path / "images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES))[:-40])
    source = _source(tmp_path, "images-idx3-ubyte.gz")
    with pytest.raises(SourceError, match="complete"):
        list(source.read(["image"]))

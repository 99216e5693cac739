"""A folder of pictures: bad ones become nulls and no picture changes how another is read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.table.tensors.examples import picture_spec
from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.files.image_folder import ImageFolderSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.sources.opening import check_columns, open_source
from understudy.pipelines.spec.source import SourceSpec

GREY = np.random.default_rng(0).integers(0, 256, (4, 3), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (4, 3, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for label in ("2", "0", "1", ".hidden"):
        (tmp_path / "p" / label).mkdir(parents=True)
    Image.fromarray(GREY).save(tmp_path / "p" / "0" / "b.png")
    Image.fromarray(COLOUR).save(tmp_path / "p" / "0" / "a.PNG")
    Image.fromarray(GREY.T.copy()).save(tmp_path / "p" / "1" / "a.png")
    (tmp_path / "p" / "1" / "b.jpg").write_bytes(b"no picture")
    Image.fromarray(GREY).save(tmp_path / "p" / "1" / "c.png")
    (tmp_path / "p" / "1" / "c.png").write_bytes((tmp_path / "p" / "1" / "c.png").read_bytes()[:50])
    Image.fromarray(COLOUR).save(tmp_path / "p" / "2" / "a.jpeg", quality=100)
    (tmp_path / "p" / "2" / "notes.txt").write_text("not a picture")
    Image.fromarray(GREY).save(tmp_path / "p" / ".hidden" / "a.png")
    return tmp_path


def _source(base: Path, shape=(4, 3)):
    return open_source(SourceSpec(uri="p/", snapshot="s"), base, picture_spec(shape))


def _read(source, columns=("image", "label"), batch_rows=2) -> pa.Table:
    return pa.Table.from_batches(list(source.read(list(columns), batch_rows)))


def test_pictures_in_order_with_the_folder_as_label(folder):
    source = _source(folder)
    assert isinstance(source, ImageFolderSource)
    check_columns(source.schema(), picture_spec())
    table = _read(source)
    assert table["label"].to_pylist() == ["0", "0", "1", "1", "1", "2"]
    assert [image is None for image in table["image"].to_pylist()] == [False, False, True, True, True, False]
    assert table["image"][1].as_py() == GREY.reshape(-1).tolist()
    assert table["image"][0].as_py() == np.asarray(Image.fromarray(COLOUR).convert("L")).reshape(-1).tolist()
    assert source.row_estimate() == 6
    assert _read(source, ["label"]).num_rows == 6


@pytest.mark.parametrize(("shape", "mode"), [((4, 3, 1), "L"), ((4, 3, 3), "RGB"), ((4, 3, 4), "RGBA")])
def test_pictures_take_the_declared_channels(folder, shape, mode):
    table = _read(_source(folder, shape))
    assert table["image"].type.list_size == np.prod(shape)
    assert table["image"][0].as_py() == np.asarray(Image.fromarray(COLOUR).convert(mode)).reshape(-1).tolist()


def test_another_declared_size_makes_other_nulls(folder):
    images = _read(_source(folder, (3, 4)))["image"].to_pylist()
    assert [image is None for image in images] == [True, True, False, True, True, True]


def test_the_first_picture_decides_nothing(folder):
    before = _read(_source(folder))["image"].to_pylist()
    Image.fromarray(np.zeros((9, 9), np.uint8)).save(folder / "p" / "0" / "a.PNG")
    after = _read(_source(folder))["image"].to_pylist()
    assert after[0] is None
    assert after[1:] == before[1:]


def test_odd_modes_and_hostile_files_do_not_fail(folder, recwarn):
    one = folder / "p" / "0"
    Image.fromarray(GREY).convert("P").save(one / "d.png", transparency=b"\0\1")
    Image.fromarray(GREY.astype(np.uint16) * 200).save(one / "e.png")
    Image.fromarray(GREY > 100).save(one / "f.png")
    Image.fromarray(GREY).save(one / "g.gif")
    os.rename(one / "g.gif", one / "g.png")  # a format that is not named is not parsed
    huge = Image.new("1", (20_000, 20_000))
    huge.save(one / "h.png")
    images = _read(_source(folder))["image"].to_pylist()
    assert [image is None for image in images[:7]] == [False, False, False, False, False, True, True]
    assert not recwarn.list


def test_names_that_are_no_text_do_not_fail(folder):
    os.mkdir(os.fsencode(folder / "p") + b"/\xff\xfe")
    Image.fromarray(GREY).save(
        os.path.join(os.fsencode(folder / "p"), b"\xff\xfe", b"a.png").decode(errors="surrogateescape")
    )
    assert _read(_source(folder))["label"].to_pylist()[-1] == "??"


def test_directories_of_parquet_stay_parquet(folder):
    pq.write_table(pa.table({"a": [1]}), folder / "p" / "0" / "rows.parquet")
    assert isinstance(_source(folder), ParquetSource)
    (folder / "empty").mkdir()
    assert isinstance(open_source(SourceSpec(uri="empty", snapshot="s"), folder), ParquetSource)


def test_a_spec_without_a_fitting_tensor_is_refused(folder):
    with pytest.raises(SpecError, match="shape"):
        _source(folder, (12,)).schema()
    undeclared = open_source(SourceSpec(uri="p", snapshot="s"), folder)
    with pytest.raises(SpecError, match="no column 'image'"):
        check_columns(undeclared.schema(), picture_spec())
    with pytest.raises(SpecError, match="no column"):
        _read(_source(folder), ["who"])

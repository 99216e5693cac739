"""Grids of synthetic pictures, each as one small PNG. Drawn from the synthetic rows and the public domain only."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.pipelines.table.tensors import read_tensor

COLUMNS = 10
UNLABELLED_ROWS = 5
MOST_LABELS = 20
THUMBNAIL = 64
GAP = 2


@dataclass(frozen=True)
class SampleGrid:
    """`labels` name the rows of the grid, from the top; none if the table has no category column."""

    png: bytes
    labels: tuple[str, ...]
    width: int
    height: int
    cell: int
    rows: int
    gap: int = GAP

    @property
    def data_uri(self) -> str:
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, eq=False)
class PictureClass:
    """The rows of a table that have one label; all rows, without a label, where there is none."""

    label: str
    rows: np.ndarray


def picture_column(synthetic: pa.Table, domain: TableDomain) -> TensorDomain | None:
    """The first tensor that can be shown; None without one, without rows, or where columns are missing."""
    tensor = next((tensor for tensor in domain.tensors if tensor.is_picture), None)
    whole = synthetic.num_rows and {*domain.record_names} <= {*synthetic.column_names}
    return tensor if whole else None  # validation says what is missing


def picture_classes(synthetic: pa.Table, domain: TableDomain) -> tuple[PictureClass, ...]:
    """By the first column that can be a label, in its order; without the classes that have no row."""
    label = next((column for column in domain.columns if column.kind in ("category", "boolean")), None)
    if label is None:
        return (PictureClass("", np.arange(synthetic.num_rows)),)
    codes = encode_column(synthetic.column(label.name), label)
    present = np.unique(codes)[:MOST_LABELS].tolist()
    return tuple(PictureClass(_label_text(label, code), np.flatnonzero(codes == code)) for code in present)


def sample_grid(
    synthetic: pa.Table, domain: TableDomain, columns: int = COLUMNS, thumbnail: int = THUMBNAIL
) -> SampleGrid | None:
    """The first pictures of each label, `columns` a row; None if the table has no tensor that can be shown."""
    tensor = picture_column(synthetic, domain)
    if tensor is None:
        return None
    classes = picture_classes(synthetic, domain)
    if classes[0].label:
        chosen, labels = [one.rows[:columns] for one in classes], tuple(one.label for one in classes)
    else:
        first = classes[0].rows[: columns * UNLABELLED_ROWS]
        chosen, labels = [first[start : start + columns] for start in range(0, len(first), columns)], ()
    return picture_grid(synthetic.column(tensor.name), tensor, chosen, columns, thumbnail, labels)


def picture_grid(
    pictures: pa.ChunkedArray,
    tensor: TensorDomain,
    chosen: Sequence[np.ndarray],
    columns: int,
    thumbnail: int = THUMBNAIL,
    labels: tuple[str, ...] = (),
) -> SampleGrid:
    """A row of the grid for each of `chosen`, which says what pictures it shows.

    A picture larger than `thumbnail` pixels is made smaller; none is made larger.
    """
    from PIL import Image

    shown = [thumbnails(picture_numbers(pictures, rows, tensor), thumbnail) for rows in chosen]
    height, width, channels = shown[0].shape[1:]
    canvas = np.zeros((len(shown) * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), np.uint8)
    drawn = np.zeros(canvas.shape[:2], np.uint8)
    for row, line in enumerate(shown):
        for column, picture in enumerate(line):
            top, left = row * (height + GAP), column * (width + GAP)
            canvas[top : top + height, left : left + width] = picture
            drawn[top : top + height, left : left + width] = 255
    image = Image.fromarray(canvas[:, :, 0] if channels == 1 else canvas)
    image.putalpha(Image.fromarray(drawn))  # between them the page is seen, which may be dark
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return SampleGrid(file.getvalue(), labels, image.width, image.height, width, len(shown))


def picture_numbers(pictures: pa.ChunkedArray, rows: np.ndarray, tensor: TensorDomain) -> np.ndarray:
    """Numbers of shape (rows, height, width, channels), 0 at the low bound and 1 at the high one."""
    numbers = read_tensor(pictures.take(pa.array(rows)), tensor)
    numbers -= np.float32(tensor.low)
    numbers /= np.float32(tensor.high - tensor.low)
    np.clip(numbers, 0.0, 1.0, out=numbers)
    shape = tensor.shape if len(tensor.shape) == 3 else (*tensor.shape, 1)
    return numbers.reshape(len(rows), *shape)


def thumbnails(numbers: np.ndarray, thumbnail: int) -> np.ndarray:
    """Bytes of shape (rows, height, width, channels), no side longer than `thumbnail`."""
    pixels: np.ndarray = np.rint(numbers * 255).astype(np.uint8)
    high, wide, channels = pixels.shape[1:]
    factor = thumbnail / max(high, wide)
    if factor >= 1:
        return pixels
    size = (max(1, round(wide * factor)), max(1, round(high * factor)))
    from PIL import Image

    images = [Image.fromarray(p[:, :, 0] if channels == 1 else p) for p in pixels]
    smaller = [np.asarray(image.resize(size, Image.Resampling.BOX)) for image in images]
    return np.stack(smaller).reshape(len(pixels), size[1], size[0], channels)


def _label_text(label: DomainColumn, code: int) -> str:
    return f"{label.name} {label.code_labels()[code]}"

"""A grid of synthetic pictures as one small PNG. Drawn from the synthetic rows and the public domain only."""

from __future__ import annotations

import base64
import io
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


def sample_grid(
    synthetic: pa.Table, domain: TableDomain, columns: int = COLUMNS, thumbnail: int = THUMBNAIL
) -> SampleGrid | None:
    """The first pictures of each label, `columns` a row; None if the table has no tensor that can be shown.

    A picture larger than `thumbnail` pixels is made smaller; none is made larger.
    """
    tensor = next((tensor for tensor in domain.tensors if tensor.is_picture), None)
    if tensor is None or not synthetic.num_rows or not {*domain.record_names} <= {*synthetic.column_names}:
        return None  # validation says what is missing
    from PIL import Image

    chosen, labels = _chosen(synthetic, domain, columns)
    shown = [_pictures(synthetic.column(tensor.name), rows, tensor, thumbnail) for rows in chosen]
    height, width, channels = shown[0].shape[1:]
    canvas = np.full((len(shown) * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), 255, np.uint8)
    for row, pictures in enumerate(shown):
        for column, picture in enumerate(pictures):
            top, left = row * (height + GAP), column * (width + GAP)
            canvas[top : top + height, left : left + width] = picture
    image = Image.fromarray(canvas[:, :, 0] if channels == 1 else canvas)
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return SampleGrid(file.getvalue(), labels, image.width, image.height, width, len(shown))


def _chosen(synthetic: pa.Table, domain: TableDomain, columns: int) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Which table rows each row of the grid shows, and its label."""
    label = next((column for column in domain.columns if column.kind in ("category", "boolean")), None)
    if label is None:
        first = np.arange(min(synthetic.num_rows, columns * UNLABELLED_ROWS))
        return [first[start : start + columns] for start in range(0, len(first), columns)], ()
    codes = encode_column(synthetic.column(label.name), label)
    by_code = [np.flatnonzero(codes == code)[:columns] for code in range(label.size)]
    present = [code for code, rows in enumerate(by_code) if len(rows)][:MOST_LABELS]
    return [by_code[code] for code in present], tuple(_label_text(label, code) for code in present)


def _label_text(label: DomainColumn, code: int) -> str:
    return f"{label.name} {label.code_labels()[code]}"


def _pictures(column: pa.ChunkedArray, rows: np.ndarray, tensor: TensorDomain, thumbnail: int) -> np.ndarray:
    """Bytes of shape (rows, height, width, channels), black at the low bound and white at the high one."""
    numbers = read_tensor(column.take(pa.array(rows)), tensor).astype(np.float64)
    shares = (numbers - tensor.low) / (tensor.high - tensor.low)
    shape = tensor.shape if len(tensor.shape) == 3 else (*tensor.shape, 1)
    pixels = np.rint(np.clip(shares, 0.0, 1.0) * 255).astype(np.uint8).reshape(len(rows), *shape)
    factor = thumbnail / max(shape[:2])
    if factor >= 1:
        return pixels
    size = (max(1, round(shape[1] * factor)), max(1, round(shape[0] * factor)))
    from PIL import Image

    images = [Image.fromarray(p[:, :, 0] if shape[2] == 1 else p) for p in pixels]
    smaller = [np.asarray(image.resize(size, Image.Resampling.BOX)) for image in images]
    return np.stack(smaller).reshape(len(rows), size[1], size[0], shape[2])

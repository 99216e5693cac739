"""A folder of pictures, one sub-folder a class: columns `image` and `label`, the sub-folder's name.

The shape comes from the spec and never from the files: were it that of the first picture, one record could change what
is read of all others. A picture of another size, or one that cannot be read, is null; another mode is converted to the
declared channels. Files are taken in order of name.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.pinning import FilePin, state_of
from understudy.pipelines.table.tensors import BATCH_BYTES

ENDINGS = (".png", ".jpg", ".jpeg")
_HIDDEN = (".", "_")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def is_image_folder(path: Path) -> bool:
    """Whether a sub-folder holds a picture and nothing below is a Parquet file, which would make it a table."""
    try:
        if not path.is_dir() or not any(True for folder in _folders(path) for _ in _pictures(folder)):
            return False
    except OSError:
        return False  # whatever reads it next says what is wrong
    return not any(name.endswith((".parquet", ".pq")) for _, _, names in os.walk(path) for name in names)


@dataclass(frozen=True)
class ImageFolderSource(SourceBase):
    """`shape` is that of the tensor the spec declares as `image`, or None if it declares none."""

    path: Path
    shape: tuple[int, ...] | None

    def schema(self) -> pa.Schema:
        if not self.path.is_dir():
            raise SourceError(f"there is no folder {self.path}", "check source.uri; relative paths start at the spec")
        fields = [("label", pa.string())]
        if self.shape is not None:
            height, width, channels = self._picture
            fields.insert(0, ("image", pa.list_(pa.uint8(), height * width * channels)))
        return pa.schema(fields)

    def row_estimate(self) -> int | None:
        return len(self._files)

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        schema = self.schema()
        absent = [name for name in columns if name not in schema.names]
        if absent:
            raise SpecError(
                f"the table has no column(s) {', '.join(absent)}", "a folder has `image`, a tensor, and `label`"
            )
        rows = batch_rows
        if "image" in columns:
            rows = max(1, min(batch_rows, BATCH_BYTES // schema.field("image").type.list_size))
        for start in range(0, len(self._files), rows):
            files = self._files[start : start + rows]
            found = [self._images(files) if name == "image" else _labels(files) for name in columns]
            yield pa.RecordBatch.from_arrays(found, names=list(columns))

    def snapshot_id(self) -> str:
        return self._state

    @cached_property
    def _state(self) -> str:
        return state_of(self._files)

    def _images(self, files: Sequence[tuple[str, FilePin]]) -> pa.Array:
        height, width, channels = self._picture
        pixels = np.zeros((len(files), height, width, channels), np.uint8)
        unread = np.zeros(len(files), np.bool_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's would tell of single pictures
            for row, (_, pin) in enumerate(files):
                with pin.unchanged():
                    found = _decoded(pin.path, height, width, channels)
                unread[row] = found is None
                if found is not None:
                    pixels[row] = found
        size = height * width * channels
        return pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), size, mask=pa.array(unread))

    @property
    def _picture(self) -> tuple[int, int, int]:
        shape = self.shape or ()
        if len(shape) == 2:
            return shape[0], shape[1], 1
        if len(shape) == 3 and shape[2] in _MODES:
            return shape[0], shape[1], shape[2]
        raise SpecError(
            "a folder of pictures needs `image` with the shape [height, width] or [height, width, 1, 3 or 4]",
            "correct the shape in the spec",
        )

    @cached_property
    def _files(self) -> tuple[tuple[str, FilePin], ...]:
        """Sub-folder and file of every picture, in order."""
        try:
            return tuple(
                (folder.name, FilePin.of(folder / name))
                for folder in _folders(self.path)
                for name in sorted(_pictures(folder))
            )
        except OSError as error:
            raise SourceError(f"cannot list {self.path}: {error.strerror}", "check source.uri") from None


def _decoded(path: Path, height: int, width: int, channels: int) -> np.ndarray | None:
    """The picture's bytes, or None. Only the two formats named are parsed, whatever a file claims to be."""
    from PIL import Image

    try:
        with Image.open(path, formats=("PNG", "JPEG")) as picture:
            if picture.size != (width, height):
                return None
            return np.asarray(picture.convert(_MODES[channels])).reshape(height, width, channels)
    except Exception:  # a picture that makes the reader fail in any way is a null, or the failure would be an output
        return None


def _labels(files: Sequence[tuple[str, FilePin]]) -> pa.Array:
    # A name that is no text is still a name: what cannot be spelled becomes a question mark.
    return pa.array([folder.encode(errors="replace").decode() for folder, _ in files], pa.string())


def _folders(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(_HIDDEN))


def _pictures(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(ENDINGS) and not entry.name.startswith(_HIDDEN) and entry.is_file():
                yield entry.name

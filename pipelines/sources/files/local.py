"""A file or folder of this machine, read as what its name and content say it is."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import Source, SourceBase
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.files.csv_folder import CsvFolderSource, csv_files
from understudy.pipelines.sources.files.csv_naming import require_named_csv
from understudy.pipelines.sources.files.idx import IdxSource, is_idx
from understudy.pipelines.sources.files.image_folder import ImageFolderSource, is_image_folder
from understudy.pipelines.sources.files.npz import NpzSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.address import Terms
from understudy.pipelines.spec.columns import TensorColumn
from understudy.pipelines.spec.dialect import COMMAS
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


class LocalFiles(SourceBase):
    """The kind `file`: each format is a source of its own."""

    terms = Terms(local=True, options=frozenset({"quoted_newlines", "csv"}))

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> Source:
        path = source.address.path(base)
        assert path is not None
        if path.name.startswith("*.") and source.names_csv:
            return CsvFolderSource(path.parent, path.name[1:].lower(), source.quoted_newlines, source.csv)
        if _holds_csv(path):
            if spec is not None:
                require_named_csv(spec)
            return CsvFolderSource(path, None, source.quoted_newlines, source.csv)
        if source.quoted_newlines and not source.names_csv:
            raise SpecError("source.quoted_newlines is for CSV files", "remove source.quoted_newlines")
        if source.csv != COMMAS and not source.names_csv:
            raise SpecError("source.csv is for CSV files", "remove source.csv")
        if path.exists() and not path.is_file() and not path.is_dir():
            problem = f"{path} is a pipe or a device, not a file"
            raise SourceError(problem, "name a file: both passes over it read it anew")
        if source.names_csv:
            return CsvSource(path, source.quoted_newlines, source.csv)
        if path.suffix.lower() == ".npz":
            return NpzSource(path, frozenset(_declared(spec)) if spec else None)
        if is_idx(path):
            return IdxSource(path)
        if is_image_folder(path):
            image = spec.columns.get("image") if spec else None
            return ImageFolderSource(path, image.shape if isinstance(image, TensorColumn) else None)
        if path.suffix.lower() in (".parquet", ".pq") or path.is_dir() or not path.suffix:
            return ParquetSource(path)
        raise SpecError(
            f"source.uri {source.uri!r} is not a file this version reads",
            "use Parquet, .csv, .csv.gz, .csv.zst, .npz or idx files, or a folder of Parquet files, CSV files or "
            "pictures; or the address of a database",
        )


def _holds_csv(path: Path) -> bool:
    """Whether it is a folder of CSV files; beside Parquet files they are not looked at."""
    if not path.is_dir() or is_image_folder(path):
        return False
    return bool(csv_files(path)) and not any(path.rglob("*.parquet"))


def _declared(spec: ReleaseSpec) -> list[str]:
    """Every column that a release may have to read."""
    others = (spec.privacy.unit.entity, spec.rolling.column if spec.rolling else None)
    read = (name for name in spec.columns if name not in spec.derived)
    return [*read, *(name for name in others if name is not None)]

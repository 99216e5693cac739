"""Folders of CSV or of Parquet files, as the sources read them (`sources/files`): one table, whose catalogue is that of
one file and the names of the folders that are columns. What such a folder says of the column's value is data, and is
not looked at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.files.csv_folder import csv_files
from understudy.pipelines.sources.files.hive import constants_of, shared
from understudy.pipelines.spec.source import CSV_SUFFIXES


def named_files(path: Path) -> list[Path] | None:
    """The CSV files that `folder/*.csv` (or packed ones) names, in order of name; None if it is no such name."""
    suffix = path.name[1:].lower()
    if not path.name.startswith("*.") or suffix not in CSV_SUFFIXES:
        return None
    found = csv_files(path.parent, suffix) if path.parent.is_dir() else []
    if not found:
        raise SpecError(f"the folder {path.parent} holds no {suffix} file", "check the path")
    return found


def parquet_files(folder: Path) -> list[Path]:
    """In order of name; hidden ones are none."""
    hidden = (".", "_")
    return [
        file
        for file in sorted(folder.rglob("*.parquet"))
        if file.is_file() and not any(part.startswith(hidden) for part in file.relative_to(folder).parts)
    ]


def named_by_folders(folder: Path, files: list[Path], held: list[str]) -> list[str]:
    """Columns that every file's path names and the files do not hold."""
    schema = pa.schema([(name, pa.string()) for name in held])
    return shared([constants_of(file.relative_to(folder).parts[:-1], schema) for file in files])

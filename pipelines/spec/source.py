"""Where the private table is and which state of it is meant."""

from __future__ import annotations

from pydantic import Field, field_validator

from understudy.pipelines.spec.address import Address, check_address
from understudy.pipelines.spec.dialect import COMMAS, CsvDialect
from understudy.pipelines.spec.public import Public

CSV_SUFFIXES = (".csv", ".csv.gz", ".csv.zst")
THE_TABLE = "table"
"""The snapshot that is whichever version the table has when a run begins."""
_VERSION = f"{THE_TABLE}@"


class SourceSpec(Public):
    uri: str = Field(
        description="duckdb:///file.duckdb, postgresql://user@host/database, delta:///folder, iceberg://catalogue, a "
        "Parquet or CSV file or directory, or one in an object store (s3://bucket/path); "
        "for tensors also an .npz or idx file, or a folder of pictures",
        max_length=2000,
    )
    table: str | None = Field(None, description="table or view name, where the source is a database", max_length=200)
    snapshot: str = Field(
        min_length=1,
        max_length=200,
        description="names the state of the data; a new one is a new, charged release; {{ month }} is filled in; "
        "`table`: the version that a Delta or Iceberg table has when the run begins",
    )
    rows_are_public: bool = Field(
        False,
        description="you declare that the number of rows is no secret; `plan` then reads it from the source's metadata",
    )
    quoted_newlines: bool = Field(
        False,
        description="CSV: a quoted field may hold line breaks. A stray quote then joins rows up to the next quote, so "
        "declare it only of files that a program wrote; without it every line is a row of its own",
    )

    csv: CsvDialect = Field(
        COMMAS,
        description="CSV: how the file is written, where it is not commas, quotes and UTF-8",
        exclude_if=lambda dialect: dialect == COMMAS,
    )

    id: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$",
        description="names the data itself, wherever it lies: a measurement then belongs to this name and not to a "
        "path or server, and is found again after a move. Two sources never share an id",
    )
    external: bool = Field(
        False,
        description="DuckDB: a view may read files and other databases; whoever can write those then decides what is "
        "measured",
    )

    @field_validator("uri")
    @classmethod
    def _public_address(cls, uri: str) -> str:
        return check_address(uri, "source.uri")

    @property
    def address(self) -> Address:
        return Address.parse(self.uri, "source.uri", self.table)

    @property
    def names_csv(self) -> bool:
        """Whether the address itself says that lines of CSV files are read: `t.csv`, `folder/*.csv.gz`."""
        return self.uri.lower().endswith(CSV_SUFFIXES)

    @property
    def version(self) -> str | None:
        """The version that the snapshot names, for sources whose tables have versions."""
        return self.snapshot.removeprefix(_VERSION) if self.snapshot.startswith(_VERSION) else None

    def at_version(self, version: str) -> SourceSpec:
        return self.model_copy(update={"snapshot": f"{_VERSION}{version}"})

"""A target inside its source, or around it, is refused before anything is read; by command line, then case by case."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

from tests.examples import SPEC
from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.apart import require_apart
from understudy.pipelines.spec.reading import parse_spec

Run = Callable[..., Result]
DUCKDB = 'uri: "duckdb:///clinic.duckdb", table: visits'


def in_parquet(place: Clinic, to: str, snapshot: str = "2026-10") -> Path:
    """The clinic as a folder of Parquet files, published to `to`."""
    folder = place.folder / "visits"
    if not folder.exists():
        folder.mkdir()
        with duckdb.connect(str(place.folder / "clinic.duckdb"), read_only=True) as connection:
            connection.execute(f"COPY visits TO '{folder / 'part.parquet'}'")
    return place.write((DUCKDB, "uri: visits"), ("to: releases/", f"to: {to}"), ('"2026-10"', f'"{snapshot}"'))


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("to", ["visits/releases", "visits", ".", "link/releases"])
def test_a_target_inside_or_around_its_source_is_refused(clinic: Clinic, run: Run, to: str) -> None:  # noqa: F811
    """On 7b5a274 all are charged and published; the next snapshot reads the published files as the source's own."""
    (clinic.folder / "link").symlink_to(clinic.folder / "visits")
    for command in ("plan", "release"):
        refused = run(command, in_parquet(clinic, to))
        assert refused.exit_code == 2, refused.output
        assert "lies inside" in refused.output
    assert clinic.charges == []
    assert not list(clinic.folder.rglob("manifest.json"))


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_link_inside_the_source_does_not_lead_to_the_target(clinic: Clinic, run: Run) -> None:  # noqa: F811
    first = run("release", in_parquet(clinic, "out"))
    assert first.exit_code == 0, first.output
    (clinic.folder / "visits" / "more").symlink_to(clinic.folder / "out")
    refused = run("release", in_parquet(clinic, "out", "2026-11"))
    assert refused.exit_code == 2, refused.output
    assert len(clinic.charges) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_what_was_paid_for_before_is_still_published(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    spec = in_parquet(clinic, "visits/releases")
    with monkeypatch.context() as old:
        old.setattr("understudy.tasks.preflight.require_apart", lambda spec, base: None)
        assert run("release", spec).exit_code == 0
    shutil.rmtree(clinic.folder / "visits" / "releases")
    again = run("release", spec)
    assert again.exit_code == 0, again.output
    assert "spent      nothing" in again.output


@pytest.mark.parametrize(
    ("source", "to", "apart"),
    [
        ("s3://lake/visits", "s3://lake/visits/synthetic", False),
        ("s3://lake/visits/2026", "s3://lake/visits/", False),
        ("s3://lake/visits/", "s3://lake//visits", False),
        ("s3://lake/visits", "s3://lake/visits-synthetic", True),
        ("s3://lake/visits", "s3://other/visits", True),
        ("s3://lake/visits", "gs://lake/visits", True),
        ("abfs://lake@one.dfs.core.windows.net/visits", "abfs://lake/visits/out", False),
        ("s3://lake/visits", "lake/visits", True),
        ("visits", "visits-synthetic", True),
        ("visits.csv", "releases", True),
        ("private/visits.csv", "private", False),
        ("visits", "duckdb:///visits/out.duckdb", False),
        ("visits", "duckdb:///out.duckdb", True),
        ("duckdb:///private/clinic.duckdb", "private/releases", True),
        ("duckdb:///private/clinic.duckdb", "private", False),
        ("duckdb:///clinic.duckdb", "duckdb:///clinic.duckdb", True),
        ("postgresql://me@host/db", "releases", True),
    ],
)
def test_places_are_apart(tmp_path: Path, source: str, to: str, apart: bool) -> None:
    table = ", table: visits" if source.startswith(("duckdb", "postgresql")) else ""
    text = SPEC.replace(DUCKDB, f'uri: "{source}"{table}').replace("to: releases/", f'to: "{to}", table: copy')
    spec = parse_spec(text)
    if apart:
        require_apart(spec, tmp_path)
    else:
        with pytest.raises(SpecError, match="lies inside"):
            require_apart(spec, tmp_path)

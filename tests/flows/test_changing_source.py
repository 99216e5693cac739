"""A release whose file changes while it is counted ends with one message, and nothing is charged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from understudy.pipelines.sources import bounding

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_nothing_is_charged_for_a_file_that_changed(
    ending: str, clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clinic.folder / f"visits.{ending}"
    with duckdb.connect(clinic.folder / "clinic.duckdb") as connection:
        connection.execute(f"COPY visits TO '{path}' (FORMAT {ending})")
    clinic.write(('uri: "duckdb:///clinic.duckdb", table: visits', f"uri: {path.name}"))
    gather = bounding._gather

    def gathering(*arguments: Any) -> Any:
        found = gather(*arguments)
        with path.open("ab") as file:
            file.write(b"P7,7,7,F,7,2026-01-07,A,true\n" * 9)
        gather(*arguments)  # as the next pass would
        return found

    with monkeypatch.context() as patch:
        patch.setattr(bounding, "_gather", gathering)
        refused = run("release", clinic.spec)
    assert refused.exit_code == 1, refused.output
    assert f"visits.{ending} changed while it was read; nothing was spent" in refused.output
    assert clinic.charges == []
    assert clinic.releases == []
    if ending == "csv":
        assert run("release", clinic.spec).exit_code == 0
        assert len(clinic.charges) == 1

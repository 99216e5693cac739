"""Generating: synthetic rows from what was bought. Post-processing, so it may be repeated for ever."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import Progress
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.synthetic import Synthetic


def generate_rows(
    measured: Measurement,
    planned: Planned,
    generators: Path | None,
    rows: int | None = None,
    progress: Progress = lambda done, steps, note: None,
) -> Synthetic:
    """`rows` rows, by default as many as the spec says; `generators` is where a half-trained generator may wait."""
    wanted = rows_wanted(rows, planned)
    table = planned.method.generate(measured, planned.spec, planned.domain, wanted, progress, generators)
    return Synthetic(finished(table, planned.domain, measured.facts.get("types")), planned.domain)


def rows_wanted(rows: int | None, planned: Planned) -> int | None:
    """None: as many as were measured."""
    if rows is None:
        return planned.spec.publish.rows
    if rows < 1:
        raise SpecError(f"{rows} rows cannot be made", "ask for at least one")
    return rows

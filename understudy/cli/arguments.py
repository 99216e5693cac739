"""What several commands take."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

SPEC = click.argument("spec", type=click.Path(path_type=Path))
AT = click.option("--at", type=click.DateTime(), metavar="DATE", help="The time that fills in {{ month }} [now].")


def with_zone(at: datetime | None) -> datetime | None:
    return at and at.replace(tzinfo=UTC)

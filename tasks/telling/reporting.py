"""What an operator sees while a release runs: a progress artifact, a terminal bar, and public tables as artifacts."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

from prefect.artifacts import (
    create_image_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from understudy.pipelines.methods.base import MethodPlan, Progress
from understudy.pipelines.privacy.events import describe
from understudy.pipelines.privacy.ledger.ledger import Balance
from understudy.pipelines.privacy.stating import left_text, spent_text
from understudy.pipelines.publishing.samples import sample_grid
from understudy.pipelines.publishing.summary import markdown_summary, verdict_rows
from understudy.pipelines.publishing.targets.base import Published, address_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree
from understudy.tasks.telling.advancing import Advancing
from understudy.tasks.telling.stages import ORDER, listen

SECONDS_BETWEEN_UPDATES = 2.0
MOST_ROWS = 200
SAMPLE_PIXELS = 32
MOST_IMAGE_CHARACTERS = 250_000


def artifact_key(*parts: str) -> str:
    """Prefect accepts lower-case letters, digits and dashes only."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")


@contextmanager
def progress_of(title: str, key: str) -> Iterator[Progress]:
    """A progress callback that feeds a Prefect artifact and, on a terminal, a bar."""
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    artifact = cast(UUID, create_progress_artifact(progress=0.0, key=key, description=title))
    console = Console(stderr=True)
    columns = (
        TextColumn("  {task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    last_sent = time.monotonic()
    advancing = Advancing(title)
    with Bars(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as bars:
        bar = bars.add_task(title, total=1.0, note="")

        def report(done: int, steps: int, note: str) -> None:
            nonlocal last_sent
            share = done / max(1, steps)
            bars.update(bar, completed=share, note=note)
            advancing.at(note or f"{share:.0%}")
            if time.monotonic() - last_sent >= SECONDS_BETWEEN_UPDATES:
                last_sent = time.monotonic()
                update_progress_artifact(artifact, progress=100 * share, description=f"{title}: {note}")

        yield report
    update_progress_artifact(artifact, progress=100.0, description=f"{title}: done")


@contextmanager
def stages_reported(name: str) -> Iterator[None]:
    """How far a release is, by the stages that are done, as a progress artifact `<name>-stages`."""
    artifact = cast(UUID, create_progress_artifact(0.0, key=artifact_key(name, "stages"), description=f"{name}: begun"))

    def show(doing: str) -> None:
        if doing in ORDER:
            share = 100 * ORDER.index(doing) / len(ORDER)
            update_progress_artifact(artifact, progress=share, description=f"{name}: {doing}")

    stop = listen(show)
    try:
        yield
    finally:
        stop()
    update_progress_artifact(artifact, progress=100.0, description=f"{name}: published")


def report_plan(spec: ReleaseSpec, plan: MethodPlan[Any]) -> None:
    rows: list[dict[str, Any]] = [
        {"query": line.query, "numbers": line.numbers, "noise std": round(line.std, 4)}
        for line in plan.noise[:MOST_ROWS]
    ]
    create_table_artifact(
        rows,
        key=artifact_key(spec.name, "plan"),
        description=f"What {spec.name} will measure ({len(plan.noise)} queries) and the noise of each",
    )


def report_samples(spec: ReleaseSpec, synthetic: Made) -> None:
    """A few synthetic pictures as an image artifact, if there are any; small, since Prefect's database keeps it."""
    if isinstance(synthetic, SyntheticTree):
        return  # several tables hold no pictures
    for columns in (10, 5, 2):
        grid = sample_grid(synthetic.shown, synthetic.domain, columns, SAMPLE_PIXELS)
        if grid is None:
            return
        if len(grid.data_uri) <= MOST_IMAGE_CHARACTERS:
            rows = f"; rows from the top: {', '.join(grid.labels)}" if grid.labels else ""
            create_image_artifact(
                grid.data_uri,
                key=artifact_key(spec.name, "samples"),
                description=f"Synthetic pictures of {spec.name}{rows}",
            )
            return


def report_card(spec: ReleaseSpec, published: Published) -> None:
    """What the card says first. No link: a browser opens no file for a page of a server, and no table of a database."""
    create_markdown_artifact(
        markdown_summary(published.manifest, address_of(published, spec.publish.address), published.card),
        key=artifact_key(spec.name, "card"),
        description="What was published, how good it is, and how to open its card",
    )
    if rows := verdict_rows(published.manifest):
        create_table_artifact(
            rows[:MOST_ROWS],
            key=artifact_key(spec.name, "verdict"),
            description=f"What columns and pairs of {spec.name} are good for, the worst first",
        )


def report_spend(spec: ReleaseSpec, plan: MethodPlan[Any], balances: Sequence[Balance], notes: Sequence[str]) -> None:
    """The spend of this run and the balance after it of every account that paid, as one page in the orchestrator."""
    charges = "\n".join(f"- `{charge.stage}`: {describe(charge.event)}" for charge in plan.charges)
    happened = "\n".join(f"- {note}" for note in notes)
    table = "\n".join(
        f"| {balance.account.name} | {spent_text(balance.spent.epsilon)} | {balance.account.cap.epsilon} "
        f"| {left_text(balance.left)} | {balance.charges} | {balance.burnt} |"
        for balance in balances
    )
    create_markdown_artifact(
        f"# Privacy spend of {spec.name}, snapshot {spec.source.snapshot}\n\n{charges}\n\n{happened}\n\n"
        f"| account | spent | cap | left | charges | burnt |\n|---|---|---|---|---|---|\n"
        f"{table}\n",
        key=artifact_key(spec.name, "spend"),
        description="What was spent and what is left, as the account's filter counts all its releases",
    )

"""A person's yes before anything is published, where the spec asks for it.

The run pauses with the rows it would publish in memory, so what is approved is what is published. If nobody answers,
the run fails, nothing is published, and running it again costs nothing.
"""

from __future__ import annotations

from prefect.artifacts import create_markdown_artifact
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run

from understudy.pipelines.errors import PublishError
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic import Synthetic
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.reporting import artifact_key

WAIT_SECONDS = 24 * 3600
POLL_SECONDS = 5
MOST_LINES = 20


def await_approval(
    spec: ReleaseSpec, synthetic: Synthetic, agreements: list[Agreement], approved: bool, books: Books
) -> None:
    if spec.publish.approval != "required":
        return
    if not approved:
        _ask(spec, synthetic, agreements)
    how = "said yes with the command" if approved else "resumed the paused run"
    books.ledger.record_approval(spec.privacy.account, spec.name, spec.source.snapshot, how)


def _ask(spec: ReleaseSpec, synthetic: Synthetic, agreements: list[Agreement]) -> None:
    rows = synthetic.table.num_rows
    create_markdown_artifact(
        review(spec, rows, agreements),
        key=artifact_key(spec.name, "review"),
        description="What waits for approval. Resume the run to publish it, cancel the run to refuse it.",
    )
    announce("publish.waiting", spec.privacy.account, release=spec.name, snapshot=spec.source.snapshot, rows=rows)
    try:
        pause_flow_run(timeout=WAIT_SECONDS, poll_interval=POLL_SECONDS)
    except FlowPauseTimeout:
        raise PublishError(
            f"nobody approved {spec.name!r}, snapshot {spec.source.snapshot!r}, in time",
            "run it again when somebody can look: the measurement is kept and nothing is spent",
        ) from None


def review(spec: ReleaseSpec, rows: int, agreements: list[Agreement]) -> str:
    """The page a person reads before saying yes: public values only."""
    worst = sorted(agreements, key=lambda each: each.distance / max(each.allowed, 1e-12), reverse=True)[:MOST_LINES]
    lines = "\n".join(f"| {each.query} | {each.distance:.4g} | {each.allowed:.4g} |" for each in worst)
    return (
        f"# {spec.name}, snapshot {spec.source.snapshot}: publish?\n\n"
        f"{rows:,} rows by {spec.method.name}, epsilon {spec.privacy.epsilon} at delta {spec.privacy.delta}, "
        f"protecting {spec.privacy.protected_unit}. The contract holds.\n\n"
        f"Furthest from what was measured:\n\n| query | distance | its noise allows |\n|---|---|---|\n{lines}\n"
    )

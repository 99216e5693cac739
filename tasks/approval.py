"""A person's yes before anything is published, where the spec asks for it.

The run pauses with the rows it would publish in memory, so what is approved is what is published. If nobody answers,
the run fails, nothing is published, and running it again costs nothing. Yes is said in one of three ways, and never by
a parameter of the run: by resuming it; with a token signed by an approver, where the operator's policy lists any; or,
where it lists none, by the person at the terminal that runs the command (`said_yes`, in this process only).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.artifacts import create_markdown_artifact
from prefect.exceptions import FlowPauseTimeout
from prefect.flow_runs import pause_flow_run
from prefect.input import RunInput

from understudy.pipelines.errors import PublishError
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.publishing.targets.base import release_id
from understudy.pipelines.releasing.approving import Approval
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.policy import Policy
from understudy.pipelines.releasing.tokens import approver_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic_tree import Made
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.reporting import artifact_key

WAIT_SECONDS = 24 * 3600
POLL_SECONDS = 5
MOST_LINES = 20


class Answer(RunInput):
    """What a paused run takes where approvers sign."""

    token: str = ""


_people: list[str] = []


@contextmanager
def said_yes(person: str) -> Iterator[None]:
    """This person, at the terminal of this very process, approves what it releases."""
    _people.append(person)
    try:
        yield
    finally:
        _people.remove(person)


def await_approval(
    spec: ReleaseSpec, synthetic: Made, agreements: list[Agreement], approval: Approval, books: Books
) -> None:
    if spec.publish.approval != "required":
        return
    approvers = Policy.from_environment().approvers
    if _people and not approvers:
        how = f"{_people[-1]} said yes at a terminal"
    else:
        how = _ask(spec, synthetic, agreements, release_id(spec, approval.mids), approvers)
    books.ledger.record_approval(spec.privacy.account, spec.name, spec.source.snapshot, how)
    announce("publish.approved", spec.privacy.account, release=spec.name, snapshot=spec.source.snapshot, how=how)


def _ask(
    spec: ReleaseSpec, synthetic: Made, agreements: list[Agreement], identity: str, approvers: dict[str, str]
) -> str:
    """Pause until somebody answers; who it was, as far as that is known."""
    rows = synthetic.rows
    create_markdown_artifact(
        review(spec, rows, agreements, identity),
        key=artifact_key(spec.name, "review"),
        description="What waits for approval. Resume the run to publish it, cancel the run to refuse it.",
    )
    announce("publish.waiting", spec.privacy.account, release=spec.name, snapshot=spec.source.snapshot, rows=rows)
    try:
        if not approvers:
            pause_flow_run(timeout=WAIT_SECONDS, poll_interval=POLL_SECONDS)
            return "resumed the paused run"
        answer = pause_flow_run(timeout=WAIT_SECONDS, poll_interval=POLL_SECONDS, wait_for_input=Answer)
    except FlowPauseTimeout:
        raise PublishError(
            f"nobody approved {spec.name!r}, snapshot {spec.source.snapshot!r}, in time",
            "run it again when somebody can look: the measurement is kept and nothing is spent",
        ) from None
    person = approver_of(answer.token, approvers, identity, spec.hash)
    if person is None:
        raise PublishError(
            f"the run was resumed without the token of an approver for {identity}",
            f"run it again, which is free; answer with understudy approve {identity} {spec.hash} --key KEY --run ID",
        )
    return f"token signed by {person}"


def review(spec: ReleaseSpec, rows: int, agreements: list[Agreement], identity: str) -> str:
    """The page a person reads before saying yes: public values only."""
    worst = sorted(agreements, key=lambda each: each.distance / max(each.allowed, 1e-12), reverse=True)[:MOST_LINES]
    lines = "\n".join(f"| {each.query} | {each.distance:.4g} | {each.allowed:.4g} |" for each in worst)
    return (
        f"# {spec.name}, snapshot {spec.source.snapshot}: publish?\n\n"
        f"Release `{identity}`, spec `{spec.hash}`.\n\n"
        f"{rows:,} rows by {spec.method.name}, epsilon {spec.privacy.epsilon} at delta {spec.privacy.delta}, "
        f"protecting {spec.protects}. The contract holds.\n\n"
        f"Furthest from what was measured:\n\n| query | distance | its noise allows |\n|---|---|---|\n{lines}\n"
    )

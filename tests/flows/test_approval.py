"""Approval is a person's act or an approver's signature, never a parameter; a deployment's run keeps to its spec."""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests import trees
from tests.cli.test_serve import serving
from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from understudy.cli.site import Approvals, Site
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.releasing.policy import pin_of
from understudy.pipelines.releasing.tokens import approver_of, sign_approval
from understudy.pipelines.spec.reading import load_spec
from understudy.tasks.approval import review

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
TOKEN = "t" * 32
APPROVED = ("{to: releases/}", "{to: releases/, approval: required}")


def new_key(path: Path) -> str:
    """The secret half in that file; the public half, as a policy lists it."""
    secret = Ed25519PrivateKey.generate()
    path.write_bytes(
        secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    public = secret.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def test_no_parameter_of_a_flow_approves() -> None:
    """On 7b5a274 both flows have `approved`, and `prefect deployment run --param approved=true` publishes."""
    from understudy.flows.release import release
    from understudy.flows.scheduled import scheduled_release

    for flow in (release, scheduled_release):
        assert not [name for name in inspect.signature(flow.fn).parameters if "approv" in name or "token" in name]
    with pytest.raises(Exception, match="approved"):
        scheduled_release(template={}, approved=True)  # type: ignore[call-arg]


def test_yes_is_said_at_a_terminal(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    clinic.write(APPROVED)
    refused = run("release", clinic.spec, "--approve")  # as from cron: nobody is there
    assert refused.exit_code == 2
    assert "nobody at a terminal" in refused.output
    assert clinic.charges == []
    monkeypatch.setattr("understudy.cli.releasing.at_a_terminal", lambda: True)
    assert run("release", clinic.spec, "--approve").exit_code == 0
    assert len(clinic.releases) == 1


def test_a_token_is_for_one_release_and_by_one_person(tmp_path: Path) -> None:
    approvers = {"alice": new_key(tmp_path / "alice"), "bob": new_key(tmp_path / "bob")}
    new_key(tmp_path / "eve")
    token = sign_approval(tmp_path / "bob", "2026-10-1", "hash")
    assert approver_of(token, approvers, "2026-10-1", "hash") == "bob"
    assert approver_of(token, approvers, "2026-10-2", "hash") is None
    assert approver_of(token, approvers, "2026-10-1", "other") is None
    assert approver_of(sign_approval(tmp_path / "eve", "2026-10-1", "hash"), approvers, "2026-10-1", "hash") is None
    for junk in ("", "a", token[:-8], "é", token.swapcase()):
        assert approver_of(junk, approvers, "2026-10-1", "hash") is None
    with pytest.raises(SpecError, match="cannot read"):
        sign_approval(tmp_path / "none", "2026-10-1", "hash")


def test_what_waits_for_approval_says_whom_it_protects() -> None:
    page = review(trees.clinic(), 10, [], "2026-10-1")
    assert "protecting one of patients with everything attributed to it. The contract holds." in page


def paused_run(worker: threading.Thread) -> Any:
    from prefect import get_client
    from prefect.client.schemas.filters import FlowRunFilter

    paused = FlowRunFilter(state={"type": {"any_": ["PAUSED"]}}, name={"any_": ["clinic-visits 2026-10"]})  # type: ignore[arg-type]
    with get_client(sync_client=True) as client:
        found: list[Any] = []
        while worker.is_alive() and not found:
            found = client.read_flow_runs(flow_run_filter=paused)
    return found[0]


@pytest.fixture
def approvers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A policy that lists alice, whose key is in a file of her name."""
    import understudy.tasks.approval as approval

    monkeypatch.setattr(approval, "POLL_SECONDS", 0.2)
    listed = {"alice": new_key(tmp_path / "alice")}
    (tmp_path / "policy.yaml").write_text(json.dumps({"approvers": listed}))
    monkeypatch.setenv("UNDERSTUDY_POLICY", str(tmp_path / "policy.yaml"))
    return listed


def answered(clinic: Clinic, answer: Callable[[Any], None]) -> Any:  # noqa: F811
    """What comes of a release that waits for approval once `answer` was given its paused run."""
    from understudy.flows.release import release

    ended: list[Any] = []

    def releasing() -> None:
        try:
            ended.append(release(load_spec(clinic.spec), clinic.folder))
        except PublishError as error:
            ended.append(error)

    worker = threading.Thread(target=releasing)
    worker.start()
    answer(paused_run(worker))
    worker.join()
    return ended.pop()


def test_where_approvers_are_listed_only_their_tokens_publish(
    clinic: Clinic, run: Run, tmp_path: Path, approvers: dict[str, str], monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    from prefect import get_client

    from understudy.pipelines.publishing.targets.base import release_id

    monkeypatch.setattr("understudy.cli.approving.prepare", lambda workspace: None)
    monkeypatch.setattr("understudy.cli.releasing.at_a_terminal", lambda: True)
    spec = load_spec(clinic.write(APPROVED))
    assert "lists approvers" in run("release", clinic.spec, "--approve").output

    def resume(found: Any) -> None:
        with get_client(sync_client=True) as client:
            client.resume_flow_run(found.id)

    refused = answered(clinic, resume)
    assert "without the token of an approver" in str(refused)
    assert clinic.releases == []
    identity = release_id(spec, (clinic.charges[0].mid,))

    def sign(found: Any) -> None:
        said = run("approve", identity, spec.hash, "--key", tmp_path / "alice", "--run", found.id)
        assert said.exit_code == 0, said.output

    assert answered(clinic, sign).manifest.release_id == identity
    assert len(clinic.releases) == len(clinic.charges) == 1


def test_a_paused_run_goes_on_by_the_form_that_is_served(
    clinic: Clinic, tmp_path: Path, approvers: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    """A real run, a real Prefect server, a real server of pages: what a team does that has `understudy serve`."""
    from understudy.cli.approving import resumed
    from understudy.pipelines.publishing.targets.base import release_id

    spec = load_spec(clinic.write(APPROVED))
    told: list[int] = []

    def fill_in(found: Any) -> None:
        identity = release_id(spec, (clinic.charges[0].mid,))
        signature = sign_approval(tmp_path / "alice", identity, spec.hash)
        right = {"token": TOKEN, "run": str(found.id), "release_id": identity, "spec_hash": spec.hash}
        with serving(Site([], approvals=Approvals(TOKEN, approvers, resumed))) as server:
            wrong = ({"signature": "nothing"}, {"signature": signature, "token": "u" * 32})
            told.extend(server.ask("/approvals", "POST", urlencode({**right, **change})).status for change in wrong)
            assert clinic.releases == []
            done = server.ask("/approvals", "POST", urlencode({**right, "signature": signature}))
            assert "Approved by alice" in done.text
            told.append(done.status)

    published = answered(clinic, fill_in)
    assert told == [403, 403, 200]
    assert published.manifest.release_id == release_id(spec, (clinic.charges[0].mid,))
    assert len(clinic.releases) == len(clinic.charges) == 1


def test_a_run_keeps_to_the_spec_its_deployment_is_for(
    clinic: Clinic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    """On 7b5a274 the second run publishes a spec that nobody deployed."""
    from prefect import get_client
    from prefect.flow_engine import run_flow

    from understudy.cli.deploying import Options, deploy, read
    from understudy.flows.scheduled import scheduled_release

    deployable = read(clinic.spec)
    told = deploy([deployable], Options())
    assert any(pin_of(deployable.template) in line for line in told)

    def executed(**parameters: Any) -> Any:
        with get_client(sync_client=True) as client:
            found = client.read_deployment_by_name("scheduled-release/clinic-visits")
            made = client.create_flow_run_from_deployment(found.id, parameters=parameters)
            asked = client.read_flow_run(made.id).parameters
        return run_flow(scheduled_release, flow_run=made, parameters=asked)

    other = {**deployable.template, "publish": {"to": str(tmp_path / "elsewhere")}}
    with pytest.raises(SpecError, match="another spec or directory"):
        executed(template=other)
    with pytest.raises(SpecError, match="another spec or directory"):
        executed(base=str(tmp_path))
    policy = tmp_path / "policy.yaml"
    policy.write_text(json.dumps({"specs": [pin_of(other)]}))
    monkeypatch.setenv("UNDERSTUDY_POLICY", str(policy))
    with pytest.raises(SpecError, match="does not list this spec"):
        executed()
    assert clinic.charges == []
    policy.write_text(json.dumps({"specs": [pin_of(deployable.template)]}))
    assert executed().manifest.name == "clinic-visits"
    assert len(clinic.releases) == 1

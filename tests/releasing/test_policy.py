"""The operator's policy: what it allows, what no spec takes for itself, and that an unreadable one allows nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.examples import SPEC
from tests.flows.conftest import Clinic, clinic, run  # noqa: F401  fixtures
from tests.releasing.test_apart import in_parquet
from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.policy import Policy, pin_of, scheduler_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec

Run = Callable[..., Result]
DASK = SPEC + "compute: {engine: dask, scheduler: 'tcp://127.0.0.1:8786'}\n"


def policy(folder: Path, text: str, **more: str) -> Policy:
    path = folder / "policy.yaml"
    path.write_text(text)
    return Policy.from_environment({"UNDERSTUDY_POLICY": str(path), **more})


def publishing_to(to: str) -> ReleaseSpec:
    return parse_spec(SPEC.replace("to: releases/", f'to: "{to}", table: copy'))


@pytest.mark.usefixtures("prefect_server")
def test_a_spec_cannot_choose_who_computes(clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """On 7b5a274 the release connects to whatever scheduler its spec names, and runs what that sends."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        in_parquet(clinic, "releases")
        clinic.spec.write_text(clinic.spec.read_text() + f"compute: {{engine: dask, scheduler: '{address}'}}\n")
        refused = run("release", clinic.spec)
        assert refused.exit_code == 2, refused.output
        assert f"UNDERSTUDY_DASK_SCHEDULER={address}" in refused.output
        with pytest.raises(TimeoutError):
            listening.accept()  # nobody came
    assert clinic.charges == []


def test_a_scheduler_needs_the_operators_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_DASK_SCHEDULER", raising=False)
    spec = parse_spec(DASK)
    for refused in (Policy(), policy(tmp_path, "schedulers: ['tcp://127.0.0.1:1']")):
        with pytest.raises(SpecError, match="has not allowed"):
            scheduler_of(spec, refused)
    listed = policy(tmp_path, "schedulers: ['tcp://127.0.0.1:8786']")
    own = Policy.from_environment({"UNDERSTUDY_DASK_SCHEDULER": "tcp://127.0.0.1:8786"})
    assert scheduler_of(spec, listed) == scheduler_of(spec, own) == "tcp://127.0.0.1:8786"


def test_a_spec_that_names_no_scheduler_uses_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec(SPEC + "compute: {engine: dask}\n")
    monkeypatch.delenv("UNDERSTUDY_DASK_SCHEDULER", raising=False)
    assert scheduler_of(spec, Policy()) is None
    monkeypatch.setenv("UNDERSTUDY_DASK_SCHEDULER", "tcp://127.0.0.1:8786")
    assert scheduler_of(spec, Policy()) == "tcp://127.0.0.1:8786"
    assert scheduler_of(parse_spec(SPEC), Policy()) is None


def test_without_a_file_everything_else_is_allowed() -> None:
    free = Policy.from_environment({})
    free.require_allowed(parse_spec(SPEC), Path())
    free.require_spec("whatever")


@pytest.mark.parametrize(
    ("to", "allowed"),
    [
        ("/srv/releases", True),
        ("/srv/releases/visits", True),
        ("/srv/releases-of-others", False),
        ("releases", False),
        ("s3://public/releases", True),
        ("s3://public-not", False),
        ("gs://public", False),
        ("postgresql+env://SHARED", True),
        ("postgresql+env://OTHER", False),
        ("duckdb:////srv/releases/out.duckdb", True),
        ("duckdb:////tmp/out.duckdb", False),
    ],
)
def test_targets_are_places_with_all_below_them(tmp_path: Path, to: str, allowed: bool) -> None:
    found = policy(tmp_path, "targets: [/srv/releases, 's3://public', 'postgresql+env://SHARED']")
    if allowed:
        found.require_allowed(publishing_to(to), tmp_path)
    else:
        with pytest.raises(SpecError, match=r"publish\.to"):
            found.require_allowed(publishing_to(to), tmp_path)


def test_a_link_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path / "closed")
    with pytest.raises(SpecError, match=r"publish\.to"):
        policy(tmp_path, f"targets: ['{tmp_path}/open']").require_allowed(publishing_to("open/link"), tmp_path)


def test_accounts_and_specs(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="'clinic' be charged"):
        policy(tmp_path, "accounts: [other]").require_allowed(parse_spec(SPEC), tmp_path)
    pinned = policy(tmp_path, f"accounts: [clinic]\nspecs: [{pin_of({'name': 'a'})}]")
    pinned.require_allowed(parse_spec(SPEC), tmp_path)
    pinned.require_spec(pin_of({"name": "a"}))
    with pytest.raises(SpecError, match="does not list"):
        pinned.require_spec(pin_of({"name": "b"}))


@pytest.mark.parametrize("text", ["specs: 3", "[]", "account: [clinic]", "a: [", "approvers: [x]"])
def test_a_policy_that_cannot_be_read_allows_nothing(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError, match="cannot be used"):
        policy(tmp_path, text)


def test_a_policy_that_is_not_there_allows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="No such file"):
        Policy.from_environment({"UNDERSTUDY_POLICY": str(tmp_path / "none.yaml")})


def test_the_command_line_obeys_it(
    clinic: Clinic, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    policy(tmp_path, "targets: [/srv/releases]")
    monkeypatch.setenv("UNDERSTUDY_POLICY", str(tmp_path / "policy.yaml"))
    refused = run("release", clinic.spec)
    assert refused.exit_code == 2
    assert "UNDERSTUDY_POLICY" in refused.output
    assert clinic.charges == []

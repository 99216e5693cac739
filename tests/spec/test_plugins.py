"""What is installed under a name: found without being imported, never taken for another, and told if it is broken."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.examples import SPEC
from tests.outside import install, install_feather, install_jsonl
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.publishing.targets.base import check_target
from understudy.pipelines.releasing.apart import require_apart
from understudy.pipelines.releasing.policy import Policy
from understudy.pipelines.sources.identity import source_identity
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.plugins import METHODS, SOURCES, TARGETS, is_own, loaded, names
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.spec.source import SourceSpec

ROOT = Path(__file__).resolve().parents[2]
GROUPS = (SOURCES, TARGETS, METHODS)


def source(uri: str, **more: str) -> SourceSpec:
    return SourceSpec(uri=uri, snapshot="s", **more)


def published_to(to: str, **more: str) -> ReleaseSpec:
    spec = parse_spec(SPEC)
    publish = spec.publish.model_copy(update={"to": to, **more})
    return spec.model_copy(update={"publish": publish})


@pytest.mark.parametrize("group", GROUPS)
def test_all_that_is_built_in_can_be_imported(group: str) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][group]
    assert set(declared) <= set(names(group))
    for name in declared:
        assert is_own(group, name)
        assert loaded(group, name) is not None


def test_nothing_is_imported_to_list_what_is_there() -> None:
    code = (
        "import sys; from understudy.pipelines.spec.plugins import *; "
        "[names(g) for g in (SOURCES, TARGETS, METHODS)]; "
        "print(sorted({m.split('.')[2] for m in sys.modules if m.startswith('understudy.pipelines.')}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not any(room in told for room in ("sources", "publishing", "methods")), told


def test_a_built_in_name_cannot_be_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import builtins; builtins.understudy_was_taken_over = True; Thing = object"
    entries = {"sources": "file = taker:Thing", "targets": "file = taker:Thing", "methods": "privpgd = taker:Thing"}
    monkeypatch.syspath_prepend(install(tmp_path / "site", "The.Taker", "taker", code, **entries))
    for ask in (
        lambda: open_source(source("t.csv"), tmp_path),
        lambda: check_target(parse_spec(SPEC)),
        lambda: method_named("privpgd"),
    ):
        with pytest.raises(SpecError, match=r"the-taker offers .* which is Understudy's own") as caught:
            ask()
        assert "uninstall the-taker" in caught.value.fix
    assert not hasattr(__import__("builtins"), "understudy_was_taken_over")
    assert open_source(source("duckdb:///t.duckdb", table="t"), tmp_path) is not None


def test_two_packages_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("one", "two"):
        place = install(tmp_path / package, package, f"{package}_source", "X = 1", sources=f"lake = {package}_source:X")
        monkeypatch.syspath_prepend(place)
    with pytest.raises(SpecError, match="one and two offer the source 'lake'"):
        open_source(source("lake://x"), tmp_path)


@pytest.mark.parametrize("code", ["import not_installed_anywhere", "raise RuntimeError('no')", "Y = 1", "def ("])
def test_a_broken_package_is_named_in_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    module = f"broken_{abs(hash(code))}"
    place = install(tmp_path / "site", "lakehouse", module, code, sources=f"lake = {module}:X")
    monkeypatch.syspath_prepend(place)
    with pytest.raises(SpecError, match="'lake' of the installed package lakehouse cannot be imported") as caught:
        open_source(source("lake://x"), tmp_path)
    assert "lakehouse" in caught.value.fix
    assert caught.value.__context__ is None
    assert open_source(source("t.csv"), tmp_path) is not None  # nobody else is harmed


def test_what_is_not_installed_is_told_with_what_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match=r"lake://\.\.\. is not a source") as caught:
        open_source(source("lake://secret-place"), tmp_path)
    assert "secret-place" not in str(caught.value)
    assert source_identity(source("lake://x"), tmp_path) == ""
    monkeypatch.syspath_prepend(install_feather(tmp_path / "site"))
    with pytest.raises(SpecError, match="feather://"):
        open_source(source("lake://x"), tmp_path)
    with pytest.raises(SpecError, match="cannot publish to feather://"):
        check_target(published_to("feather:///x"))


def test_a_source_obeys_its_own_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install_feather(tmp_path / "site"))
    for spec, problem in (
        (source("feather:///x", table="t"), "source.table is for databases"),
        (SourceSpec(uri="feather:///x", snapshot="s", external=True), "source.external is for"),
        (source("feather://x"), "names no file"),
        (source("feather+env://VARIABLE"), "is not a source"),
    ):
        with pytest.raises(SpecError, match=problem):
            open_source(spec, tmp_path)


def test_a_method_of_another_package_is_a_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="there is no such method; installed are"):
        parse_spec(SPEC.replace("name: privpgd", "name: outsider"))
    code = "class Outsider:\n    name = 'outsider'\n"
    place = install(tmp_path / "site", "outsider", "outsider", code, methods="outsider = outsider:Outsider")
    monkeypatch.syspath_prepend(place)
    assert parse_spec(SPEC.replace("name: privpgd, marginals: all-2way", "name: outsider")).method.name == "outsider"
    assert method_named("outsider").name == "outsider"


def test_the_policy_holds_for_targets_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install_jsonl(tmp_path / "site"))
    spec = published_to(f"jsonl:///{tmp_path}/releases")
    for allowed in (
        (f"{tmp_path}/releases",),
        (f"{tmp_path}",),
        (f"duckdb:///{tmp_path}",),
        (f"jsonl:///{tmp_path}/releases/deeper",),
        (f"jsonl:///{tmp_path}/other",),
        (),
    ):
        with pytest.raises(SpecError, match="does not let anything be published"):
            Policy(targets=allowed).require_allowed(spec, tmp_path)
    Policy(targets=(f"jsonl:///{tmp_path}",)).require_allowed(spec, tmp_path)
    Policy().require_allowed(spec, tmp_path)
    with pytest.raises(SpecError, match="does not let anything be published"):
        Policy(targets=(f"jsonl:///{tmp_path}",)).require_allowed(published_to(str(tmp_path)), tmp_path)


def test_source_and_target_of_others_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install_feather(tmp_path / "site"))
    monkeypatch.syspath_prepend(install_jsonl(tmp_path / "more"))
    spec = published_to("jsonl:///data")
    inside = spec.model_copy(update={"source": source("feather:///data/t.feather")})
    with pytest.raises(SpecError, match=r"source\.uri lies inside publish\.to"):
        require_apart(inside, tmp_path)
    require_apart(spec.model_copy(update={"source": source("feather:///elsewhere/t.feather")}), tmp_path)

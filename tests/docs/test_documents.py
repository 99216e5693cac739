"""Documents are under test: what they show is executed, and what the code offers they name."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import postgres
from understudy.cli.reference import commands_page
from understudy.pipelines.drafting.schema import shipped_schema, spec_schema
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.releasing.domains import assumed_spec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_tree, spec_of
from understudy.pipelines.table.domain import TableDomain

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REST_OF_A_SPEC: dict[str, Any] = {
    "name": "shown",
    "source": {"uri": "shown.parquet", "snapshot": "2026-10"},
    "privacy": {"account": "shown", "epsilon": 1, "delta": 1e-6},
    "publish": {"to": "releases"},
}


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def shown(language: str) -> list[Any]:
    return [
        pytest.param(page, block, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, block in enumerate(blocks(page, language))
    ]


@pytest.mark.parametrize(("page", "block"), shown("yaml"))
def test_a_spec_that_is_shown_can_be_planned(page: Path, block: str) -> None:
    """A page may show a part of a spec; what it leaves out is filled in."""
    tree = {**REST_OF_A_SPEC, **parse_tree(block)[1]}
    if "columns" not in tree:
        pytest.skip("a fragment without columns is read with the spec it belongs to")
    spec = assumed_spec(spec_of(tree))
    assert method_named(spec.method.name).plan(spec, TableDomain.of(spec)).charges


@pytest.mark.parametrize(("page", "block"), shown("python"))
def test_python_that_is_shown_is_python(page: Path, block: str) -> None:
    """And whatever it imports from the package is there."""
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("understudy"):
            module = __import__(node.module or "", fromlist=[alias.name for alias in node.names])
            assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def keys_named(text: str) -> set[str]:
    """The words in inline code and in headings, and the keys in blocks of YAML."""
    yaml = "\n".join(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    words = re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|^#+ .+$", prose, re.MULTILINE)))
    return {*words, *re.findall(r"(\w+):(?=\s|$)", yaml)}


def spec_keys() -> set[tuple[str, str]]:
    """Every key with the part of a spec in which it stands."""
    schema = ReleaseSpec.model_json_schema()

    def below(tree: Any) -> set[str]:
        models = [schema["$defs"][name] for name in set(re.findall(r"#/\$defs/(\w+)", str(tree)))]
        return {key for model in models for key in {*model.get("properties", {}), *below(model)}}

    return {(part, key) for part, tree in schema["properties"].items() for key in {part, *below(tree)}}


def is_named(part: str, key: str, page: str) -> bool:
    """As `part.key`, or by itself in the section of its part."""
    if re.search(rf"\b{part}\.(\w+\.)*{key}\b", page):
        return True
    sections = re.findall(r"^## (.+?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return any(key in keys_named(f"## {each}") for each in sections if part in each.partition("\n")[0].split(", "))


@pytest.mark.parametrize(("part", "key"), sorted(spec_keys()))
def test_every_key_of_a_spec_is_documented_and_a_missing_one_is_found(part: str, key: str) -> None:
    page = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    assert is_named(part, key, page)
    assert not is_named(part, key, re.sub(rf"\b{key}\b", "", page))


def test_the_page_of_commands_is_what_the_program_says() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert page == commands_page(), "run: make reference"


def test_the_shipped_schema_is_that_of_the_spec() -> None:
    assert json.loads(shipped_schema()) == spec_schema(), "run: make reference"


def test_links_lead_somewhere() -> None:
    pages = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
    links = [
        (page, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not re.match(r"[a-z]+:", target)
    ]
    assert len(links) > 20
    assert [f"{page.name}: {target}" for page, target in links if not (page.parent / target).exists()] == []


def test_files_that_are_named_exist() -> None:
    path = re.compile(r"`((?:pipelines|tasks|flows|understudy|tests|benchmarks|deployments)/[\w/.-]+)`")
    named = [(page, name) for page in PAGES for name in path.findall(page.read_text(encoding="utf-8"))]
    assert len(named) > 10
    assert [f"{page.name}: {name}" for page, name in named if not (ROOT / name).exists()] == []


@pytest.fixture
def clean_shell(tmp_path: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "UNDERSTUDY"))}
    return {
        **variables,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "WAREHOUSE_URL": str(postgres.new_database()).replace("postgresql+psycopg://", "postgresql://", 1),
        "HOME": str(tmp_path),
    }


def run_as_written(page: Path, where: Path, environment: dict[str, str]) -> str:
    done = subprocess.Popen(
        ["bash", "-c", "set -eu\n" + "\n".join(blocks(page, "sh"))],
        cwd=where, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = done.communicate(timeout=500)
    finally:
        with suppress(ProcessLookupError):  # servers that the page starts; where it starts none, all have ended
            os.killpg(done.pid, signal.SIGKILL)
    assert done.returncode == 0, output
    return output


@pytest.mark.slow
def test_the_way_from_laptop_to_platform_runs_as_written(tmp_path: Path, clean_shell: dict[str, str]) -> None:
    assert shutil.which("prefect", path=clean_shell["PATH"])
    page = ROOT / "docs" / "tutorials" / "postgresql-prefect.md"
    assert "visits" in run_as_written(page, tmp_path, clean_shell)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("first-release.md", "holds: epsilon"),
        ("tutorials/dbt-duckdb.md", "spent      epsilon"),
        ("tutorials/iceberg.md", "spent      nothing"),
    ],
)
def test_tutorials_run_as_written(page: str, words: str, tmp_path: Path, clean_shell: dict[str, str]) -> None:
    assert words in run_as_written(ROOT / "docs" / page, tmp_path, clean_shell)

"""What editors, shells and checks in a pipeline use."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from tests.examples import SPEC
from understudy.cli.main import main
from understudy.pipelines.drafting.schema import spec_schema
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_tree

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def seen(text: str) -> Any:
    """As an editor sees it: YAML 1.2, days as text."""
    return json.loads(json.dumps(parse_tree(text)[1], default=str))


def test_every_key_has_words_of_its_own() -> None:
    schema = spec_schema()
    models = [schema, *schema["$defs"].values()]
    models += [arm for model in models for arm in model.get("oneOf", [])]
    keys = [(model.get("title"), key, said) for model in models for key, said in model.get("properties", {}).items()]
    assert len(keys) > 90
    assert [(title, key) for title, key, said in keys if not said.get("description")] == []
    by_name = {(title, key): said for title, key, said in keys}
    assert by_name["IntegerColumn", "bins"]["default"] == 32
    assert by_name["privpgd", "marginals"]["default"] == "all-2way"


def test_specs_of_the_project_fit_the_schema_and_mistakes_do_not(run: Run) -> None:
    schema = json.loads(run("spec", "schema").output)
    assert run("schema").output == run("spec", "schema").output
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    for path in sorted((ROOT / "deployments" / "specs").glob("*.yaml")):
        validator.validate(seen(path.read_text()))
    sound = seen(SPEC)
    validator.validate(sound)
    validator.validate({**sound, "columns": {"day": {"type": "date", "min": "{{ month_start }}", "max": "2026-12-31"}}})
    for wrong in (
        {"method": {"name": "privpgd", "marginalz": "all-2way"}},
        {"method": {"one_way_share": 2}},
        {"columns": {"age": {"type": "integer", "min": 0}}},
        {"columns": {"age": {"type": "integr", "min": 0, "max": 1}}},
        {"privacy": {**sound["privacy"], "epsilon": -1}},
        {"colums": {}},
    ):
        assert not validator.is_valid({**sound, **wrong}), wrong


def test_every_spec_that_is_shown_fits_the_schema() -> None:
    """A page may show a part of a spec; what it leaves out is filled in."""
    validator = jsonschema.Draft202012Validator(spec_schema())
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.M | re.S)]
    assert len(blocks) > 5
    for tree in (seen(block) for block in blocks):
        if set(tree) <= set(ReleaseSpec.model_fields):
            validator.validate({**seen(SPEC), **tree})


def test_check_tells_every_mistake_by_its_line(run: Run, tmp_path: Path) -> None:
    Path("good.yaml").write_text(SPEC)
    done = run("spec", "check", "good.yaml")
    assert done.exit_code == 0, done.output
    assert "good.yaml: sound. 6 of 8 columns are copied, by privpgd" in done.output
    Path("bad.yaml").write_text(SPEC.replace("bins: month", "bins: moth"))
    Path("worse.yaml").write_text(SPEC.replace("marginals: all-2way", "marginals: [[age, nobody]]"))
    done = run("spec", "check", "good.yaml", "bad.yaml", "worse.yaml")
    assert done.exit_code == 2
    assert "bad.yaml: line 9: columns.visited_on.bins" in done.output
    assert "worse.yaml: method.marginals names 'nobody'" in done.output
    assert not (tmp_path / "home").exists(), "no ledger is opened for it"


def test_check_tells_how_many_columns_are_to_be_discovered(run: Run) -> None:
    Path("a.csv").write_text("age,ward\n")
    run("init", "a.csv")
    assert "2 of 2 columns are copied, by privpgd; 2 are to be discovered" in run("spec", "check", "a.yaml").output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str, run: Run) -> None:
    done = run("completion", shell)
    assert done.exit_code == 0, done.output
    assert f"_UNDERSTUDY_COMPLETE={shell}_complete" in done.output


def test_bash_completes_commands() -> None:
    """The real shell, with what the command printed."""
    script = (
        'eval "$(understudy completion bash)"; COMP_WORDS=(understudy ledger o); COMP_CWORD=2; '
        '_understudy_completion understudy; echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["open"], done.stderr

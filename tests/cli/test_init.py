"""`understudy init` by the real command line: what it writes, what it asks, and that the commands it prints work."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.warehouse import Warehouse
from understudy.cli.main import main
from understudy.pipelines.spec.reading import load_spec

Run = Callable[..., Result]
HEADER = "age,sex,ward,patient_id,email\n"


@pytest.fixture
def run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Rows too, for those who want to release them."""
    path = tmp_path / "people.csv"
    rows = [f"{number % 90},{'FM'[number % 2]},A,P{number // 2},p{number}@example.org\n" for number in range(2000)]
    path.write_text(HEADER + "".join(rows))
    return path


def commands(output: str) -> list[list[str]]:
    """What init says to type next."""
    return [shlex.split(line) for line in output.partition("Then:\n")[2].splitlines()]


def test_a_file_becomes_a_spec_of_its_name(people: Path, run: Run) -> None:
    done = run("init", "people.csv")
    assert done.exit_code == 0, done.output
    spec = load_spec(Path("people.yaml"))
    assert (spec.name, spec.privacy.account, spec.source.uri) == ("people", "people", "people.csv")
    assert spec.privacy.unit.entity == "patient_id"
    assert "5 columns: 0 declared, 1 guessed from their names, 3 open, 1 left out" in done.output
    assert "is bought by the first release, once: epsilon 0." in done.output
    assert "  ward: {type: discover}  # open" in Path("people.yaml").read_text()
    assert "--own-delta 5e-7" in done.output
    assert json.loads(Path("understudy.schema.json").read_text())["$id"] == "understudy-release-spec"


def test_the_commands_that_follow_work_as_they_are_printed(people: Path, run: Run) -> None:
    printed = commands(run("init", "people.csv", "--epsilon", "0.5", "--max-rows", 2).output)
    assert [words[:2] for words in printed] == [
        ["understudy", "ledger"],
        ["understudy", "plan"],
        ["understudy", "release"],
    ]
    for words in printed[:2]:
        done = run(*words[1:])
        assert done.exit_code == 0, done.output
    assert "the cap pays for" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "postgresql", "dbt", "odcs"])
def test_four_commands_from_a_table_to_a_card(
    kind: str, people: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    words = MADE[kind](people.parent, request)
    first = run("init", *words)
    assert first.exit_code == 0, first.output
    following = commands(first.output)
    assert len(following) == 3
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    for command in following:
        arguments = [sys.executable, "-m", "understudy.cli.main", *command[1:]]
        done = subprocess.run(arguments, env=inherited, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert list(Path("releases").glob("*/*/card.html"))


def _from_csv(folder: Path, request: pytest.FixtureRequest) -> list[object]:
    return ["people.csv"]


def _from_postgresql(folder: Path, request: pytest.FixtureRequest) -> list[object]:
    warehouse: Warehouse = request.getfixturevalue("warehouse")
    warehouse.execute(
        "CREATE TYPE sex AS ENUM ('F', 'M')",
        "CREATE TABLE people (age int NOT NULL CHECK (age BETWEEN 0 AND 100), sex sex NOT NULL, patient_id text)",
        "INSERT INTO people SELECT i % 90, (ARRAY['F', 'M'])[1 + i % 2]::sex, 'P' || i / 2 "
        "FROM generate_series(1, 2000) i",
    )
    return [warehouse.uri, "--table", f"{warehouse.schema}.people"]


def _from_dbt(folder: Path, request: pytest.FixtureRequest) -> list[object]:
    with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM 'people.csv'")
    (folder / "project" / "models").mkdir(parents=True)
    (folder / "project" / "dbt_project.yml").write_text("name: clinic\n")
    tests = [{"accepted_values": {"values": ["A", "B"]}}, "not_null"]
    columns = [{"name": "ward", "data_tests": tests}, {"name": "age", "data_tests": ["not_null"]}]
    tree = {"version": 2, "models": [{"name": "people", "columns": columns}]}
    (folder / "project" / "models" / "schema.yml").write_text(yaml.safe_dump(tree))
    return ["clinic.duckdb", "--table", "people", "--contract", "project"]


def _from_odcs(folder: Path, request: pytest.FixtureRequest | None) -> list[object]:
    age = {"name": "age", "logicalType": "integer", "logicalTypeOptions": {"minimum": 0, "maximum": 100}}
    ward = {"name": "ward", "logicalType": "string", "enum": [{"value": "A"}, {"value": "B"}]}
    patient = {"name": "patient_id", "logicalType": "string"}
    tree = {
        "kind": "DataContract",
        "apiVersion": "v3.1.0",
        "servers": [{"server": "here", "type": "local", "path": "people.csv"}],
        "schema": [{"name": "people", "properties": [age, ward, patient]}],
    }
    (folder / "contract.yaml").write_text(yaml.safe_dump(tree))
    return ["contract.yaml"]


MADE = {"csv": _from_csv, "postgresql": _from_postgresql, "dbt": _from_dbt, "odcs": _from_odcs}


def test_options_that_name_another_home_are_in_the_commands(people: Path, run: Run, tmp_path: Path) -> None:
    printed = commands(run("--home", tmp_path / "other home", "init", "people.csv").output)
    assert all(words[1:3] == ["--home", str(tmp_path / "other home")] for words in printed)


def test_nothing_is_overwritten(people: Path, run: Run) -> None:
    Path("people.yaml").write_text("mine")
    Path("understudy.schema.json").write_text("mine too")
    refused = run("init", "people.csv")
    assert refused.exit_code == 2
    assert "replaces nothing" in refused.output
    assert run("init", "people.csv", "--out", "draft.yaml").exit_code == 0
    assert Path("people.yaml").read_text() == "mine"
    assert Path("understudy.schema.json").read_text() == "mine too"


def test_every_answer_can_be_given_as_an_option(people: Path, run: Run) -> None:
    done = run("init", "people.csv", "--entity", "email", "--max-rows", 3, "--epsilon", "2", "--delta", "1e-7",
               "--account", "folk", "--out", "specs/one.yaml")  # fmt: skip
    assert done.exit_code == 2, "there is no such folder"
    Path("specs").mkdir()
    done = run("init", "people.csv", "--entity", "email", "--max-rows", 3, "--epsilon", "2", "--delta", "1e-7",
               "--account", "folk", "--out", "specs/one.yaml")  # fmt: skip
    assert done.exit_code == 0, done.output
    spec = load_spec(Path("specs/one.yaml"))
    assert spec.source.uri == str(people)
    assert (str(spec.privacy.epsilon), spec.privacy.account) == ("2", "folk")
    assert (spec.privacy.unit.entity, spec.privacy.unit.max_rows) == ("email", 3)
    assert commands(done.output)[0][-4:] == ["--entity", "email", "--max-rows", "3"]
    assert run("init", "people.csv", "--entity", "none").exit_code == 0
    assert load_spec(Path("people.yaml")).privacy.unit.entity is None


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.csv"], "there is no file"),
        (["people.csv", "--entity", "patient"], "nearest: patient_id"),
        (["people.csv", "--entity", "none", "--max-rows", "4"], "--entity"),
        (["people.csv", "--epsilon", "much"], "epsilon"),
        (["people.csv", "--account", "Not A Name"], "lower-case"),
        (["people.csv", "--table", "people"], "one table"),
        (["README.txt"], "contract"),
    ],
)
def test_mistakes_are_one_message(words: list[str], told: str, people: Path, run: Run) -> None:
    Path("README.txt").write_text("hello")
    done = run("init", *words)
    assert done.exit_code == 2, done.output
    assert told in done.output
    assert not Path("people.yaml").exists()


def test_at_a_terminal_it_asks_and_takes_defaults(people: Path, run: Run, home: Path) -> None:
    main_end, child_end = pty.openpty()
    arguments = [sys.executable, "-m", "understudy.cli.main", "init", "people.csv"]
    with subprocess.Popen(arguments, stdin=child_end, stdout=child_end, stderr=child_end, cwd=people.parent) as asking:
        os.close(child_end)
        os.write(main_end, b"\n7\n0.5\n")  # the first default, then answers
        said = b""
        while True:
            try:
                said += os.read(main_end, 4096)
            except OSError:  # which is how the end of a terminal reads
                break
        asking.wait()
    os.close(main_end)
    assert asking.returncode == 0, said
    questions = said.decode()
    assert re.search(r"whose row.*\[patient_id\].*How many rows.*\[4\].*Epsilon.*\[1\]", questions, re.S), questions
    spec = load_spec(people.parent / "people.yaml")
    assert (spec.privacy.unit.entity, spec.privacy.unit.max_rows) == ("patient_id", 7)
    assert str(spec.privacy.epsilon) == "0.5"


def test_a_contract_is_not_where_its_draft_goes(people: Path, run: Run) -> None:
    """It is named after the table; a contract that has that name itself stays what it is."""
    _from_odcs(people.parent, None)
    assert run("init", "contract.yaml").exit_code == 0
    assert load_spec(Path("people.yaml")).name == "people"
    Path("people.yaml").write_bytes(Path("contract.yaml").read_bytes())
    assert run("init", "people.yaml").exit_code == 0
    assert load_spec(Path("people-release.yaml")).name == "people"


def test_a_contract_that_does_not_say_where_the_rows_are_leaves_one_line_to_fill(run: Run, home: Path) -> None:
    Path("visit.json").write_text(json.dumps({"type": "object", "properties": {"smoker": {"type": "boolean"}}}))
    done = run("init", "visit.json")
    assert done.exit_code == 0, done.output
    assert "source.uri in place of FILL-IN" in done.output

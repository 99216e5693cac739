"""A hostile spec is refused, or does no more than name something oddly; and no secret is repeated in the refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.spec.address import Address, check_address
from understudy.pipelines.spec.reading import MAX_SPEC_BYTES, load_spec, parse_spec

CANARY = "hunter2-canary"
SOURCE, TARGET = '"duckdb:///clinic.duckdb"', "{to: releases/}"


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "hostile.yaml")
    assert CANARY not in str(caught.value)
    assert CANARY not in repr(caught.value.__cause__) + repr(caught.value.__context__)
    return str(caught.value)


@pytest.mark.parametrize(
    "uri",
    [f"postgresql://me:{CANARY}@host/db", f"postgresql://host/db?password={CANARY}", f"postgresql://host/db?sslpassword={CANARY}",
     f"s3://AKIA:{CANARY}@bucket/x", f"s3://bucket/x?secret_access_key={CANARY}", f"abfs://c/x?sig={CANARY}",
     f"https://u:{CANARY}@host/x.parquet", f"postgresql://host/db#token={CANARY}", f"duckdb:///x.duckdb?motherduck_token={CANARY}",
     f"mysql://root:{CANARY}@host/db", f"postgresql://:{CANARY}@host/db", f"postgresql://me:{CANARY}@[bad/db"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["source", "publish", "compute"])
def test_an_address_with_a_secret_is_refused_without_repeating_it(uri: str, place: str) -> None:
    text = {
        "source": SPEC.replace(SOURCE, f'"{uri}"'),
        "publish": SPEC.replace(TARGET, f'{{to: "{uri}", table: t}}'),
        "compute": SPEC + f'compute: {{engine: dask, scheduler: "{uri}"}}\n',
    }[place]
    with pytest.raises(SpecError) as caught:
        parse_spec(text)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["../../etc/passwd", "a/../../b.parquet", "..", "duckdb:///../x.duckdb", "s3://bucket/../other",
     "file:///data/../etc/x.parquet", "a\\\\..\\\\b", "%2e%2e/x.parquet", "a\\0b.parquet"],
)  # fmt: skip
def test_no_path_climbs_out_of_its_directory(path: str) -> None:
    for text in (SPEC.replace(SOURCE, f'"{path}"'), SPEC.replace("releases/", f'"{path}"')):
        assert ".." in refused(text) or "special characters" in refused(text)


@pytest.mark.parametrize(
    "text",
    ["!!python/object/apply:os.system ['touch /tmp/owned']", "name: !!python/name:os.system x", "a: &a [*a, *a]",
     "name: !include /etc/passwd", "- !!python/module:os"],
)  # fmt: skip
def test_yaml_tags_run_nothing(text: str) -> None:
    refused(text)
    refused(
        SPEC.replace("name: clinic-visits", f"name: clinic-visits\nx: {text}") if not text.startswith("-") else text
    )


def test_nested_aliases_are_bounded() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    refused("\n".join(lines))


def test_huge_texts_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    path.write_text(SPEC + "# " + "x" * 10_000_000)
    with pytest.raises(SpecError, match="at most"):
        load_spec(path)
    long = "x" * (MAX_SPEC_BYTES // 2)
    for old, new in ((SOURCE, f'"{long}"'), ('"2026-10"', f'"{long}"'), ("table: visits", f"table: {long}"),
                     ("name: clinic-visits", f"name: {long}"), ("account: clinic,", f"account: {long},"),
                     ("  age:", f"  {long}:"), ("cron", "cron")):  # fmt: skip
        text = SPEC.replace(old, new)
        if text != SPEC:
            assert len(refused(text)) < 2000


@pytest.mark.parametrize(
    "name", ["x; DROP TABLE visits", "../x", "X", "a b", "a\nb", "", "clinic@period", "a/b", ".hidden"]
)
def test_names_of_releases_and_accounts_are_plain(name: str) -> None:
    refused(SPEC.replace("name: clinic-visits", f"name: {name!r}"))
    refused(SPEC.replace("account: clinic,", f"account: {name!r},"))


def test_a_template_can_reach_nothing() -> None:
    for inside in ("config", "''.__class__", "7*7", "lipsum.__globals__", "month()", "prefect.blocks.secret.x"):
        refused(SPEC.replace('"2026-10"', f'"{{{{ {inside} }}}}"'))


def test_an_address_shows_no_secret_in_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", f"postgresql://me:{CANARY}@host/db")
    database = Address.parse("postgresql+env://WAREHOUSE_URL", "source.uri")
    assert CANARY in database.revealed()
    assert CANARY not in f"{database} {database!r}"
    monkeypatch.delenv("WAREHOUSE_URL")
    with pytest.raises(UnderstudyError, match="WAREHOUSE_URL"):
        database.revealed()
    with pytest.raises(UnderstudyError, match="block"):
        Address.parse("postgresql+block://nothing", "source.uri").revealed()


@pytest.mark.parametrize(
    "address",
    ["clinic.parquet", "duckdb:///clinic.duckdb", "postgresql://me@host:5432/db?sslmode=require",
     "s3://bucket/a/b=c/", "/data/x..y.parquet", "tcp://127.0.0.1:8786", "a/b c.csv"],
)  # fmt: skip
def test_plain_addresses_are_accepted(address: str) -> None:
    assert check_address(address, "source.uri") == address


def test_hostile_specs_end_the_command_line_with_code_2(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from understudy.cli.main import main

    path = tmp_path / "hostile.yaml"
    hostile: list[Callable[[], str]] = [
        lambda: SPEC.replace(SOURCE, f'"postgresql://me:{CANARY}@host/db"'),
        lambda: SPEC.replace("releases/", "../../etc"),
        lambda: "!!python/object/apply:os.system ['true']",
    ]
    for make in hostile:
        path.write_text(make())
        for command in ("plan", "release", "deploy"):
            result = CliRunner().invoke(main, ["--home", str(tmp_path / "home"), command, str(path)])
            assert result.exit_code == 2, result.output
            assert CANARY not in result.output
            assert "Traceback" not in result.output

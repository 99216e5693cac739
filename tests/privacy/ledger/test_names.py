"""What an account may be called, wherever it is opened or named; what is open already keeps its name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from tests.examples import SPEC
from understudy import synthesize
from understudy.cli.main import main
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Account, Ledger
from understudy.pipelines.privacy.ledger.names import is_period_account, parent_of, period_account
from understudy.pipelines.privacy.ledger.rows import insert_account
from understudy.pipelines.privacy.relation import Budget, Relation, Unit
from understudy.pipelines.spec.reading import parse_spec

TERMS = (Relation.ADD_REMOVE, Unit(), Budget("1", "1e-6"))
BAD = [
    "clinic@0123456789@2026-10",
    "@",
    "clinic\n",
    "cli\x00nic",
    "cli\x1b[31mnic",
    "cli nic",
    " clinic",
    "clinic\u00a0",
    "cli\u202enic",
    "",
    "a" * 101,
    "-clinic",
]


@pytest.mark.parametrize("name", BAD, ids=ascii)
def test_names_that_nobody_may_give(name: str, ledger_url: str) -> None:
    ledger = Ledger(ledger_url)
    with pytest.raises(SpecError, match="no account can be called so"):
        ledger.open_account(name, *TERMS)
    assert ledger.accounts() == []


def test_names_of_up_to_a_hundred_characters(ledger_url: str) -> None:
    ledger = Ledger(ledger_url)
    for name in ("a", "clinic-visits_2.0", "a" * 100):
        assert ledger.open_account(name, *TERMS).name == name


@pytest.mark.parametrize("name", ["clinic@0123456789@2026-10", "cli nic", "a" * 101])
def test_the_command_line_refuses_them(name: str, home: Path) -> None:
    result = CliRunner().invoke(main, ["ledger", "open", name, "--epsilon", "50", "--delta", "1e-6"])
    assert result.exit_code == 2
    assert "no account can be called so" in result.output
    assert Ledger(f"sqlite:///{home}/ledger.db").accounts() == []


@pytest.mark.parametrize("name", ["clinic@0123456789@2026-10", "cli nic", "a" * 101])
def test_specs_and_the_python_interface_refuse_them(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="account"):
        parse_spec(SPEC.replace("account: clinic,", f'account: "{name}",'))
    spec = {
        "name": "visits",
        "snapshot": "2026-10",
        "privacy": {"account": name, "epsilon": 1.0, "delta": 1e-6},
        "columns": {"sex": {"type": "category", "values": ["F", "M"]}},
    }
    with pytest.raises(SpecError, match="account"):
        synthesize(pa.table({"sex": ["F"]}), spec, cap=(50, 1e-6), home=tmp_path)


def test_an_account_that_is_open_keeps_its_name(ledger_url: str) -> None:
    """As older ledgers hold them: it is found, opened again on its terms, and its cap can change."""
    ledger = Ledger(ledger_url)
    engine = create_engine(ledger_url, poolclass=NullPool)
    with engine.begin() as connection:
        insert_account(connection, Account("Old name", *TERMS), "opened by an older version")
    engine.dispose()
    assert ledger.open_account("Old name", *TERMS) == ledger.account("Old name")
    assert ledger.balance("Old name").charges == 0


def test_a_periods_account_knows_who_pays() -> None:
    name = period_account("clinic", "0123456789abcdef", "2026-10")
    assert name == "clinic@0123456789@2026-10"
    assert is_period_account(name)
    assert parent_of(name) == parent_of("clinic") == "clinic"

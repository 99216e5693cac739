"""`understudy keys`: a key is made once, shown, brought and changed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.test_verifying import PRIVATE, SPEC, said
from understudy import synthesize
from understudy.cli.main import main
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.releasing.keys import release_key
from understudy.pipelines.releasing.workspace import Workspace


def released(home: Path, snapshot: str) -> str:
    return synthesize(PRIVATE, {**SPEC, "snapshot": snapshot}, cap=(9, 1e-6), home=home).save("releases", base=home)


@pytest.fixture(autouse=True)
def _no_brought_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNDERSTUDY_SIGNING_KEY", raising=False)


def test_a_key_is_made_once_shown_and_never_overwritten(home: Path) -> None:
    code, text = said("keys", "show")
    assert (code, "no key signs here yet" in text) == (2, True)
    assert said("keys", "new")[0] == 0
    secret = home / "keys" / "release.pem"
    assert secret.stat().st_mode & 0o077 == 0
    shown = CliRunner().invoke(main, ["keys", "show"])
    assert shown.stdout.startswith("-----BEGIN PUBLIC KEY-----")
    assert SigningKey.read(secret).public.id in shown.stderr
    before = secret.read_bytes()
    assert "never overwritten" in said("keys", "new")[1]
    assert said("keys", "new", "--file", secret)[0] == 2
    assert secret.read_bytes() == before


def test_of_many_first_releases_one_makes_the_key(home: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: release_key(Workspace.from_environment()), range(16)))
    assert len({key.secret.public for key in keys}) == 1
    assert sum(key.new for key in keys) == 1
    assert sorted(path.name for path in (home / "keys").iterdir()) == ["public", "release.pem"]


def test_after_a_change_of_keys_old_and_new_releases_are_believed_until_one_is_removed(home: Path) -> None:
    first = released(home, "2026-09")
    [old] = (home / "keys" / "public").iterdir()
    assert said("keys", "new", "--file", home / "next.pem")[0] == 0
    assert said("verify", released(home, "2026-10"))[0] == 0
    code, text = said("keys", "use", home / "next.pem")
    assert (code, "signs here from now on" in text) == (0, True)
    second = released(home, "2026-11")
    assert json.loads((Path(second) / ENVELOPE).read_text())["signatures"][0]["keyid"] != old.stem
    assert [said("verify", place)[0] for place in (first, second)] == [0, 0]
    assert len(list((home / "keys").glob("until-*.pem"))) == 1
    assert [line.split()[2] for line in said("ledger", "history", "clinic")[1].splitlines()].count("key") == 2
    old.unlink()
    assert [said("verify", place)[0] for place in (first, second)] == [5, 0]
    assert said("keys", "use", home / "next.pem")[0] == 0  # again changes nothing
    assert len(list((home / "keys").glob("*.pem"))) == 2


def test_a_brought_key_signs_and_one_that_cannot_be_read_is_found_before_paying(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from understudy.pipelines.privacy.ledger.ledger import Ledger

    brought = SigningKey.create(home / "brought.pem")
    monkeypatch.setenv("UNDERSTUDY_SIGNING_KEY", str(home / "brought.pem"))
    place = Path(released(home, "2026-09"))
    assert json.loads((place / ENVELOPE).read_text())["signatures"][0]["keyid"] == brought.public.id
    assert not (home / "keys" / "release.pem").exists()
    assert said("verify", place)[0] == 0
    monkeypatch.setenv("UNDERSTUDY_SIGNING_KEY", str(home / "nothing.pem"))
    with pytest.raises(SpecError, match="cannot read"):
        released(home, "2026-10")
    assert len(Ledger(f"sqlite:///{home}/ledger.db").charges("clinic")) == 1

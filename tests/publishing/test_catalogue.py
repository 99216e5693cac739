"""The catalogue beside the releases: a list that is kept, part of none of them, and that replaces nobody's page."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.pages import faults, read_page
from tests.publishing.test_targets import prepared
from understudy.pipelines.privacy.ledger.fault_points import VARIABLE, FaultInjected
from understudy.pipelines.publishing.catalogue import INDEX, catalogue_page, listed_in
from understudy.pipelines.publishing.manifest import TableGrade, VerdictFact
from understudy.pipelines.publishing.targets.base import PreparedRelease
from understudy.pipelines.publishing.targets.directory import DirectoryTarget, read_release
from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget

MARCH, APRIL = "2026-03-01T00:00:00+00:00", "2026-04-01T00:00:00+00:00"


def graded(release: PreparedRelease, grade: str) -> PreparedRelease:
    tables = (TableGrade(table="age", grade=grade, off=0.1, std=2.0),)
    verdict = VerdictFact(grade=grade, sentence=grade, smallest_group=50, columns=tables)
    manifest = release.manifest.model_copy(update={"verdict": verdict})
    return PreparedRelease(manifest, release.rows, release.card)


def rows_of(text: str) -> list[list[str]]:
    """The releases of a catalogue, as they are read."""
    page = read_page(text)
    assert faults(page) == []
    cells = [each.text for each in page.elements if each.tag in ("td", "th") and "tbody" in each.parents]
    return [cells[start : start + 8] for start in range(0, len(cells), 8)]


def test_a_directory_lists_its_releases_with_verdict_guarantee_and_link(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path)
    target.publish(graded(prepared(release="2026-03-a", created=MARCH), "noise"))
    target.publish(graded(prepared(release="2026-04-b", created=APRIL), "good"))
    text = (tmp_path / INDEX).read_text(encoding="utf-8")
    newest, oldest = rows_of(text)
    assert newest[0] == "2026-04-b"
    assert (newest[4], oldest[4]) == ("good", "noise")
    assert "epsilon 1, delta 1e-06" in newest[5]
    assert (newest[6], oldest[6]) == ("latest", "earlier")
    links = [
        each.attributes["href"] for each in read_page(text).all("a") if not each.attributes["href"].startswith("#")
    ]
    assert all((tmp_path / link).is_file() for link in links)
    assert len(links) == 2
    manifest = read_release(tmp_path / "clinic-visits" / "latest")  # its every file is as it was hashed
    assert INDEX not in {file.path for file in manifest.files}
    target.retire_old("clinic-visits", 1)
    assert rows_of((tmp_path / INDEX).read_text(encoding="utf-8"))[1][6] == "rows removed"


def test_a_kill_leaves_the_list_as_it_was_and_the_next_run_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = DirectoryTarget(tmp_path)
    target.publish(prepared(release="2026-03-a", created=MARCH))
    before = (tmp_path / INDEX).read_text(encoding="utf-8")
    monkeypatch.setenv(VARIABLE, "catalogue_staged:raise")
    with pytest.raises(FaultInjected):
        target.publish(prepared(release="2026-04-b", created=APRIL))
    assert (tmp_path / INDEX).read_text(encoding="utf-8") == before
    monkeypatch.delenv(VARIABLE)
    assert target.recover("clinic-visits", "2026-04-b") is not None
    assert len(rows_of((tmp_path / INDEX).read_text(encoding="utf-8"))) == 2
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_page_that_somebody_else_wrote_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text("mine")
    DirectoryTarget(tmp_path).publish(prepared())
    assert (tmp_path / INDEX).read_text() == "mine"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / INDEX).symlink_to(tmp_path / "not-there")
    DirectoryTarget(elsewhere).publish(prepared())
    assert not (tmp_path / "not-there").exists()


def test_what_is_no_release_is_not_listed(tmp_path: Path) -> None:
    DirectoryTarget(tmp_path).publish(prepared(release="2026-03-a"))
    for place, text in ((tmp_path / "x" / "y", "{"), (tmp_path / "clinic-visits" / "moved", None)):
        place.mkdir(parents=True)
        manifest = (tmp_path / "clinic-visits" / "2026-03-a" / "manifest.json").read_text()
        (place / "manifest.json").write_text(manifest if text is None else text)
    (tmp_path / "linked").symlink_to(tmp_path / "clinic-visits")
    assert [one.manifest.release_id for one in listed_in(tmp_path)] == ["2026-03-a"]
    assert "Nothing was published here yet" in catalogue_page([])


def test_an_object_store_keeps_its_list_too() -> None:
    target = ObjectStoreTarget(f"memory://{uuid.uuid4().hex}")
    target.publish(graded(prepared(release="2026-03-a", created=MARCH), "noise"))
    target.publish(graded(prepared(release="2026-04-b", created=APRIL), "good"))
    text = target._store.cat_file(f"{target._root}/{INDEX}").decode()
    newest, oldest = rows_of(text)
    assert (newest[0], newest[4], newest[6]) == ("2026-04-b", "good", "latest")
    links = [
        each.attributes["href"] for each in read_page(text).all("a") if not each.attributes["href"].startswith("#")
    ]
    assert [target._store.cat_file(f"{target._root}/{link}") for link in links] == [b"<html>card</html>"] * 2
    target.retire_old("clinic-visits", 1)
    assert rows_of(target._store.cat_file(f"{target._root}/{INDEX}").decode())[1][6] == "rows removed"
    assert oldest[6] == "earlier"

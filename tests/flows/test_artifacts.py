"""What Prefect shows of a release: its stages, plan, spend, card and verdict, of a database's release too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.flows.conftest import Clinic
from tests.warehouse import Warehouse
from understudy.pipelines.publishing.summary import plain
from understudy.tasks.telling.stages import ORDER

Run = Callable[..., Result]
TASKS = Path(__file__).resolve().parents[2] / "tasks"


def artifacts(name: str) -> dict[str, Any]:
    """The newest of each key. They are asked for by name: the server gives out two hundred at a time."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    wanted = ArtifactFilter(key=ArtifactFilterKey(like_=f"{name}%"))
    with get_client(sync_client=True) as client:
        found = sorted(client.read_artifacts(artifact_filter=wanted), key=lambda each: each.created)
    return {each.key.removeprefix(f"{name}-"): each for each in found if each.key and each.key.startswith(name)}


@pytest.mark.usefixtures("prefect_server")
def test_a_release_in_postgresql_shows_its_card_verdict_spend_and_stages(
    clinic: Clinic, run: Run, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.url)
    clinic.write(("name: clinic-visits", "name: in-postgres"),
                 ("{to: releases/}", "{to: 'postgresql+env://WAREHOUSE_URL', table: visits_copy}"))  # fmt: skip
    released = run("release", clinic.spec)
    assert released.exit_code == 0, released.output
    shown = artifacts("in-postgres")
    assert set(shown) == {"stages", "plan", "spend", "generate", "card", "verdict"}
    assert {each.type for each in shown.values()} == {"markdown", "table", "progress"}  # a link would lead nowhere
    assert (shown["stages"].data, shown["stages"].description) == (100.0, "in-postgres: published")
    card = shown["card"].data
    for words in ("## Verdict: ", "| epsilon | 1", "patient", "which has spent "):
        assert words in card
    place = "postgresql+env://WAREHOUSE_URL#visits_copy"
    assert f"understudy card '{place}'" in card
    assert warehouse.url not in card
    assert '"verdict"' in shown["verdict"].data or "usable with care" in str(shown["verdict"].data)
    assert "clinic |" in shown["spend"].data

    written = run("card", place, "--to", tmp_path / "card.html")
    assert (written.exit_code, "in-postgres" in written.output) == (0, True), written.output
    assert (tmp_path / "card.html").read_text() == warehouse.rows("SELECT card FROM understudy_releases")[0][0]


def test_every_stage_that_is_told_has_its_place_in_the_order() -> None:
    text = "".join(path.read_text() for path in TASKS.rglob("*.py"))
    told = {*re.findall(r'@stage\("(.+?)"\)', text), *re.findall(r'^DISCOVERING = "(.+?)"', text, re.MULTILINE)}
    assert told == set(ORDER)


def test_a_name_means_nothing_in_markdown() -> None:
    assert plain("<script>x</script> | `a` *b* [c](d)\n# e") == (
        "&lt;script&gt;x&lt;/script&gt; \\| \\`a\\` \\*b\\* \\[c\\]\\(d\\) \\# e"
    )

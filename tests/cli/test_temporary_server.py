"""The temporary server's folder belongs to its command from the first moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from understudy.cli import temporary_server
from understudy.cli.temporary_server import DATABASE, RUNNING, TemporaryServer
from understudy.pipelines.privacy.ledger.staging import remove_abandoned


def test_a_command_that_starts_meanwhile_does_not_take_the_folder_for_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight releases at once one could lose its server's database before the server had locked its folder."""
    first = TemporaryServer(tmp_path)
    first.wait()
    first.close()
    assert (tmp_path / DATABASE).exists()
    start = temporary_server._started
    seen = []

    def interrupted(scratch: Path, *rest: Any) -> Any:
        remove_abandoned(tmp_path, RUNNING)  # what another command does first
        seen.append(sorted(path.name for path in scratch.iterdir()))
        return start(scratch, *rest)

    monkeypatch.setattr(temporary_server, "_started", interrupted)
    second = TemporaryServer(tmp_path)
    try:
        assert seen == [[DATABASE]]
        remove_abandoned(tmp_path, RUNNING)
        assert (second.scratch / DATABASE).exists()
        second.wait()
    finally:
        second.close()
    assert list(tmp_path.glob(f"{RUNNING}*")) == []

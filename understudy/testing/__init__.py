"""Contracts of sources, targets and methods, as tests that any package can run on its own: docs/extending.md.

    from understudy.testing.sources import SourceContract

    class TestFeather(SourceContract):
        def write(self, table, place): ...
        def describe(self, place): ...

Every built-in one passes them (tests/contracts). They need pytest, and no orchestrator.
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "understudy.testing.sources", "understudy.testing.targets", "understudy.testing.methods"
)  # so that a broken promise is shown with its values

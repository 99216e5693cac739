"""A plugin for runs of named tests against a planted bug: the first failure of each is enough.

Hypothesis does not look for a smaller example, and the other cases of a test that has failed are not run.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "planted",
    phases=(Phase.explicit, Phase.generate),
    database=None,
    print_blob=False,
    suppress_health_check=tuple(HealthCheck),
)
settings.load_profile("planted")
_failed: set[str] = set()


def _named(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _named(item.nodeid) in _failed:
        pytest.skip("it has failed")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(_named(report.nodeid))

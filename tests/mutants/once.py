"""A plugin for runs of named tests against a planted bug: the first failure of each is enough.

Hypothesis does not look for a smaller example, and the other cases of a test that has failed are not run. Without a bug
(`FEW`) one case of each is run, on few examples: that all of them pass is what `make test` says.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutants.mutant import ENDLESS

settings.register_profile(
    "planted",
    phases=(Phase.explicit, Phase.generate),
    database=None,
    print_blob=False,
    suppress_health_check=tuple(HealthCheck),
)
settings.load_profile("planted")
FEW = "UNDERSTUDY_FEW_EXAMPLES"
_failed: set[str] = set()


def _named(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get(FEW):
        return
    items[:] = {_named(item.nodeid): item for item in reversed(items)}.values()
    for item in items:
        test = getattr(item, "obj", None)
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None:
            test._hypothesis_internal_use_settings = settings(own, max_examples=min(3, own.max_examples))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _named(item.nodeid) in _failed:
        pytest.skip("it has failed")
    signal.setitimer(signal.ITIMER_VIRTUAL, float(os.environ.get(ENDLESS, "0")))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(_named(report.nodeid))

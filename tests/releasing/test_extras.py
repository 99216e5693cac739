"""A package that is not there is missed before anything is paid, with the command that installs it."""

from __future__ import annotations

from typing import Any

import pytest

from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing import extras
from understudy.pipelines.spec.reading import spec_of

TREE: dict[str, Any] = {
    "name": "visits",
    "source": {"uri": "visits.parquet", "snapshot": "2026-10"},
    "privacy": {"account": "clinic", "epsilon": 1, "delta": 1e-6},
    "columns": {"age": {"type": "integer", "min": 0, "max": 110}, "sex": {"type": "category", "values": ["F", "M"]}},
    "publish": {"to": "releases"},
}


@pytest.mark.parametrize(
    ("changes", "package", "extra"),
    [
        ({"method": {"name": "kernel", "label": "sex"}}, "torch", "kernel"),
        ({"generate": {"device": "cuda"}}, "torch", "gpu"),
        ({"privacy": {**TREE["privacy"], "noise": "opendp"}}, "opendp", "opendp"),
        ({"compute": {"engine": "dask"}}, "distributed", "dask"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(
    changes: dict[str, Any], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of({**TREE, **changes})
    extras.require_extras(spec)
    found = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(SpecError, match=rf"{package}, which is not installed[\s\S]*understudy\[{extra}\]"):
        extras.require_extras(spec)


def test_a_default_release_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    extras.require_extras(spec_of(TREE))

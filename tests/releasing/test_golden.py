"""The same release as ever: with the same randomness, the same manifest, measurements and rows, to the last byte.

The manifests and measurements are those of commit 83f9b82, before there was one release core; where a later change was
meant to change them, its commit says so (`tests/releasing/golden.py` writes them anew).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.releasing.golden import METHODS, machine, released

EXPECTED = json.loads((Path(__file__).parent / "golden.json").read_text())


def known(found: Any, expected: Any) -> Any:
    """`found` without keys that came later: a manifest may say more, but not otherwise what it said."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return {key: known(value, expected[key]) for key, value in found.items() if key in expected}
    return found


def same(door: str, method: str, folder: Path) -> None:
    found, expected = json.loads(json.dumps(released(door, method, folder))), EXPECTED[f"{door} {method}"]
    assert known(found["manifest"], expected["manifest"]) == expected["manifest"]
    assert found["measurements"] == expected["measurements"]
    if machine() == EXPECTED["machine"]:  # rows are worked out in floating point, whose last bits are the machine's
        assert found["rows"] == expected["rows"]
        assert found["card"] == expected["card"]


@pytest.mark.parametrize("method", METHODS)
def test_a_release_by_the_python_interface_is_what_it_was(tmp_path: Path, method: str) -> None:
    same("python", method, tmp_path)


@pytest.mark.usefixtures("prefect_server", "home")
@pytest.mark.parametrize("method", METHODS)
def test_a_release_by_the_flow_is_what_it_was(tmp_path: Path, method: str) -> None:
    same("flow", method, tmp_path)

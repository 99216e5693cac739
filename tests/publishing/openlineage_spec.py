"""Events checked against OpenLineage's own JSON Schema, where somebody has it: the folder `spec` of a checkout of its
repository (`OpenLineage.json`, `facets/*.json`).

No package on PyPI or npm that we know of ships those files, and they are not ours to commit, so
`tests/publishing/openlineage.py` rebuilds events by the classes that are generated from them instead. With
UNDERSTUDY_OPENLINEAGE_SPEC naming the folder every event that a test checks is held against them too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

OWN = "urn:understudy:"
"""What facets of our own are called: their schema is ours as well."""
FOLDER = "UNDERSTUDY_OPENLINEAGE_SPEC"
_SITE = "https://openlineage.io/spec/"


def folder_of_the_schema() -> Path | None:
    named = os.environ.get(FOLDER)
    return Path(named) if named else None


def require_official(event: dict[str, Any], folder: Path) -> int:
    """AssertionError with all that the schemas do not allow; else how many facets were checked by a schema of their
    own. A facet whose file the folder does not have is checked by the core alone."""
    core = json.loads((folder / "OpenLineage.json").read_text())
    registry = Registry(retrieve=lambda uri: _retrieved(uri, core, folder))
    problems = _problems(event, f"{core['$id']}#/$defs/RunEvent", registry)
    checked = 0
    for facet in _facets(event):
        name = facet["_schemaURL"].rpartition("/")[2]
        file = folder / "facets" / f"{name}.json"
        if not facet["_schemaURL"].startswith(OWN) and file.exists():
            checked += 1
            problems += _problems(facet, f"{json.loads(file.read_text())['$id']}#/$defs/{name}", registry)
    assert not problems, problems
    return checked


def _problems(value: dict[str, Any], schema: str, registry: Registry) -> list[str]:
    checker = Draft202012Validator({"$ref": schema}, registry=registry, format_checker=FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(value)]


def _retrieved(uri: str, core: dict[str, Any], folder: Path) -> Resource:
    """Schemas name versions of each other that the folder may not have: what it has stands for every version."""
    name = uri.removeprefix(_SITE).rpartition("/")[2]
    found = core if name == "OpenLineage.json" else json.loads((folder / "facets" / name).read_text())
    return Resource.from_contents(found)


def _facets(holder: Any) -> Iterator[dict[str, Any]]:
    if isinstance(holder, dict):
        if "_schemaURL" in holder:
            yield holder
        for value in holder.values():
            yield from _facets(value)
    elif isinstance(holder, list):
        for value in holder:
            yield from _facets(value)

"""Events checked against OpenLineage: rebuilt as the classes that its Python client generates from its JSON Schema.

A facet must name the very version of the schema that the client has, have every field that it requires and none that it
does not know, and come out of the client as it went in. Where the schema itself is at hand it is asked as well.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
import typing
import uuid
from typing import Any

import attr
import openlineage.client.generated as generated
from openlineage.client.event_v2 import Dataset, InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.serde import Serde

from tests.publishing.openlineage_spec import OWN, folder_of_the_schema, require_official

MODULES = [importlib.import_module(f"{generated.__name__}.{m.name}") for m in pkgutil.iter_modules(generated.__path__)]
TOP = {"eventType", "eventTime", "producer", "schemaURL", "run", "job", "inputs", "outputs"}


def check_event(event: dict[str, Any]) -> RunEvent:
    """The event as the client has it, or an error that says what its schema does not allow."""
    assert set(event) <= TOP, set(event) - TOP
    assert {"eventTime", "producer", "schemaURL", "run", "job"} <= set(event)
    uuid.UUID(event["run"]["runId"])
    assert set(event["run"]) <= {"runId", "facets"}
    assert {"namespace", "name"} <= set(event["job"]) <= {"namespace", "name", "facets"}
    made = RunEvent(
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(event["run"]["runId"], _facets(event["run"])),
        job=Job(event["job"]["namespace"], event["job"]["name"], _facets(event["job"])),
        eventType=RunState(event["eventType"]),
        inputs=[_dataset(InputDataset, one, "inputFacets") for one in event.get("inputs", [])],
        outputs=[_dataset(OutputDataset, one, "outputFacets") for one in event.get("outputs", [])],
    )
    assert event["schemaURL"] == made.schemaURL
    _same(event, json.loads(Serde.to_json(made)), "event")
    if (folder := folder_of_the_schema()) is not None:
        assert require_official(event, folder) > 0
    return made


def _dataset(kind: type[Dataset], given: dict[str, Any], more: str) -> Dataset:
    assert {"namespace", "name"} <= set(given) <= {"namespace", "name", "facets", more}
    known = {more: _facets(given, more)} if more in given else {}
    return kind(given["namespace"], given["name"], facets=_facets(given), **known)


def _facets(holder: dict[str, Any], key: str = "facets") -> dict[str, Any]:
    found = {}
    for name, facet in holder.get(key, {}).items():
        assert facet["_producer"]
        if facet["_schemaURL"].startswith(OWN):  # a facet of our own: its schema is ours as well
            continue
        class_name = facet["_schemaURL"].rpartition("/")[2]
        [kind] = {vars(module)[class_name] for module in MODULES if class_name in vars(module)}
        assert kind._get_schema() == facet["_schemaURL"], name
        fields = {field: value for field, value in facet.items() if not field.startswith("_")}
        made = _made(kind, fields)
        made._producer = facet["_producer"]
        found[name] = made
    return found


def _made(kind: Any, value: Any) -> Any:
    """The value as an instance of the client's class; nothing that the class lacks or does not know."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        [kind] = [each for each in arguments if each is not type(None)]
        return None if value is None else _made(kind, value)
    if origin is list:
        return [_made(arguments[0], each) for each in value]
    if origin is dict:
        return {name: _made(arguments[1], each) for name, each in value.items()}
    if attr.has(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _made(hints[name], each) for name, each in value.items()})
    assert isinstance(value, kind | int if kind is float else kind), (kind, value)
    return value


def _same(ours: Any, theirs: Any, where: str) -> None:
    """All that we wrote came through; what the client adds is empty."""
    if isinstance(ours, dict):
        for name, value in ours.items():
            own = isinstance(value, dict) and str(value.get("_schemaURL", "")).startswith(OWN)
            if not own and value not in ({}, []):
                _same(value, theirs[name], f"{where}.{name}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            _same(one, other, f"{where}[{place}]")
    else:
        assert ours == theirs, where

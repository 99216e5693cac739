"""The JSON Schema of a spec, for editors: every key with its description and default, and each method's own options.

It ships as a file, so that an editor needs no Python; `make reference` writes it and a test compares.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.resources import files
from typing import Any

from understudy.pipelines.spec.model import ReleaseSpec

FILE = "spec.schema.json"
ID = "understudy-release-spec"
_OPTIONS = {
    "privpgd": "understudy.pipelines.methods.privpgd.options:PrivPGDOptions",
    "gaussian": "understudy.pipelines.methods.gaussian.options:GaussianOptions",
    "mixing": "understudy.pipelines.methods.mixing.options:MixingOptions",
    "kernel": "understudy.pipelines.methods.kernel.options:KernelOptions",
}
_OTHER_METHOD = {
    "title": "of another package",
    "type": "object",
    "properties": {
        "name": {"type": "string", "not": {"enum": list(_OPTIONS)}, "description": "a method that a package offers"}
    },
    "required": ["name"],
}
_EVERYWHERE = {
    "type": "what the column holds",
    "min": "the lowest value; lower ones count as it. From what is known, never from the data",
    "max": "the highest value; higher ones count as it. From what is known, never from the data",
    "bins": "into how many bins (or which periods) the range is cut: fewer are coarser and less noisy",
    "scale": "linear: bins of equal width; log: bins widen with the distance from min",
    "nullable": "true if the table may hold nulls: they are kept as such",
    "values": "what the column can hold. From what is known, never from the data",
    "action": "drop: leave it out; surrogate: publish fresh ids, one a row",
    "shape": "the size of each tensor, such as [28, 28]",
    "spikes": "values that many rows hold exactly",
}
"""Keys that mean the same in every column, where the model itself has no words for them."""


def shipped_schema() -> str:
    return (files(__package__) / FILE).read_text(encoding="utf-8")


def spec_schema() -> dict[str, Any]:
    schema = ReleaseSpec.model_json_schema()
    definitions = schema["$defs"]
    definitions["MethodSpec"] = {
        "title": "MethodSpec",
        "description": "which method copies the table, and its own options",
        "oneOf": [*(_method(name, definitions) for name in _OPTIONS), _OTHER_METHOD],
    }
    schema["title"] = "Understudy release spec"
    for name in ("IntegerColumn", "NumberColumn"):  # bins that list their edges say min and max
        definitions[name]["required"] = ["type"]
        listed = {"required": ["bins"], "properties": {"bins": {"type": "array"}}}
        definitions[name]["anyOf"] = [{"required": ["min", "max"]}, listed]
    _tell_by_keys(definitions)
    _leave_open(definitions)
    del schema["properties"]["columns"]["additionalProperties"]["discriminator"]  # it knows them by their inner types
    for model in (schema, *definitions.values()):
        for key, described in model.get("properties", {}).items():
            if key in _EVERYWHERE:
                described.setdefault("description", _EVERYWHERE[key])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID, **_with_periods(schema)}


def _tell_by_keys(definitions: dict[str, Any]) -> None:
    """Columns that are made of others, as people write them (`spec.derived.tagged`)."""
    later, derived, lookup = (definitions[name] for name in ("LaterColumn", "DerivedColumn", "LookupColumn"))
    later["properties"]["type"] = {"const": "datetime"}
    span = {key: later["properties"]["up_to"].pop(key) for key in ("type", "minimum", "maximum")}
    later["properties"]["up_to"]["anyOf"] = [span, {"type": "string", "pattern": r"^[1-9][0-9]{0,8} ?(s|min|h|d|w)$"}]
    listed = {key: value for key, value in lookup["properties"]["table"].items() if key != "description"}
    told = {"description": lookup["properties"]["table"]["description"]}
    lookup["properties"]["table"] = {**told, "anyOf": [listed, {"type": "string"}]}
    for made in (derived, lookup):
        made["required"].remove("type")


_OPEN_KEYS: dict[str, dict[str, Any]] = {
    "CategoryColumn": {"values": "discover"},
    "IntegerColumn": {"min": "discover", "max": "discover", "bins": ("quantiles", "auto"), "spikes": "discover"},
    "NumberColumn": {"min": "discover", "max": "discover", "bins": ("quantiles", "auto"), "spikes": "discover"},
    "DateColumn": {"min": "discover", "max": "discover"},
    "DatetimeColumn": {"min": "discover", "max": "discover"},
}
_ABOUT = ("description", "default", "title")


def _leave_open(definitions: dict[str, Any]) -> None:
    """`discover` in the place of what nobody can say, as people write it (`spec.open`)."""
    opened = definitions["OpenColumn"]
    own = {key: opened["properties"][key] for key in ("most", "longest")}
    opened["properties"] = {"type": {"const": "discover"}, "nullable": {"type": "boolean"}, **own}
    opened["required"] = ["type"]
    for name, keys in _OPEN_KEYS.items():
        properties = definitions[name]["properties"]
        for key, words in keys.items():
            told = {about: properties[key][about] for about in _ABOUT if about in properties[key]}
            usual = {about: value for about, value in properties[key].items() if about not in _ABOUT}
            marks = {"enum": [words] if isinstance(words, str) else list(words)}
            properties[key] = {**told, "anyOf": [usual, marks]}
        properties.update(own)
    more = {"const": "discover", "description": "values beside those listed are discovered"}
    definitions["CategoryColumn"]["properties"]["more"] = more


def _method(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    module, _, attribute = _OPTIONS[name].partition(":")
    options = getattr(import_module(module), attribute).model_json_schema(ref_template="#/$defs/{model}")
    definitions.update(options.pop("$defs", {}))
    named = {"const": name, "default": name, "description": "which method copies the table"}
    return {
        "title": name,
        "type": "object",
        "properties": {"name": named, **options["properties"]},
        "required": [] if name == "privpgd" else ["name"],  # the default one
        "additionalProperties": False,
    }


def _with_periods(node: Any) -> Any:
    """Days and moments may also be placeholders such as {{ month_start }}."""
    if isinstance(node, dict):
        if node.get("type") == "string" and node.get("format") in ("date", "date-time"):
            rest = {key: value for key, value in node.items() if key not in ("type", "format")}
            either = [{"type": "string", "format": node["format"]}, {"type": "string", "pattern": r"\{\{.+\}\}"}]
            return {**rest, "anyOf": either}
        return {key: _with_periods(value) for key, value in node.items()}
    return [_with_periods(value) for value in node] if isinstance(node, list) else node


if __name__ == "__main__":
    json.dump(spec_schema(), sys.stdout, indent=1)
    sys.stdout.write("\n")

"""A spec from its YAML: periods filled in, and every mistake told by its key, its line and what to do."""

from __future__ import annotations

import datetime as dt
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.lists import with_lists
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import MOST_DEPTH, fill, period_named
from understudy.pipelines.spec.tables import with_tables

MAX_SPEC_BYTES = 1_000_000
MOST_ALIASES = 1_000
MOST_MERGED = 20_000
MOST_LINES = 20
_KINDS = {"timestamp": "date", "int": "whole number", "float": "number", "bool": "true or false"}
_BOOL, _INT = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:int"
_FIX = "correct the keys named above; `understudy schema` prints what a spec may say"
_UNION_TAGS = frozenset(
    {
        "category",
        "integer",
        "number",
        "boolean",
        "date",
        "datetime",
        "tensor",
        "identifier",
        "text",
        "later",
        "derived",
        "lookup",
        "discover",
    }
)


def load_spec(path: Path, at: dt.datetime | None = None, any_snapshot: bool = False) -> ReleaseSpec:
    """Read a spec file; any mistake is one SpecError that names the key, its line and what to do."""
    root, tree = parse_tree(read_spec(path), str(path))
    tree = with_tables(with_lists(tree, path.parent), path.parent)
    return spec_of(tree, at, root, str(path), any_snapshot)


def read_spec(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for, a device never ends
            raise SpecError(f"cannot read the spec {path}: it is not a file", "name its YAML file")
        if found.st_size > MAX_SPEC_BYTES:
            raise SpecError(f"{path}: a spec has at most {MAX_SPEC_BYTES:,} bytes", "is this really a spec?")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read the spec {path}: {_reason(error)}", "check the path") from None


def parse_spec(text: str, origin: str = "spec", at: dt.datetime | None = None) -> ReleaseSpec:
    """`at` fills in periods such as {{ month }}, in the schedule's time zone; by default it is now."""
    root, tree = parse_tree(text, origin)
    return spec_of(tree, at, root, origin)


def spec_of(
    tree: dict[str, Any],
    at: dt.datetime | None = None,
    root: yaml.Node | None = None,
    origin: str = "spec",
    any_snapshot: bool = False,
) -> ReleaseSpec:
    """The spec a YAML tree says, its periods filled in.

    The snapshot of a rolling release must be its period's label. `any_snapshot` leaves that to `releasing.rolling`,
    which knows what was measured under another name before this was asked for, and lets nothing new be.
    """
    schedule = tree.get("schedule")
    time_zone = schedule.get("timezone", "UTC") if isinstance(schedule, dict) else "UTC"
    tree = fill(tree, at or dt.datetime.now(dt.UTC), str(time_zone))
    try:
        spec = ReleaseSpec.model_validate(tree)
    except ValidationError as error:
        raise SpecError(_explained(error, root, origin), _FIX) from None
    if not any_snapshot and spec.rolling is not None:
        period_named(spec.rolling.period, spec.source.snapshot)
    return spec


def parse_tree(text: str, origin: str = "spec") -> tuple[yaml.Node | None, dict[str, Any]]:
    """The YAML of a spec as nodes, which know their lines, and as plain values with periods not yet filled in."""
    try:
        loader = _SpecLoader(text)
        root = loader.get_single_node()
        tree = loader.construct_document(root) if root is not None else None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it has a character that YAML does not allow"
        raise SpecError(f"{origin}:{where} not valid YAML: {problem}", "fix that line") from None
    if not isinstance(tree, dict):
        raise SpecError(
            f"{origin}: a spec is a mapping with the keys {', '.join(ReleaseSpec.model_fields)}", "see docs/spec.md"
        )
    return root, tree


class _SpecLoader(yaml.SafeLoader):
    """PyYAML, with three surprises less, each of which would silently change what is counted, and within bounds.

    A repeated key is an error and does not replace the first. As in YAML 1.2, `no` is a word and not false (Norway's
    country code is NO), and 010 or 12:30 are not numbers in another base.

    Nesting, aliases and merged keys are counted while they are read, since what they unfold to could be endless; and a
    value that Python cannot make, such as 2026-02-30, is an error of its line.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
        if self._aliases > MOST_ALIASES:
            raise _refusal("there are too many aliases", self._here())
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise _refusal("it is nested too deeply", self._here())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def _here(self) -> yaml.Mark:
        peek: Callable[[], Any] = self.peek_event  # PyYAML's stubs leave it untyped
        mark: yaml.Mark = peek().start_mark
        return mark

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MOST_MERGED:
            raise _refusal("too many keys are merged", node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
        raise _refusal(f"this is not a possible {_KINDS.get(kind, 'value')}", node.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal("a key is a list or a mapping", key.start_mark)
            if key.value in seen:
                raise _refusal(f"{key.value[:60]!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_SpecLoader.yaml_implicit_resolvers = {
    first: [rule for rule in rules if rule[0] not in (_BOOL, _INT)]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_SpecLoader.add_implicit_resolver(_BOOL, re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_SpecLoader.add_implicit_resolver(_INT, re.compile("^[-+]?(?:0|[1-9][0-9_]*)$"), list("-+0123456789"))


def _refusal(problem: str, mark: yaml.Mark) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, mark)


def _explained(error: ValidationError, root: yaml.Node | None, origin: str) -> str:
    problems = error.errors(include_input=False, include_url=False)
    lines = [_explain(problem, root, origin) for problem in problems[:MOST_LINES]]
    return "\n".join(lines + [f"... and {len(problems) - MOST_LINES} more"] * (len(problems) > MOST_LINES))


def _explain(problem: Any, root: yaml.Node | None, origin: str) -> str:
    """One line for one pydantic error: file, line, key, what is wrong."""
    path = [part for part in problem["loc"] if not (isinstance(part, str) and part in _UNION_TAGS)]
    key = ".".join(str(part) for part in path) or "spec"
    line = _line_of(root, path)
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = f"unknown key; valid ones: {_valid_keys(problem['loc'])}"
    elif problem["type"] == "missing":
        message = "this key is missing"
    elif problem["type"] == "union_tag_invalid":
        message = f"unknown column type; valid ones: {', '.join(sorted(_UNION_TAGS))}"
    elif problem["type"] == "union_tag_not_found":
        message = f"a column needs a `type`; valid ones: {', '.join(sorted(_UNION_TAGS))}"
    return f"{origin}:{f' line {line}:' if line else ''} {key}: {message}"


def _valid_keys(location: tuple[Any, ...]) -> str:
    """The keys of the model that holds the unknown one, found in the JSON schema."""
    schema = ReleaseSpec.model_json_schema()
    node: Any = schema
    for part in location[:-1]:
        node = _resolve(schema, node)
        if part in node.get("properties", {}):
            node = node["properties"][part]
        elif "discriminator" in node and part in node["discriminator"].get("mapping", {}):
            node = {"$ref": node["discriminator"]["mapping"][part]}
        else:
            node = node.get("additionalProperties", {})
    return ", ".join(_resolve(schema, node).get("properties", {}))


def _resolve(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """What is referred to; of something that may be left out, what it is where it is there."""
    while "$ref" in node or "anyOf" in node:
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
        else:
            node = next((each for each in node["anyOf"] if each.get("type") in (None, "object")), {})
    return node


def _line_of(node: yaml.Node | None, path: list[Any]) -> int | None:
    line = node.start_mark.line + 1 if node else None
    for part in path:
        if not isinstance(node, yaml.MappingNode):
            break
        for key, value in node.value:
            if key.value == str(part):
                node, line = value, key.start_mark.line + 1
                break
        else:
            break
    return line


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "it is not UTF-8 text"

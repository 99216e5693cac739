"""Whatever is in a spec's file, reading and planning it either works or is one UnderstudyError."""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import MAX_SPEC_BYTES, load_spec, parse_spec

AT = dt.datetime(2026, 10, 15, tzinfo=dt.UTC)


def read_and_plan(text: str) -> None:
    try:
        spec = parse_spec(text, "fuzzed.yaml", AT)
        open_source(spec.source, Path("/nowhere"), spec)
        plan_release(spec)
    except UnderstudyError as refusal:
        told = str(refusal)
    else:
        return
    assert 0 < len(told) < 20_000


SCHEMA = ReleaseSpec.model_json_schema()
KEYS = sorted({key for part in [SCHEMA, *SCHEMA["$defs"].values()] for key in part.get("properties", {})})
WORDS = sorted(
    {
        str(value)
        for part in SCHEMA["$defs"].values()
        for field in part.get("properties", {}).values()
        for choice in (field, *field.get("anyOf", ()))
        for value in (*choice.get("enum", ()), *([choice["const"]] if "const" in choice else ()))
    }
)
ODD: list[Any] = [
    "", " ", "{{ month }}", "{{ x }}", "{{", "2026-10", "2026-02-30", "../x", "postgresql://a@b/c", "s3://b/x", "nan",
    "inf", "-inf", "1e999", 0, -1, 1, 2**53, 2**63, 2**64, 10**400, -(10**400), 1e308, -1e308, 1e-308, 0.5, True, False,
    None, [], {}, [[]], [None], dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.datetime(1, 1, 1),
    dt.datetime(9999, 12, 31, 23), "add_remove", "a\0b", "x" * 300, "@", "visit_id", "patient_id", "age", "sex",
]  # fmt: skip
VALUES = st.recursive(
    st.one_of(st.sampled_from(ODD), st.sampled_from(WORDS), st.integers(), st.floats(), st.text(max_size=20),
              st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=8), st.integers(0, 9)), inner, max_size=4),
    ),
    max_leaves=8,
)  # fmt: skip
METHODS = [
    {"name": "privpgd", "marginals": "adaptive"}, {"name": "privpgd"}, {"name": "gaussian"},
    {"name": "mixing", "label": "sex"}, {"name": "kernel", "label": "sex"},
]  # fmt: skip


def paths(tree: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [here, *(path for key, child in children for path in paths(child, (*here, key)))]


@st.composite
def changed_specs(draw: st.DrawFn) -> str:
    """A spec that is right, with a method of its own and up to three places changed, removed or added to."""
    tree = yaml.safe_load(SPEC)
    tree["method"] = dict(draw(st.sampled_from(METHODS)))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in paths(tree) if path]))
        parent = tree
        for key in path[:-1]:
            parent = parent[key]
        match draw(st.sampled_from(["change", "change", "remove", "add"])):
            case "change":
                parent[path[-1]] = deepcopy(draw(VALUES))
            case "remove":
                del parent[path[-1]]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KEYS))] = deepcopy(draw(VALUES))
    return str(yaml.safe_dump(tree, allow_unicode=True))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(changed_specs())
def test_a_spec_with_anything_anywhere_is_planned_or_refused(text: str) -> None:
    read_and_plan(text)


NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 3, 9_999, 10_000, 2**31, 2**53, 1e-300, 1e-12, 1e-6, 0.999, 1e6, 1e15, 1e300]),
    st.integers(-10, 2000), st.floats(0, 100), st.floats(1e-320, 1e308), st.decimals(0, 10, places=3).map(float),
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_spec_with_any_numbers_is_planned_or_refused(data: st.DataObject) -> None:
    """Most of these are possible specs, so that it is the methods which have to answer."""
    tree = yaml.safe_load(SPEC)
    tree["method"] = dict(data.draw(st.sampled_from(METHODS)))
    places = [("privacy", "epsilon"), ("privacy", "delta"), ("privacy", "unit", "max_rows"), ("columns", "age", "max"),
              ("columns", "age", "min"), ("columns", "age", "bins"), ("columns", "charge", "max"),
              ("columns", "charge", "min"), ("columns", "charge", "bins")]  # fmt: skip
    for place in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=2, unique=True)):
        *above, last = place
        parent = tree
        for key in above:
            parent = parent[key]
        parent[last] = data.draw(NUMBERS)
    if data.draw(st.booleans()):
        tree["privacy"]["relation"] = "replace_one"
    read_and_plan(yaml.safe_dump(tree))


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda b: b.decode("latin-1"))))
@example("? [a, b]\n: c")
@example("? {a: b}\n: c")
@example("!!bool maybe")
@example("!!float x")
@example("!!int x")
@example("!!timestamp x")
@example("!!binary é")
@example("!!omap [a]")
@example("!!set {a, [b]}")
@example("<<: 1")
@example("<<: [1]")
@example("a: &a {<<: *a}")
@example("%YAML 9.9\n---\na")
@example("a: b\n---\nc: d")
def test_any_text_is_planned_or_refused(text: str) -> None:
    read_and_plan(text)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SPEC) - 1), st.text(alphabet="{}[]&*!|>'\"%@`-:,#?\n\t \0é0", min_size=1, max_size=4))
def test_a_spec_with_a_slip_of_the_pen_is_planned_or_refused(at: int, slip: str) -> None:
    read_and_plan(SPEC[:at] + slip + SPEC[at + len(slip) :])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b"\xef\xbb\xbfname: x")
def test_any_bytes_in_a_file_are_a_spec_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fuzzed.yaml"
    path.write_bytes(content)
    with suppress(SpecError):
        load_spec(path, AT)


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 900 + "]" * 900, "[" * 50_000, "\n".join(" " * i + "a:" for i in range(900)), "a: " + "9" * 5000,
     "a: " + "{{" * 40_000, 'a: "{{' + " " * 200_000 + '"', "a: !!float " + "9:" * 3000 + "1",
     "a0: &a0 {k: v}\n" + "\n".join(f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 9)),
     "a0: &a0 [x]\n" + "\n".join(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 900)),
     "? &a [x, x]\n: y\nb: {? [*a, *a] : z}", "a: &a [x]\nb: [" + "*a, " * 5000 + "]"],
    ids=lambda text: text[:24],
)  # fmt: skip
def test_what_unfolds_without_end_is_refused(text: str) -> None:
    with pytest.raises(UnderstudyError):
        parse_spec(text, "endless.yaml", AT)


def test_a_spec_of_the_largest_size_is_read(tmp_path: Path) -> None:
    values = ", ".join(f"v{i}" for i in range(10_000))
    names = [f"c{i}" for i in range(8)]
    columns = "".join(f"  {name}: {{type: category, values: [{values}]}}\n" for name in names)
    text = SPEC.replace("columns:\n", "columns:\n" + columns)
    assert len(text) < MAX_SPEC_BYTES
    path = tmp_path / "large.yaml"
    path.write_text(text)
    assert set(names) < set(load_spec(path, AT).columns)


@pytest.mark.parametrize("at", [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC)])
def test_a_time_at_the_end_of_the_calendar_is_refused(at: dt.datetime) -> None:
    with pytest.raises(UnderstudyError, match="calendar"):
        parse_spec(SPEC.replace('"2026-10"', '"{{ month }}"'), "spec", at)

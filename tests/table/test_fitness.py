"""What a copy is good for is told from declarations: resolutions, spikes, what is made up, and better declarations."""

from __future__ import annotations

from typing import Any

from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.fitness import fitness_of, shape_advice, type_advice


def spec(columns: dict[str, Any], **method: Any) -> ReleaseSpec:
    return spec_of(
        {
            "name": "t",
            "source": {"uri": "t.parquet", "snapshot": "s"},
            "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
            "columns": columns,
            "method": method or {"name": "privpgd"},
            "publish": {"to": "out"},
        }
    )


def told(columns: dict[str, Any], **method: Any) -> dict[str, tuple[str, tuple[str, ...], str]]:
    given = spec(columns, **method)
    return {one.column: (one.resolution, one.exact, one.caution) for one in fitness_of(given, TableDomain.of(given))}


def test_resolutions_and_spikes_are_told() -> None:
    found = told(
        {
            "age": {"type": "integer", "min": 0, "max": 9},
            "tip": {"type": "number", "min": 0, "max": 40, "bins": 4, "decimals": 2, "spikes": [0]},
            "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
            "start": {"type": "datetime", "min": "2026-01-05", "max": "2026-02-01T23:59", "bins": "week",
                      "parts": ["date", "hour"]},
            "end": {"type": "datetime", "after": "start", "up_to": "1h"},
            "twice": {"derive": "tip + tip"},
        }
    )  # fmt: skip
    assert found["age"][0] == "exact"
    assert found["tip"] == ("bins of 10, in steps of 0.01", ("0",), "")
    assert found["seen"][0] == "bins of 24 hours, in whole days"
    assert found["start"][0] == "date in bins of 7 days, hour in exact"
    assert found["end"][1] == ("never before start",)
    assert found["twice"][1] == ("= tip + tip",)


def test_the_mix_of_classes_of_mixing_is_made_up_unless_it_is_asked_for() -> None:
    columns = {"x": {"type": "number", "min": 0, "max": 1}, "y": {"type": "category", "values": ["a", "b"]}}
    assert "made up" in told(columns, name="mixing", label="y", rows=1000)["y"][2]
    assert told(columns, name="mixing", label="y", rows=1000, balance="sizes")["y"][2] == ""


def test_better_declarations_are_advised() -> None:
    given = spec(
        {
            "price": {"type": "number", "min": 1000, "max": 500_000, "scale": "log"},
            "income": {"type": "integer", "min": -20_000, "max": 500_000, "scale": "log"},
            "tip": {"type": "number", "min": 0, "max": 10},
            "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
            "spiky": {"type": "number", "min": 1, "max": 10, "spikes": [5]},
        },
        name="gaussian",
    )
    words = "\n".join(shape_advice(given, TableDomain.of(given)))
    for name, advice in {
        "price": "ratio",
        "income": "signed",
        "tip": "spikes: [0]",
        "seen": "parts",
        "spiky": "copula",
    }.items():
        assert any(line.startswith(name) and advice in line for line in words.splitlines()), (name, words)


def test_whole_numbers_that_are_declared_numbers_lose_what_is_told() -> None:
    columns = {
        "fare": {"type": "number", "min": 0, "max": 100, "bins": 10},
        "tip": {"type": "number", "min": 0, "max": 100, "bins": 10, "decimals": 0, "spikes": [0]},
        "stars": {"type": "number", "min": 0, "max": 10, "bins": 10, "step": 1},
        "rest": {"type": "number", "min": 5, "max": 100, "bins": 10},
        "real": {"type": "number", "min": 0, "max": 100},
        "count": {"type": "integer", "min": 0, "max": 100},
    }
    types = dict.fromkeys(columns, "int32") | {"rest": "decimal128(10, 0)", "real": "decimal128(10, 2)"}
    told = {line.partition(":")[0]: line for line in type_advice(TableDomain.of(spec(columns)), types)}
    assert list(told) == ["fare", "tip", "rest"]
    assert all("type: integer" in line and "spikes" in line for line in told.values())
    assert "exact zeros" in told["fare"]
    assert "bins of 10" in told["fare"]
    assert "next bin" in told["fare"]
    assert "exact zeros" not in told["tip"]
    assert "spread" in told["tip"]
    assert "next bin" not in told["tip"]
    assert "exact zeros" not in told["rest"]
    assert "decimal128(10, 0)" in told["rest"]
    assert type_advice(TableDomain.of(spec(columns)), {}) == []


def test_wide_bins_are_told_in_days_and_whole_numbers() -> None:
    found = told(
        {
            "seen": {"type": "datetime", "min": "2016-01-01", "max": "2027-01-01", "bins": "quarter"},
            "paid": {"type": "number", "min": 0, "max": 1_000_000, "bins": 4},
        }
    )
    assert found["seen"][0] == "bins of 90 to 92 days, in whole days"
    assert found["paid"][0] == "bins of 250,000"

"""The card: small, self-contained, readable by everybody, and drawn from public values alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pages import Page, faults, read_page
from understudy.api import Synthesizer
from understudy.pipelines.counting.released import noisy_total, released_marginals
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.publishing.card.pairs import cramers_v, noise_alone
from understudy.pipelines.publishing.card.parts import MeasuredColumn
from understudy.pipelines.publishing.card.rendering import MOST_BYTES, render_card
from understudy.pipelines.publishing.manifest import (
    AccountState,
    Manifest,
    NoiseFact,
    QualityFact,
    TableGrade,
    VerdictFact,
    charged_event,
    guarantee_of,
    public_spec,
    software_versions,
)
from understudy.pipelines.publishing.pages.charts import nice, percent, tree_drawing
from understudy.pipelines.releasing.asking import PublishedRelease
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

LONG = "a column with a name of sixty letters so that it fits nowhere"[:60]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ sections }}",
    "'; DROP TABLE x; --",
    "${7*7}",
    "عمر المريض",
    "🙂🚑 emoji",
    LONG,
]
CATEGORIES = [f"category {number} {'w' * (number % 50)}" for number in range(500)]
KINDS: list[dict[str, Any]] = [
    {"type": "integer", "min": 0, "max": 110, "bins": 32},
    {"type": "number", "min": 0, "max": 20000, "bins": 32, "nullable": True, "spikes": [0]},
    {"type": "date", "min": "2020-01-01", "max": "2026-12-31", "bins": "month"},
    {"type": "category", "values": ["F", "M", "</td><script>alert(2)</script>"], "nullable": True},
    {"type": "boolean"},
    {"type": "datetime", "min": "2026-01-01", "max": "2026-12-31", "bins": 24},
    {"type": "category", "values": CATEGORIES, "other": True},
]


def wide_columns(many: int) -> dict[str, Any]:
    names = [*HOSTILE, *(f"{LONG[:56]} {number:03d}" for number in range(many))]
    return {name: KINDS[place % len(KINDS)] for place, name in enumerate(names[:many])}


def made_card(columns: dict[str, Any], rows: int = 300) -> str:
    """Of a release that nobody measured: every part of a card that there can be."""
    tree = {
        "name": "wide",
        "source": {"uri": "x.csv", "snapshot": "2026-10"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
        "columns": columns,
        "publish": {"to": "out"},
    }
    spec = spec_of(tree)
    domain, rng = TableDomain.of(spec), np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, rows) for size in domain.sizes], axis=1)
    table = decode(codes.astype(int), domain, rng, [])
    known = {column.name: MeasuredColumn(rng.random(column.size) / column.size, 0.01) for column in domain.columns}
    names = domain.names
    grades = tuple(TableGrade(table=name, grade="noise", off=1.5, std=20.0) for name in names)
    manifest = Manifest(
        name="wide",
        release_id="2026-10-abcdef012345",
        snapshot="2026-10",
        created_at="2026-11-01T00:00:00+00:00",
        guarantee=guarantee_of(
            Loss(1.0, 1e-6, "analytic"), spec, [charged_event("marginals", "m" * 64, Gaussian(4.0), "s" * 64)]
        ),
        account=AccountState(name="a", cap_epsilon="3", cap_delta="1e-6", spent_epsilon=1.0, releases_charged=1),
        method="privpgd",
        steps=("count", "add noise"),
        noise=(
            *(NoiseFact(query=name, numbers=3, std=20.0) for name in names),
            *(NoiseFact(query=f"{a} x {b}", numbers=9, std=2.0) for i, a in enumerate(names) for b in names[i + 1 :]),
        ),
        rows=rows,
        columns=tuple(table.column_names),
        spec_hash=spec.hash,
        spec=public_spec(spec),
        versions=software_versions(),
        quality=tuple(
            QualityFact(column=name, shares={"fine": 0.7, "null": 0.1, "unreadable": 0.2}, std=0.01, alarming=True)
            for name in names
        ),
        left_out=("<b>gone</b>",),
        verdict=VerdictFact(grade="noise", sentence="noise: all of it.", smallest_group=1234, columns=grades),
    )
    agreements = [Agreement(name, 0.01, 0.05) for name in names] + [Agreement("rule: <i>a</i> <= b", 0.0, 0.0)]
    return render_card(manifest, Synthetic(table, domain), known, agreements, 0.3)


@cache
def wide_card(many: int) -> str:
    return made_card(wide_columns(many))


@cache
def wide_page(many: int) -> Page:
    return read_page(wide_card(many))


@pytest.mark.parametrize("many", [40, 100])
def test_wide_tables_have_small_cards_that_load_and_run_nothing(many: int) -> None:
    card = wide_card(many)
    assert len(card.encode()) <= MOST_BYTES == 2_000_000
    page = wide_page(many)
    assert faults(page) == []
    assert {each.text for each in page.all("h3")} >= {*HOSTILE}


def test_a_card_that_would_be_too_large_tells_less() -> None:
    columns = {f"{LONG[:50]} {number:03d}": KINDS[-1] for number in range(100)}
    card = made_card(columns, rows=50)
    assert len(card.encode()) <= MOST_BYTES
    assert "489 rarer ones" in card or "490 rarer ones" in card


def test_the_first_screen_says_what_how_private_how_good_and_what_not_for() -> None:
    sections = wide_page(40).sections
    assert "300 rows" in sections["What this is"]
    assert "epsilon 1" in sections["How private"]
    assert "Verdict: noise" in sections["How good"]
    assert "below 1,234 rows" in sections["What it is not for"]
    assert "Columns that are noise: <script>alert(1)</script>" in sections["What it is not for"]
    assert "Columns of which much was not read" in sections["What it is not for"]
    assert "Rule, kept by every row: <i>a</i> <= b" in sections["Checks and rules"]
    assert "<b>gone</b>" in sections["Columns that are missing"]
    for line in (
        "pd.read_parquet('data')",
        "FROM 'data/*.parquet'",
        "understudy verify .",
        "understudy ask .",
        "@misc{",
    ):
        assert line in sections["Use it"]


def test_nothing_is_cut_off_in_charts_since_their_labels_are_text_of_the_page() -> None:
    page = wide_page(40)
    assert not page.all("text")
    assert {"0", "55", "110", "2020-01-01", "2026-12-31"} <= {each.text for each in page.all("span")}
    assert {each.text for each in page.all("th")} & {*CATEGORIES}


SPEC: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-10",
    "privacy": {"account": "a", "epsilon": 1.0, "delta": 1e-6, "quality": 0.05},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "sex": {"type": "category", "values": ["F", "M", "X"]},
        "smoker": {"type": "boolean", "nullable": True},
    },
    "generate": {
        "epochs": 5,
        "particles": 1000,
        "device": "cpu",
        "rules": [{"forbid": {"sex": ["X"], "smoker": [True]}}],
    },
}


def test_a_card_is_drawn_from_what_is_published_and_from_nothing_else(tmp_path: Path) -> None:
    """Drawn again from the published files alone, it says the same; what the ledger and the checks add is named."""
    import pyarrow as pa

    rng = np.random.default_rng(3)
    sex = rng.choice(["F", "M", "X"], 2000)
    smoker = rng.choice([True, False], 2000) & (sex != "X")
    table = pa.table({"age": rng.integers(0, 110, 2000), "sex": sex, "smoker": smoker})
    place = Path(Synthesizer(SPEC, cap=(3, 1e-6), home=tmp_path / "home").fit(table).release().save(tmp_path / "out"))
    published = PublishedRelease(str(place))
    manifest, told = published.manifest, published.manifest.spec
    spec = ReleaseSpec.model_validate(
        {**told, "source": {**told["source"], "uri": "nowhere"}, "publish": {"to": "nowhere"}}
    )
    domain, measured = TableDomain.of(spec), published._measured
    assert measured is not None
    total = noisy_total(measured.measurement)
    known = {
        domain.names[clique[0]]: MeasuredColumn(np.asarray(noisy, float) / total, std / total)
        for clique, noisy, std in released_marginals(measured.measurement)
        if len(clique) == 1 and clique[0] < len(domain.names)
    }
    again = read_page(render_card(manifest, Synthetic(published.table, domain), known, [], 0.0)).sections
    card = read_page((place / "card.html").read_text(encoding="utf-8")).sections
    assert [*card] == [*again]
    assert {name for name in card if card[name] != again[name]} <= {"Checks and rules"}
    assert "forbidden sex and smoker" in card["Checks and rules"]
    assert "Distance to what was measured" in card["Checks and rules"]


def test_the_strength_of_pairs_and_what_noise_makes_of_it() -> None:
    alike = np.diag([50, 30, 20])
    apart = np.outer([50, 30, 20], [6, 4])
    assert cramers_v(alike) == pytest.approx(1)
    assert cramers_v(apart) == pytest.approx(0)
    assert cramers_v(np.zeros((2, 3))) == cramers_v(np.array([[3, 4]])) == 0
    rng = np.random.default_rng(0)
    even = np.full((4, 5), 500.0)
    seen = np.mean([cramers_v(even + rng.normal(0, 20, even.shape)) ** 2 for _ in range(200)])
    # Noise of the margins is no dependence: of 20 cells 12 are free.
    assert seen == pytest.approx(noise_alone(even, 20 / even.sum()) ** 2 * 12 / 20, rel=0.15)
    assert noise_alone(even, 10.0) <= 1


def test_axes_end_at_round_numbers_and_trees_are_nested_lists() -> None:
    ends = [nice(share) for share in (0.0, 0.011, 0.15, 0.31, 0.97, 1.0)]
    assert ends == pytest.approx([0.01, 0.015, 0.15, 0.4, 1.0, 1.0])
    assert [percent(share) for share in (0.0, 0.00001, 0.005, 0.05, 0.5)] == ["0", "< 0.01%", "0.50%", "5.0%", "50%"]
    drawn = tree_drawing([("a", 0, "x"), ("b", 1, "y"), ("c", 2, "z"), ("d", 1, "<w>")])
    read_page(drawn)
    assert drawn.count("<ul") == 3
    assert "&lt;w&gt;" in drawn

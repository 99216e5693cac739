"""Advice is from public quantities alone, the worst first, and its numbers are those of what is then released."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from tests.examples import SPEC
from understudy import Synthesizer
from understudy.cli.main import main
from understudy.pipelines.counting.released import released_marginals
from understudy.pipelines.releasing.advising import BLURS, advise, group_error, noisy_tables, what_if
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

ROWS = 20_000
WIDE = SPEC.replace("values: [A, B, C], other: true", f"values: {[f'W{i}' for i in range(300)]}, other: true")
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("clinic.yaml").write_text(WIDE)
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def advice_for(spec: ReleaseSpec, rows: int = ROWS):
    found = advise(spec, plan_release(spec).plan, rows)
    assert found is not None
    return found


def test_the_worst_column_comes_first_and_fine_ones_hold() -> None:
    advice = advice_for(parse_spec(WIDE))
    assert advice.columns[0].column == "ward"
    assert advice.columns[0].state == "drowns"
    assert [column.moved for column in advice.columns] == sorted((c.moved for c in advice.columns), reverse=True)
    assert {column.column for column in advice.columns if column.state == "holds"} == {"sex", "smoker"}


def test_a_spec_that_asks_for_triples_is_advised_as_one_of_all_pairs_is() -> None:
    specs = (parse_spec(WIDE), parse_spec(WIDE.replace("marginals: all-2way", "marginals: auto")))
    pairs, triples = ([each.change for each in advice_for(spec).columns[0].suggestions] for spec in specs)
    assert specs[0].method != specs[1].method
    assert pairs == triples
    assert any("by itself" in change for change in triples)


def test_a_suggestion_tells_what_planning_it_gives() -> None:
    """Followed to the letter, it has the effect that was told."""
    spec = parse_spec(WIDE)
    ward = advice_for(spec).columns[0]
    first = ward.suggestions[0]
    kept = int(first.change.split()[2])
    assert "`other` take the rest" in first.change
    assert first.moved is not None
    assert first.moved <= BLURS * 1.05
    narrowed = spec.columns["ward"].model_copy(update={"values": spec.columns["ward"].values[:kept]})
    followed = advice_for(spec.model_copy(update={"columns": {**spec.columns, "ward": narrowed}}))
    assert next(c.moved for c in followed.columns if c.column == "ward") == pytest.approx(first.moved)
    assert any("drop it" in suggestion.change for suggestion in ward.suggestions)
    assert any("method.marginals" in suggestion.change for suggestion in ward.suggestions)


def test_numbers_are_told_to_have_fewer_bins_and_days_longer_ones() -> None:
    by_name = {column.column: column for column in advice_for(parse_spec(WIDE)).columns}
    assert by_name["charge"].suggestions[0].change.startswith("bins: ")
    assert by_name["visited_on"].suggestions[0].change == "bins: quarter"


def test_more_rows_more_epsilon_and_fewer_rows_a_person_mean_less_noise() -> None:
    spec = parse_spec(WIDE)
    assert advice_for(spec, 10 * ROWS).columns[0].moved == pytest.approx(advice_for(spec).columns[0].moved / 10)
    for key, values in (("epsilon", ["0.5", "1", "2"]), ("max_rows", ["12", "4", "1"])):
        stds = [advice.std for _, advice in what_if(spec, key, values, ROWS) if advice is not None]
        assert stds == sorted(stds, reverse=True)
        assert len(set(stds)) == 3


def test_adaptive_plans_are_advised_too_and_other_methods_are_not() -> None:
    adaptive = parse_spec(WIDE.replace("marginals: all-2way", "marginals: adaptive"))
    assert advice_for(adaptive).columns[0].column == "ward"
    gaussian = parse_spec(SPEC.replace("name: privpgd, marginals: all-2way", "name: gaussian"))
    assert advise(gaussian, plan_release(gaussian).plan, ROWS) is None


def test_a_group_is_off_by_what_was_told(tmp_path: Path) -> None:
    """A real release: the noise of its cells is what the words promise, and the copy is no worse."""
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.integers(0, 40, ROWS), "b": rng.integers(0, 40, ROWS)})
    whole = {"type": "integer", "min": 0, "max": 39, "bins": 40}
    synthesizer = Synthesizer(
        {
            "name": "groups",
            "snapshot": "1",
            "privacy": {"account": "groups", "epsilon": 0.5, "delta": 1e-6},
            "columns": {"a": whole, "b": whole},
            "generate": {"epochs": 20, "device": "cpu"},
        },
        cap=(1, 1e-6),
        home=tmp_path,
    ).fit(table)
    promised = group_error(_pair_std(synthesizer.spec), 1)
    exact = _counts(table["a"], table["b"])
    fitted = synthesizer._require_fit()
    noisy = next(counts for clique, counts, _ in released_marginals(fitted.measured) if len(clique) == 2)
    error = np.abs(np.asarray(noisy, float) - exact).mean()
    assert promised * 0.85 < error < promised * 1.15
    copy = synthesizer.sample(ROWS).to_pandas()
    assert np.abs(_counts(copy["a"], copy["b"]) - exact).mean() < 1.5 * promised


def _pair_std(spec: ReleaseSpec) -> float:
    tables = noisy_tables(plan_release(spec).plan, TableDomain.of(spec))
    return next(table.std for table in tables if len(table.columns) == 2)


def _counts(first: pd.Series, second: pd.Series) -> np.ndarray:
    return np.histogram2d(first, second, bins=[np.arange(41), np.arange(41)])[0]


def test_plan_gives_its_advice_in_words(run: Run) -> None:
    run("ledger", "open", "clinic", "--epsilon", 3, "--delta", "1e-6", "--entity", "patient_id", "--max-rows", 4)
    done = run("plan", "clinic.yaml", "--assume-rows", ROWS)
    assert done.exit_code == 0, done.output
    text = done.output
    assert "advice for 20,000 rows (assumed)" in text
    assert "a group of 500 rows" in text
    assert "will be off by about 5.7%" in text
    assert text.index("! ward (301 codes) drowns") < text.index("charge (33 codes)")
    told = json.loads(run("plan", "clinic.yaml", "--assume-rows", ROWS, "--json").output)["advice"]
    assert told["rows"] == ROWS
    assert told["columns"][0]["column"] == "ward"


def test_what_if_prints_a_table_for_each_question_and_needs_no_account(run: Run) -> None:
    done = run("plan", "clinic.yaml", "--what-if", "epsilon=0.5,1,2", "--what-if", "max_rows=1,4,12")
    assert done.exit_code == 0, done.output
    assert "if epsilon were ..." in done.output
    assert "if max_rows were ..." in done.output
    assert len(done.output.splitlines()) == 2 * 5


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("bins=3", "epsilon, delta, max_rows"),
        ("epsilon", "asks nothing"),
        ("epsilon=much", "impossible"),
        ("epsilon=-1", "impossible"),
        ("max_rows=0", "impossible"),
    ],
)
def test_questions_without_an_answer_are_one_message(question: str, told: str, run: Run) -> None:
    done = run("plan", "clinic.yaml", "--what-if", question)
    assert done.exit_code == 2, done.output
    assert told in done.output


def test_advice_opens_no_source(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are assumed, since nobody declared them public."""
    monkeypatch.setattr(
        "understudy.pipelines.sources.databases.duckdb_table.DuckDBSource.connect",
        lambda self: pytest.fail("the source was opened"),
    )
    assert run("plan", "clinic.yaml", "--what-if", "epsilon=1").exit_code == 0

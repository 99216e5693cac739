"""A release is asked: from Python when it is made and when it was published, by command, at every kind of place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.cli.test_verifying import said
from tests.inference.tables import some_codes, told_of
from tests.warehouse import Warehouse
from understudy import Release, open_release, synthesize
from understudy.pipelines.errors import SpecError, ValidationFailed
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.publishing.measured import NUMBERS

SPEC: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-10",
    "privacy": {"account": "clinic", "epsilon": 4.0, "delta": 1e-6},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 99, "bins": 10},
        "ward": {"type": "category", "values": ["A", "B", "C"]},
        "sex": {"type": "category", "values": ["F", "M"]},
        "readmitted": {"type": "boolean"},
        "double": {"type": "derived", "derive": "age + age"},
    },
    "generate": {"epochs": 2, "particles": 2000, "device": "cpu"},
}
RNG = np.random.default_rng(8)
WARDS = RNG.integers(0, 3, 6000)
AGES = np.clip(RNG.normal(40 + 10 * WARDS, 12), 0, 99).astype(int)
PRIVATE = pa.table(
    {
        "age": AGES,
        "ward": np.array(["A", "B", "C"])[WARDS],
        "sex": np.array(["F", "M"])[RNG.integers(0, 2, 6000)],
        "readmitted": RNG.random(6000) < 0.1 + 0.1 * WARDS,
    }
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Path]:
    base = tmp_path_factory.mktemp("asked")
    release = synthesize(PRIVATE, SPEC, cap=(9, 1e-6), home=base / "home")
    return release, Path(release.save(base / "out"))


def test_what_is_asked_by_command_is_what_python_answers(made: tuple[Release, Path]) -> None:
    release, place = made
    question = "share(readmitted) by ward"
    code, text = said("ask", place, question, "--json")
    assert code == 0, text
    told = json.loads(text)
    assert told == release.estimate(question).to_json() == open_release(place).estimate(question).to_json()
    assert [answer["ward"] for answer in told["answers"]] == ["A", "B", "C"]
    readmitted = PRIVATE["readmitted"].to_numpy()
    for code, answer in enumerate(told["answers"]):
        truth = readmitted[code == WARDS].mean()
        # Six standard deviations of noise, as `low` to `high` are 3.92 of them: no chance to fail in a lifetime.
        assert abs(answer["estimate"] - truth) < 6 / 3.92 * (answer["high"] - answer["low"])
        assert answer["low"] < answer["estimate"] < answer["high"] < answer["low"] + 0.2
        assert answer["population_low"] < answer["low"]
    code, text = said("ask", place.parent, "mean(age) by ward where sex = F")
    assert (code, "were not measured together" in text, "without an interval" in text) == (0, True, True), text
    code, text = said("ask", place, "mean(age) by ward", "--level", "0.9")
    assert (code, "90% interval" in text, "within bins" in text) == (0, True, True), text


def test_least_squares_need_no_rows(made: tuple[Release, Path]) -> None:
    release, place = made
    found = open_release(place).ols("age ~ ward + sex")
    assert str(found) == str(release.ols("age ~ ward + sex"))
    bins = np.clip(AGES // 10 * 10 + 4.5, 0, 99)
    means = [bins[code == WARDS].mean() for code in range(3)]
    assert found["ward=C"].estimate == pytest.approx(means[2] - means[0], abs=8 * found["ward=C"].noise_std)
    assert found["ward=C"].noise_std < 0.5
    with pytest.raises(SpecError, match="was not measured"):
        release.ols("double ~ age")


def test_columns_that_are_made_of_others_are_answered_from_the_rows(made: tuple[Release, Path]) -> None:
    release, place = made
    found = open_release(place).estimate("mean(double) by ward")
    assert found.source == "rows"
    assert {answer.reason for answer in found} == {"double was not measured"}
    means = release.table.group_by("ward").aggregate([("double", "mean")]).to_pylist()
    assert {a.group["ward"]: a.estimate for a in found} == pytest.approx({m["ward"]: m["double_mean"] for m in means})


def test_a_bad_question_is_one_message_and_exit_code_2(made: tuple[Release, Path]) -> None:
    code, text = said("ask", made[1], "mean(wage) by ward")
    assert (code, "no column 'wage'" in text) == (2, True), text
    code, text = said("ask", made[1], "what is the mean")
    assert (code, "not understood at 'what is the mean'" in text) == (2, True), text
    assert said("ask", made[1].parent.parent / "nothing", "count")[0] == 2


def test_changed_measurements_are_not_answered_from(made: tuple[Release, Path], tmp_path: Path) -> None:
    place = Path(made[0].save(tmp_path / "out"))
    content = bytearray((place / NUMBERS).read_bytes())
    content[len(content) // 2] ^= 1
    (place / NUMBERS).write_bytes(content)
    with pytest.raises(ValidationFailed):
        open_release(place).estimate("count")
    assert said("ask", place, "count")[0] == 5


@pytest.mark.parametrize("kind", ["duckdb", "postgresql", "s3"])
def test_a_release_is_asked_wherever_it_was_published(
    kind: str, home: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "copies"
    if kind == "postgresql":
        warehouse: Warehouse = request.getfixturevalue("warehouse")
        monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
        to, table = "postgresql+env://WAREHOUSE_URL", f"{warehouse.schema}.copies"
    else:
        to = f"s3://{request.getfixturevalue('bucket')}/out" if kind == "s3" else f"duckdb:///{tmp_path}/out.duckdb"
    spec = {**SPEC, "publish": {"to": to, **({"table": table} if kind != "s3" else {})}}
    release = synthesize(PRIVATE, spec, cap=(9, 1e-6), home=home)
    place = release.save(to)
    address = place if kind == "s3" else f"{to}#{table}"
    question = "mean(age) by sex difference from M"
    assert open_release(address).estimate(question).to_json() == release.estimate(question).to_json()
    beyond = "count by ward, sex where readmitted"
    assert open_release(address).estimate(beyond).to_json() == release.estimate(beyond).to_json()
    assert json.loads(said("ask", address, question, "--json")[1])["answers"][0]["against"] == "M"


@pytest.mark.parametrize(
    "method", [{"name": "privpgd", "marginals": "adaptive"}, {"name": "gaussian", "mode": "copula"}]
)
def test_other_measurements_answer_with_a_note_or_from_rows_with_the_reason(home: Path, method: dict[str, Any]) -> None:
    columns = {name: column for name, column in SPEC["columns"].items() if name != "double"}
    release = synthesize(PRIVATE, {**SPEC, "columns": columns, "method": method}, cap=(9, 1e-6), home=home)
    found = release.estimate("mean(age) where sex = F" if method["name"] == "gaussian" else "mean(age)")
    [answer] = found
    if method["name"] == "gaussian":
        assert answer.interval is None
        assert "gaussian measures no counts" in answer.reason
        return
    assert "chosen by looking" in found.notes[0]
    assert answer.interval is not None
    assert abs(answer.interval.low - AGES.mean()) < 10


def test_triples_that_were_chosen_answer_questions_about_three_columns(home: Path) -> None:
    """Readmission of men in ward A and of women elsewhere: no two columns tell."""
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 2, (8000, 3))
    told = (codes[:, 0] ^ codes[:, 1] ^ (rng.random(8000) < 0.05)).astype(bool)
    table = pa.table({"sex": np.array(["F", "M"])[codes[:, 0]], "urgent": codes[:, 1] == 1, "readmitted": told})
    columns = {"sex": SPEC["columns"]["sex"], "urgent": {"type": "boolean"}, "readmitted": {"type": "boolean"}}
    method = {"name": "privpgd", "marginals": "auto"}
    release = synthesize(table, {**SPEC, "columns": columns, "method": method}, cap=(9, 1e-6), home=home)
    found = release.estimate("share(readmitted) by sex where urgent")
    assert not any("chosen by looking" in note for note in found.notes)  # tests/inference/test_chosen.py
    for answer, truth in zip(found, (0.95, 0.05), strict=True):
        assert answer.interval is not None
        assert answer.interval.low - 0.1 < truth < answer.interval.high + 0.1


def test_a_public_number_of_rows_has_no_noise(home: Path) -> None:
    privacy = {**SPEC["privacy"], "relation": "replace_one"}
    release = synthesize(PRIVATE, {**SPEC, "privacy": privacy}, cap=(9, 1e-6), home=home)
    [answer] = release.estimate("count")
    assert answer.interval is not None
    assert (answer.estimate, answer.interval.low, answer.interval.high) == (6000, 6000, 6000)


def test_where_entities_were_counted_an_answer_is_of_entities(tmp_path: Path) -> None:
    """Each counts once, its rows alike: not what rows say, and within the interval of what entities do."""
    rng = np.random.default_rng(3)
    rows = np.minimum(rng.zipf(1.7, 6000), 8)
    who = np.repeat(np.arange(6000), rows)
    busy = (rows > 2)[who]
    ward = np.where(rng.random(len(who)) < np.where(busy, 0.8, 0.3), "A", "B")
    sex = np.where(rng.random(6000) < 0.4, "F", "M")[who]
    spec = {
        **SPEC,
        "privacy": {**SPEC["privacy"], "unit": {"entity": "who", "max_rows": 8}},
        "columns": {
            "who": {"type": "identifier"},
            "ward": {"type": "category", "values": ["A", "B"]},
            "sex": {"type": "category", "values": ["F", "M"]},
            "more": {"type": "boolean"},
        },
    }
    table = pa.table({"who": who, "ward": ward, "sex": sex, "more": rng.random(len(who)) < 0.5})
    release = synthesize(table, spec, cap=(9, 1e-6), home=tmp_path / "home")
    weight = 1 / rows[who]
    asked = open_release(release.save(tmp_path / "out")).estimate("count by ward, sex")
    for answer in asked:
        here = (ward == answer.group["ward"]) & (sex == answer.group["sex"])
        width = answer.interval.high - answer.interval.low
        assert abs(answer.estimate - weight[here].sum()) < 2 * width  # eight standard deviations
        assert width < 0.1 * weight[here].sum()
    [answer] = release.estimate("share(ward = A)")
    assert answer.estimate == pytest.approx(weight[ward == "A"].sum() / 6000, abs=0.02)
    assert np.mean(ward == "A") > answer.estimate + 0.1  # of rows it is another
    assert asked.notes == release.estimate("count").notes
    assert "entities were counted" in asked.notes[0]
    assert "entities" in release.verdict.sentence
    [count] = release.estimate("count where ward = A and sex = F and more")  # three columns: the rows answer
    assert count.interval is None
    inside = (ward == "A") & (sex == "F") & table["more"].to_numpy(zero_copy_only=False)
    assert count.estimate == pytest.approx(inside.sum(), rel=0.2)


def test_a_number_of_rows_that_is_not_public_ends_halfway_between_whole_ones(made: tuple[Release, Path]) -> None:
    """Its noise is whole: an interval of 1.96 standard deviations would hold the truth less often than it says."""
    [answer] = made[0].estimate("count")
    std = next(line.std for line in made[0].manifest.noise)
    assert answer.interval is not None
    assert answer.estimate == round(answer.estimate or 0.0)
    assert answer.interval.high - answer.interval.low > 2 * 1.96 * 0.1 * std
    assert answer.interval.high - answer.estimate == pytest.approx(answer.estimate - answer.interval.low)


def test_a_condition_that_no_row_can_meet_is_an_error_that_says_what_the_release_can_have() -> None:
    for text in ("count where age > 70", "mean(age) by sex where age > 70", "share by sex where age > 70"):
        with pytest.raises(SpecError, match="no row can meet") as refused:
            Asked(told_of(some_codes(50, 1)), lambda: pytest.fail("no row is needed")).answer(text)
        assert "age from 0 to 3" in refused.value.fix


def test_sentences_name_what_a_share_is_of_and_the_group() -> None:
    asked = Asked(told_of(some_codes(500, 1)), lambda: pytest.fail("no row is needed"))
    assert str(asked.answer("share(smoker or age >= 2)")).startswith("share with smoker or age >= 2: 0.")
    assert "\nmean of age for sex M: " in str(asked.answer("mean(age) by sex"))
    first = str(asked.answer("share(not (smoker and smoker is not null)) by ward difference")).splitlines()[0]
    assert first.startswith("difference in the share with not (smoker and not smoker is null) for ward B against A: ")

"""PrivPGD as a method: plan, one purchase, rules and statistics, adaptive rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.randomness import SeededWords
from understudy.pipelines.counting.counting import LocalTable, count_marginals
from understudy.pipelines.counting.released import noisy_total, released_marginals, title
from understudy.pipelines.counting.triples import chosen_triples
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.privpgd import drawing, engine
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.methods.privpgd.written_last import write_last
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec, spec_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.synthetic import Synthetic

SPEC = """
name: people
source: {uri: people.parquet, snapshot: "1"}
privacy: {account: a, relation: RELATION, epsilon: 2, delta: 1e-6}
columns:
  age: {type: integer, min: 0, max: 99, bins: 10}
  band: {type: category, values: [low, mid, high], ordered: true}
  city: {type: category, values: [A, B, C], other: true}
method: {name: privpgd OPTIONS}
generate: {epochs: 3, device: cpu GENERATE}
publish: {to: out}
"""
QUIET = lambda done, steps, note: None  # noqa: E731


def spec_with(options: str = "", generate: str = "", relation: str = "add_remove") -> ReleaseSpec:
    return parse_spec(SPEC.replace("OPTIONS", options).replace("GENERATE", generate).replace("RELATION", relation))


class MemoryTable:
    """A private table in memory: band follows age, city is independent."""

    def __init__(self, domain: TableDomain, rows: int = 8000) -> None:
        self.domain = domain
        rng = np.random.default_rng(0)
        age = rng.integers(0, 10, rows)
        codes = np.stack([age, np.clip(age // 4, 0, 2), rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])], axis=1)
        self.table = decode(codes, domain, rng)

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()

    def counts(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        return count_marginals([encode(self.table, self.domain)], self.domain.sizes, list(cliques))


class Till:
    def __init__(self) -> None:
        self.charged: list[PlannedCharge] = []

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        assert mechanism.event == charge.event
        self.charged.append(charge)
        return mechanism.draw(operating_system_randomness())


def release(spec: ReleaseSpec) -> tuple[pa.Table, Measurement, MemoryTable, Till]:
    domain, method, till = TableDomain.of(spec), PrivPGDMethod(), Till()
    private = MemoryTable(domain)
    plan = method.plan(spec, domain)
    measured = method.measure(private, spec, plan, till)
    assert tuple(till.charged) == plan.charges
    return method.generate(measured, spec, domain, None, QUIET), measured, private, till


def test_one_charge_and_a_copy_close_to_the_table() -> None:
    spec = spec_with()
    table, measured, private, till = release(spec)
    assert len(till.charged) == 1
    assert measured.facts["public_total"] is None
    assert table.num_rows == pytest.approx(8000, abs=200)
    [real, copy] = (
        count_marginals([encode(t, private.domain)], private.domain.sizes, [(0, 1)])[0] for t in (private.table, table)
    )
    assert np.abs(real / real.sum() - copy / copy.sum()).sum() / 2 < 0.06
    worst = max(
        PrivPGDMethod().agreement(Synthetic(table, private.domain), measured), key=lambda a: a.distance / a.allowed
    )
    assert worst.distance < worst.allowed


def test_what_was_bought_before_there_were_residuals_is_read_as_ever() -> None:
    """Noisy marginals, as they lie in stores today: the same rows can be made of them, and the same card."""
    spec = spec_with()
    domain, method = TableDomain.of(spec), PrivPGDMethod()
    private, cliques = MemoryTable(domain), [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    rng = np.random.default_rng(3)
    noisy = [counts + np.rint(5 * rng.normal(size=counts.shape)).astype(np.int64) for counts in private.counts(cliques)]
    facts = {
        "cliques": [list(clique) for clique in cliques],
        "columns": list(domain.names),
        "sizes": list(domain.sizes),
        "stds": [5.0] * 6,
        "sampler": "rounded",
        "public_total": None,
    }
    measured = Measurement("marginals", facts, {f"marginal_{i}": table for i, table in enumerate(noisy)})
    assert noisy_total(measured) == pytest.approx(8000, abs=100)
    assert [clique for clique, _, _ in released_marginals(measured)] == cliques
    table = method.generate(measured, spec, domain, None, QUIET)
    [real, copy] = (count_marginals([encode(t, domain)], domain.sizes, [(0, 1)])[0] for t in (private.table, table))
    assert np.abs(real / real.sum() - copy / copy.sum()).sum() / 2 < 0.04
    assert all(line.holds for line in method.agreement(Synthetic(table, domain), measured))


def test_residuals_answer_what_was_asked_with_the_noise_that_was_planned() -> None:
    spec = spec_with()
    domain, method, till = TableDomain.of(spec), PrivPGDMethod(), Till()
    plan = method.plan(spec, domain)
    measured = method.measure(MemoryTable(domain), spec, plan, till)
    assert measured.kind == "residuals"
    released = released_marginals(measured)
    assert [std for _, _, std in released] == pytest.approx([line.std for line in plan.noise])
    for (_, noisy, std), exact in zip(released, MemoryTable(domain).counts([c for c, _, _ in released]), strict=True):
        assert np.abs(noisy - exact).max() < 6 * std
        assert noisy.sum() == pytest.approx(released[0][1].sum())  # they all agree on the number of rows


def test_under_replace_one_of_rows_the_total_is_public() -> None:
    _, measured, _, _ = release(spec_with(relation="replace_one"))
    assert noisy_total(measured) == measured.facts["public_total"] == 8000


EXCLUSIVE = """
name: exclusive
source: {uri: people.parquet, snapshot: "1"}
privacy: {account: a, epsilon: 1, delta: 1e-6}
columns:
  a: {type: category, values: [no, yes]}
  b: {type: integer, min: 0, max: 9, bins: 10}
  c: {type: category, values: [x, y, z]}
  label: {type: category, values: [no, yes]}
method: {name: privpgd, marginals: auto}
generate: {epochs: 3, device: cpu}
publish: {to: out}
"""


class ExclusiveTable(MemoryTable):
    """The label says whether exactly one of a and the upper half of b holds; c is independent."""

    def __init__(self, domain: TableDomain, exclusive: bool = True) -> None:
        self.domain = domain
        rng = np.random.default_rng(0)
        a, b, c = (rng.integers(0, size, 8000) for size in (2, 10, 3))
        label = a ^ (b >= 5) if exclusive else rng.integers(0, 2, 8000)
        self.table = decode(np.stack([a, b, c, label], axis=1), domain, rng)


def test_an_exclusive_or_that_no_pair_shows_is_in_the_copy_of_auto() -> None:
    spec = parse_spec(EXCLUSIVE)
    domain, method, till = TableDomain.of(spec), PrivPGDMethod(), Till()
    private, plan = ExclusiveTable(domain), method.plan(spec, domain)
    measured = method.measure(private, spec, plan, till)
    assert len(till.charged) == 1
    assert composed_loss([till.charged[0].event], 1e-6, Relation.ADD_REMOVE).epsilon <= 1
    assert (chosen_triples(measured) or [None])[0] == (0, 1, 3)  # by chance there may be another after it
    codes = encode(method.generate(measured, spec, domain, None, QUIET), domain).columns
    assert np.mean((codes[0] ^ (codes[1] >= 5)) == codes[3]) > 0.9
    copy = Synthetic(decode(np.stack(codes, axis=1), domain, np.random.default_rng(0)), domain)
    agreements = method.agreement(copy, measured)
    assert "a x b x label" in [line.query for line in agreements]
    assert all(line.holds for line in agreements)


def test_auto_is_all_pairs_where_pairs_explain_everything_and_says_what_it_may_cost() -> None:
    small = EXCLUSIVE.replace("epsilon: 1", "epsilon: 0.2")  # with more, all four triples are affordable
    spec, domain, method = parse_spec(small), TableDomain.of(parse_spec(small)), PrivPGDMethod()
    plan, pairs = (method.plan(each, domain) for each in (spec, parse_spec(small.replace("auto", "all-2way"))))
    private, words = ExclusiveTable(domain, exclusive=False), SeededWords(1)  # one in ten draws chooses one by chance
    measured = method.measure(private, spec, plan, lambda _, mechanism: mechanism.draw(words))
    assert chosen_triples(measured) == []
    released = {title(clique, domain): std for clique, _, std in released_marginals(measured)}
    for line in pairs.noise:
        assert line.std * 0.999 < released[line.query] < line.std / np.sqrt(0.985) * 1.001
        assert {each.query: each.std for each in plan.noise}[line.query] == pytest.approx(line.std)
    assert "4 candidates" in plan.details["triples"]
    assert plan.details["triples"].endswith("Scores add at most 0.8%, with triples that are chosen at most 3.4%")
    assert any("at most 1.5% score triples" in step for step in plan.steps)
    assert any("at most 5.0% of the budget, the triples" in step for step in plan.steps)


def test_with_two_columns_auto_is_all_pairs() -> None:
    two = "\n".join(line for line in EXCLUSIVE.splitlines() if not line.startswith(("  a:", "  c:")))
    spec, pairs = parse_spec(two), parse_spec(two.replace("auto", "all-2way"))
    domain, method = TableDomain.of(spec), PrivPGDMethod()
    assert method.plan(spec, domain).charges == method.plan(pairs, domain).charges


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_of_entities_and_of_rows_that_come_and_go_no_total_is_told(relation: str) -> None:
    entities = spec_with(relation=relation).model_dump(mode="json")
    entities["privacy"]["unit"] = {"entity": "who", "max_rows": 2}
    for spec in (spec_of(entities), spec_with(relation="add_remove")):
        domain = TableDomain.of(spec)
        plan = PrivPGDMethod().plan(spec, domain)
        rows = MemoryTable(domain).table.append_column("who", pa.array(np.arange(8000)))
        table = LocalTable(ArrowSource(rows), domain, spec.privacy.protected_unit, b"k" * 32)
        measured = PrivPGDMethod().measure(table, spec, plan, Till())
        assert measured.facts["public_total"] is None
        assert "8000" not in str(dict(measured.facts))


def test_a_foreign_table_does_not_agree() -> None:
    _, measured, private, _ = release(spec_with())
    codes = np.random.default_rng(1).integers(0, private.domain.sizes, (8000, 3))
    strange = decode(codes, private.domain, np.random.default_rng(2))
    agreements = PrivPGDMethod().agreement(Synthetic(strange, private.domain), measured)
    assert any(line.distance > line.allowed for line in agreements)


def test_rules_hold_in_every_row() -> None:
    spec = spec_with(
        generate=", rules: [{if: {age: {max: 35}}, then: {city: [A, B]}}, {forbid: {band: [high], city: [C]}}]"
    )
    table, _, private, _ = release(spec)
    for rule in spec.generate.rules:
        assert not broken_rows(rule, table, private.domain).any()
        assert broken_rows(rule, private.table, private.domain).any()


def share_of_high_in_b(table: pa.Table) -> float:
    frame = table.to_pandas()
    return float(((frame.band == "high") & (frame.city == "B")).mean())


def test_statistics_are_charged_and_kept_or_hidden() -> None:
    where = "statistics: {high_b: {where: {band: [high], city: [B]}, share: 0.3, USE}}"
    kept, measured, private, till = release(spec_with(", " + where.replace("USE", "use: keep")))
    truth = share_of_high_in_b(private.table)
    bought = float(measured.arrays["statistic_high_b"][0]) / noisy_total(measured)
    assert bought == pytest.approx(truth, abs=0.02)
    assert len(released_marginals(measured)) == 6
    assert 1.99 < composed_loss([c.event for c in till.charged], 1e-6, Relation.ADD_REMOVE).epsilon <= 2.0
    hidden, *_ = release(spec_with(", " + where.replace("USE", "use: hide, strength: 3")))
    assert abs(share_of_high_in_b(kept) - truth) < 0.02
    assert abs(share_of_high_in_b(hidden) - truth) > 2 * abs(share_of_high_in_b(kept) - truth) + 0.01


def test_a_focus_gets_more_and_the_plan_says_who_pays() -> None:
    domain = TableDomain.of(spec_with())
    plain, focused = (PrivPGDMethod().plan(spec_with(options), domain) for options in ("", ", focus: [city]"))
    assert plain.charges == focused.charges  # the same budget, shared otherwise
    times: dict[bool, list[float]] = {True: [], False: []}
    for line, other in zip(plain.noise, focused.noise, strict=True):
        times["city" in line.query].append(other.std / line.std)
    assert max(times[True]) < 0.95
    assert min(times[False]) > 1
    assert "focus" not in plain.details
    own, others = (f"{min(found):.2f} to {max(found):.2f} times" for found in times.values())
    assert focused.details["focus"] == f"city; noise of its marginals {own}, of the others {others} that without"


def test_columns_of_a_focus_are_written_last_in_one_piece_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    def noted(codes: np.ndarray, column: int, *others: Any) -> None:
        written.append(column)
        write_last(codes, column, *others)

    monkeypatch.setattr(engine, "write_last", noted)
    monkeypatch.setattr(drawing, "write_last", noted)
    spec = spec_with(", focus: [city, age]")
    table, measured, private, _ = release(spec)
    assert written == [0, 2]
    sampler = PrivPGDMethod().sampler(measured, spec, private.domain, 3000, np.random.default_rng(1), QUIET)
    part = sampler.draw(0, 2000, np.random.default_rng(2))
    assert written == [0, 2] * 3
    for copy in (table, part):
        [real, made] = (
            count_marginals([encode(t, private.domain)], private.domain.sizes, [(0, 1)])[0]
            for t in (private.table, copy)
        )
        assert np.abs(real / real.sum() - made / made.sum()).sum() / 2 < 0.06


def test_without_a_focus_nothing_is_written_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "write_last", lambda *_: pytest.fail("no column is in focus"))
    release(spec_with())


def test_adaptive_rounds_find_the_dependence() -> None:
    spec = spec_with(", marginals: adaptive, rounds: 1, one_way_share: 0.2")
    table, measured, _, till = release(spec)
    assert [charge.stage for charge in till.charged] == ["one-way", "round-001"]
    assert measured.facts["cliques"] == [[0], [1], [2], [0, 1]]
    assert composed_loss([c.event for c in till.charged], 1e-6, Relation.ADD_REMOVE).epsilon <= 2.0
    assert table.num_rows > 7000


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (", marginals: adaptive, one_way_share: 0", "one_way_share"),
        (", marginals: adaptive, statistics: {s: {where: {city: [A]}}}", "adaptive"),
        (", statistics: {s: {where: {town: [A]}}}", "town"),
        (", statistics: {s: {where: {city: [A]}, share: 0.5}, t: {where: {city: [B]}, share: 0.5}}", "0.9"),
        (", rounds: 0", "rounds"),
        (", focus: [town]", "town"),
        (", marginals: adaptive, focus: [city]", "adaptive"),
    ],
)
def test_impossible_options_are_refused(options: str, told: str) -> None:
    spec = spec_with(options)
    with pytest.raises(SpecError, match=told):
        PrivPGDMethod().plan(spec, TableDomain.of(spec))

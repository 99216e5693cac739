"""Generated trees: keys fit, bounds hold, siblings lie in order, tables that were released are met, runs repeat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.tree.released_trees import made_tree, released_from, rows_above, seen_as, small_clinic, weighed
from tests.trees import domains_of, flat
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.problem import GenerationError
from understudy.pipelines.methods.tree.generating import family_parts
from understudy.pipelines.methods.tree.generating.generate import generate_tree
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tree_rules import TreeRule

QUICK = PrivPGDConfig(epochs=1, device="cpu")


def check(made: TreeCodes, tree: Tree, domains: dict[str, TableDomain]) -> None:
    """Everything that holds of every tree, whatever was released."""
    for table in tree.tables:
        codes = made.codes[table.name]
        assert codes.shape[1] == len(domains[table.name].columns)
        assert np.all(codes >= 0)
        assert np.all(codes < np.array(domains[table.name].sizes))
        if table.parent is None:
            continue
        parent = made.parent[table.name]
        assert len(parent) == len(codes)
        assert np.all(np.diff(parent) >= 0)
        assert parent.min(initial=0) >= 0
        assert parent.max(initial=-1) < made.rows(table.parent)
        numbers = np.bincount(parent, minlength=made.rows(table.parent))
        assert numbers.max(initial=0) <= table.max_rows
        assert numbers.min(initial=1) >= (1 if tree.is_implied else 0)
        if table.order_by is not None:
            column = domains[table.name].index(table.order_by)
            siblings = parent[1:] == parent[:-1]
            assert np.all(np.diff(codes[:, column])[siblings] >= 0)
            values, ordering = made.values[table.name], domains[table.name].columns[column]
            known = ~np.isnan(values)
            assert np.array_equal(known, codes[:, column] < ordering.value_codes)
            assert np.all(np.diff(values)[siblings & known[1:] & known[:-1]] >= 0)
            low, high = ordering.intervals()
            assert np.all(values[known] >= low[codes[known, column]])
            assert np.all(values[known] <= high[codes[known, column]])


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.integers(0, 90),
    st.sampled_from([0.0, 1.0, 20.0, 1e4]),
    st.integers(1, 12),
    st.integers(1, 3),
)
def test_trees_are_sound_whatever_was_released(
    seed: int, real: int, wanted: int, std: float, visits: int, drugs: int
) -> None:
    rng = np.random.default_rng(seed)
    spec, domains, made = small_clinic(real, rng, visits={"max_rows": visits}, drugs={"max_rows": drugs})
    released = released_from(made, spec, std, rng)
    found = generate_tree(released, domains, wanted, np.random.SeedSequence(seed), QUICK)
    assert spec.tree is not None
    assert found.rows("patients") == wanted
    check(found, spec.tree, domains)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 5.0]), st.sampled_from([[], ["sex"], ["sex", "ward"]]))
def test_entities_of_a_flat_table_all_have_rows(seed: int, std: float, constant: list[str]) -> None:
    rng = np.random.default_rng(seed)
    spec = flat(columns=constant)
    domains = domains_of(spec)
    released = released_from(made_tree(spec, 40, rng), spec, std, rng)
    found = generate_tree(released, domains, 50, np.random.SeedSequence(seed), QUICK)
    assert spec.tree is not None
    check(found, spec.tree, domains)


def test_tables_that_were_released_without_noise_are_met() -> None:
    rng = np.random.default_rng(1)
    spec, domains, made = small_clinic(3_000, rng)
    assert spec.tree is not None
    released = released_from(made, spec)
    found = generate_tree(released, domains, None, np.random.SeedSequence(2))
    assert found.rows("patients") == made.rows("patients")
    for each in released.views:
        real, fake = (seen_as(each.view, tree, spec.tree) for tree in (made, found))
        for clique in each.view.asked:
            if any(each.view.columns[c].role == "gap" for c in clique):
                continue
            wanted, there = (weighed(*seen, clique, each.view.sizes) for seen in (real, fake))
            distance = np.abs(wanted / wanted.sum() - there / there.sum()).sum() / 2
            assert distance < 0.01, (each.view.title(clique, domains), distance)


def test_siblings_are_as_much_alike_as_was_released_and_shuffled_ones_would_not_be() -> None:
    rng = np.random.default_rng(3)
    spec, domains, made = small_clinic(3_000, rng)
    ward = 0
    found = generate_tree(released_from(made, spec), domains, None, np.random.SeedSequence(4))

    def alike(tree: TreeCodes, codes: np.ndarray) -> float:
        siblings = np.diff(tree.parent["visits"]) == 0
        return float((codes[1:] == codes[:-1])[siblings].mean())

    real, fake = (alike(tree, tree.codes["visits"][:, ward]) for tree in (made, found))
    assert abs(real - fake) < 0.02
    assert real - alike(found, rng.permutation(found.codes["visits"][:, ward])) > 0.1


def test_gaps_between_siblings_are_as_long_as_was_released() -> None:
    rng = np.random.default_rng(5)
    spec, domains, made = small_clinic(3_000, rng, visits={"max_rows": 3})
    visits = made.parent["visits"]
    siblings = np.flatnonzero(np.diff(visits) == 0) + 1
    values = made.values["visits"]
    for row in siblings:  # most come back within three days of the visit before
        if rng.random() < 0.8:
            values[row] = min(values[row - 1] + rng.integers(0, 4), values[row])
    low, _ = domains["visits"].columns[1].intervals()
    made.codes["visits"][:, 1] = np.searchsorted(low, values, side="right") - 1
    found = generate_tree(released_from(made, spec), domains, None, np.random.SeedSequence(6))

    def soon(tree: TreeCodes) -> float:
        gaps = np.diff(tree.values["visits"])[np.diff(tree.parent["visits"]) == 0]
        return float((gaps < 5).mean())

    assert soon(made) > 0.7
    assert abs(soon(made) - soon(found)) < 0.03


def test_a_run_repeats_for_its_stream_and_for_no_other() -> None:
    rng = np.random.default_rng(7)
    spec, domains, made = small_clinic(200, rng)
    released = released_from(made, spec, 1.0, rng)
    one, again, other = (generate_tree(released, domains, 100, np.random.SeedSequence(s), QUICK) for s in (8, 8, 9))
    for table in domains:
        assert np.array_equal(one.codes[table], again.codes[table])
    assert np.array_equal(one.values["visits"], again.values["visits"])
    assert not np.array_equal(one.codes["patients"], other.codes["patients"])


def test_parts_are_sound_trees_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    spec, domains, made = small_clinic(300, rng)
    assert spec.tree is not None
    released = released_from(made, spec, 1.0, rng)
    monkeypatch.setattr(family_parts, "MOST_ROOTS", 100)
    sizes = family_parts.family_parts(released, domains, 250)
    assert sizes == (83, 83, 84)
    streams = np.random.SeedSequence(11).spawn(3)
    parts = [generate_tree(released, domains, *each, QUICK) for each in zip(sizes, streams, strict=True)]
    assert [part.rows("patients") for part in parts] == [83, 83, 84]
    for part in parts:
        check(part, spec.tree, domains)
    assert not np.array_equal(parts[0].codes["patients"][:83], parts[1].codes["patients"][:83])
    whole = generate_tree(released, domains, 250, np.random.SeedSequence(11), QUICK)
    check(whole, spec.tree, domains)
    drugs = rows_above(whole, spec.tree, "drugs", "patients")
    assert np.all(np.diff(drugs) >= 0)


def test_rules_of_a_child_table_hold_in_every_row() -> None:
    rng = np.random.default_rng(12)
    spec, domains, made = small_clinic(300, rng)
    assert spec.tree is not None
    released = released_from(made, spec)
    allowed = np.ones((domains["visits"].sizes[0], domains["visits"].sizes[1]), dtype=bool)
    allowed[0, :2] = False
    rules = [TreeRule(None, "visits", (("visits", 0), ("visits", 1)), allowed)]
    found = generate_tree(released, domains, 300, np.random.SeedSequence(13), QUICK, rules)
    check(found, spec.tree, domains)
    codes = found.codes["visits"]
    assert np.any(made.codes["visits"][made.codes["visits"][:, 0] == 0, 1] < 2)
    assert np.all(codes[codes[:, 0] == 0, 1] >= 2)


def test_fewer_than_no_families_are_refused() -> None:
    rng = np.random.default_rng(14)
    spec, domains, made = small_clinic(20, rng)
    with pytest.raises(GenerationError, match="zero or more"):
        generate_tree(released_from(made, spec), domains, -1)

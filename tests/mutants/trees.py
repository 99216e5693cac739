"""Trees of tables: more of a root than its ticks, rows that are somebody else's, and what depends on another family."""

from __future__ import annotations

from tests.mutants.mutant import bug

BOUNDING, READING, TALLY = "sources/tree/bounding.py", "sources/tree/rows.py", "counting/tree/tally.py"
EQUAL_ROWS = "methods/tree/test_neighbours.py::test_a_root_of_equal_rows_moves_exactly_what_is_declared"
BY_HAND = "counting/tree/test_tally.py::test_every_view_is_what_counting_by_hand_gives"

TREES = (
    bug(
        "trees: weights that sum to 2",
        TALLY,
        "tally.add(codes, self.ticks // each)",
        "tally.add(codes, 2 * self.ticks // each)",
        EQUAL_ROWS,
    ),
    bug(
        "trees: every row weighs as much as a root",
        TALLY,
        "tally.add(codes, self.ticks // each)",
        "tally.add(codes, self.ticks + 0 * each)",
        EQUAL_ROWS,
    ),
    bug(
        "trees: a unit of one row and not of W ticks",
        "methods/tree/plan.py",
        "unit = Unit(tree.root.name, weights.ticks)",
        "unit = Unit(tree.root.name, 1)",
        EQUAL_ROWS,
    ),
    bug(
        "trees: a row more than the bound",
        BOUNDING,
        "[_place_in_run(rows.parent[some[order]]) >= max_rows]",
        "[_place_in_run(rows.parent[some[order]]) > max_rows]",
        BY_HAND,
        says="a row has more rows below it than its bound",
    ),
    bug(
        "trees: an orphan is counted",
        READING,
        "parent = self.parents.find(known, wanted)",
        "parent = np.maximum(self.parents.find(known, wanted), 0 if len(self.parents.rows) else NOBODY)",
        BY_HAND,
    ),
    bug(
        "trees: roots without a key are one root",
        READING,
        "batch = _taken(batch, self._ids(batch, self.key)[0])",
        "pass",
        BY_HAND,
    ),
    bug(
        "trees: the row that was read first owns a key",
        BOUNDING,
        "            rows.ranks(mine, hash_key),\n            parents.keys_of",
        "            mine,\n            parents.keys_of",
        BY_HAND,
    ),
    bug(
        "trees: the rows that are kept depend on how many there are",
        BOUNDING,
        "kept = _within_bound(rows, max_rows, len(above), hash_key)",
        "kept = _within_bound(rows, max_rows, len(above), hash_key + str(len(rows)).encode())",
        BY_HAND,
    ),
    bug(
        "trees: a row follows on one of another family",
        TALLY,
        "follows[1:] = parent[1:] == parent[:-1]",
        "follows[1:] = parent[1:] >= parent[:-1]",
        BY_HAND,
    ),
    bug(
        "trees: a row has the siblings of the parent before",
        TALLY,
        "return _level(self._siblings[self._own.parent[here]], seen.most)",
        "return _level(self._siblings[self._own.parent[here] - 1], seen.most)",
        BY_HAND,
    ),
    bug(
        "trees: the exact number of rows in the facts",
        "methods/tree/measure.py",
        "return purchase(charge, Mechanism(design.noise, exact_tables(tree, design), TREE, facts_of(design)))",
        "exact = exact_tables(tree, design)\n"
        "    facts = {**facts_of(design), 'rows': int(sum(each.sum() for each in exact.values()))}\n"
        "    return purchase(charge, Mechanism(design.noise, exact, TREE, facts))",
        "auditing/test_replay.py::test_nor_are_two_sets_of_tables_that_differ_in_one_family[tree]",
    ),
)
"""A root with everything attributed to it."""

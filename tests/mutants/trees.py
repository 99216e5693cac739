"""Trees of tables: more of a root than its ticks, rows that are somebody else's, and what depends on another family."""

from __future__ import annotations

from tests.mutants.mutant import bug

BOUNDING, READING, TALLY = "sources/tree/bounding.py", "sources/tree/rows.py", "counting/tree/tally.py"
EQUAL_ROWS = "methods/tree/test_neighbours.py::test_a_root_of_equal_rows_moves_exactly_what_is_declared"
OPEN = "discovery/test_trees.py::"
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
    bug(
        "trees: open columns do not tell rows apart",
        "discovery/tree_tallying.py",
        "reshape(batch.num_rows, width), *texts]",
        "reshape(batch.num_rows, width)]",
        OPEN + "test_sums_depend_on_the_rows_alone",
    ),
    bug(
        "trees: discovery takes a root for one row",
        "discovery/asking.py",
        "return Unit(tree.root.name, max(tree.most_rows(name) for name in tree.names))",
        "return Unit(tree.root.name, 1)",
        OPEN + "test_the_unit_is_a_root_with_as_many_rows_as_the_bounds_allow",
    ),
    bug(
        "trees: in discovery every row is a unit",
        "discovery/tree_tallying.py",
        "tally.add_entities(table.beside, table.root.astype(np.int64))",
        "tally.add_entities(table.beside, np.arange(len(table)))",
        OPEN + "test_neighbour_replay",
    ),
    bug(
        "trees: measured by another attribution than discovered",
        "releasing/measuring.py",
        "if spec.tables is None or not planned.bought:",
        "if spec.tables is not None:",
        OPEN + "test_the_measurement_attributes_every_row_as_the_discovery_did",
    ),
)
"""A root with everything attributed to it."""

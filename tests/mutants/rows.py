"""Rows: more than k of a person, or rows whose reading depends on other rows."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant, bug

MOMENTS, PAIRS = "methods/gaussian/mechanism.py", "methods/gaussian/pairs.py"
STATISTICS, GRID = "methods/mixing/statistics.py", "methods/mixing/grid.py"

ROWS_OF_A_PERSON = (
    bug(
        "at most k rows, and one",
        "sources/ranking.py",
        "kept[i] = rank < count",
        "kept[i] = rank <= count",
        "sources/test_bounding.py::test_the_cap_holds_and_the_choice_ignores_how_rows_are_split_and_ordered",
    ),
    bug(
        "half of an id's hash",
        "sources/ranking.py",
        "rank = rank + 1 if i and e_high[a] == e_high[b] and e_low[a] == e_low[b] else 0",
        "rank = rank + 1 if i and e_high[a] == e_high[b] else 0",
        "sources/test_neighbours.py::test_ids_that_collide_in_either_half_of_the_hash_are_told_apart",
    ),
    bug(
        "NaN is somebody",
        "sources/ids.py",
        "known = known & ~np.isnan(words.view(np.float64))",
        "pass",
        "sources/test_ids.py::test_null_nan_and_nothing_are_nobody_in_every_type",
    ),
    bug(
        "7 and 7.0 are two people",
        "sources/ids.py",
        "if plain and digits:",
        "if False and digits:",
        "sources/test_ids.py::test_spellings_of_one_id_are_one_person_unless_the_spec_says_text",
    ),
    bug(
        "a file that changes while it is read",
        "sources/pinning.py",
        "if not same:",
        "if False:",
        "sources/test_changing_sources.py::test_a_file_that_changes_between_passes_is_an_error",
    ),
    bug(
        "each thread its own allowance",
        "counting/counting.py",
        "kept = merge(found, unit).kept",
        "from understudy.pipelines.sources.rows import joined\n    kept = joined([each.kept for each in found])",
        "sources/test_neighbours.py::test_one_entity_moves_no_count_by_more_than_its_rows_and_nobody_moves_any",
    ),
    bug(
        "the first k rows in the order they are read",
        "sources/bounding.py",
        'return Candidates(entity, hash_rows(seen.codes, key, "row"), tie, seen.kept)',
        "place = np.arange(len(entity), dtype=np.uint64)\n"
        "    return Candidates(entity, Hashes(place, place), tie, seen.kept)",
        "sources/test_sources.py::test_the_choice_follows_the_key_and_nothing_else",
    ),
    bug(
        "an engine chooses a person's rows",
        "counting/counting.py",
        "if self.unit.entity is not None:  # no engine chooses the rows that `passes` does",
        "if False:",
        "sources/test_neighbours.py::test_one_entity_moves_no_count_by_more_than_its_rows_and_nobody_moves_any",
    ),
)
"""At most k rows of anyone."""

MOVED_BY_EQUAL_ROWS = "counting/test_weights.py::test_an_entity_of_equal_rows_moves_exactly_what_is_declared"
TICKS_OF_A_PERSON = (
    bug(
        "ticks: weights that sum to 2",
        "counting/weights.py",
        "return self.ticks // rows",
        "return 2 * self.ticks // rows",
        MOVED_BY_EQUAL_ROWS,
    ),
    bug(
        "ticks: every row weighs as much as an entity",
        "counting/weights.py",
        "return self.ticks // rows",
        "return self.ticks + 0 * rows",
        MOVED_BY_EQUAL_ROWS,
    ),
    bug(
        "ticks: a unit of k rows and not of W ticks",
        "counting/weights.py",
        "return replace(unit, max_rows=weights.ticks)",
        "return unit",
        MOVED_BY_EQUAL_ROWS,
    ),
    bug(
        "ticks: noise grows with max_rows again",
        "counting/weights.py",
        "return replace(unit, max_rows=weights.ticks)",
        "return replace(unit, max_rows=weights.ticks * unit.max_rows)",
        MOVED_BY_EQUAL_ROWS,
    ),
    bug(
        "ticks: one row of an entity is not counted",
        "counting/weighted_tally.py",
        "rows = rows_of_entity(kept.entity)",
        "rows = np.maximum(rows_of_entity(kept.entity) - 1, 1)",
        MOVED_BY_EQUAL_ROWS,
    ),
    bug(
        "ticks: each thread its own allowance",
        "counting/weighted_tally.py",
        "kept = merge(found, unit)",
        "from understudy.pipelines.sources.bounding import _joined\n        kept = _joined(found)",
        "counting/test_weighted_tally.py::test_however_the_rows_are_split_the_ticks_are_the_same",
        says="an entity has more rows than its cap",
    ),
)
"""At most W ticks of anyone, however many rows they are of."""

ROW_BY_ROW = (
    bug(
        "NaN through the clip of the grid",
        GRID,
        "if not np.isfinite(scaled):",
        "if np.isinf(scaled):",
        "methods/mixing/test_mechanism.py::test_placing_is_centring_the_grid_and_clipping",
    ),
    bug(
        "NaN through the clip of numbers",
        "table/coding/grid.py",
        "finite = abs(value) < np.inf",
        "finite = not abs(value) == np.inf",
        "methods/gaussian/test_moments.py::test_any_value_lands_on_the_grid",
        "RuntimeWarning: invalid value",
    ),
    bug(
        "NaN becomes the largest level",
        "methods/kernel/features.py",
        "known = np.where(np.isnan(values), np.float32(0.5), values)",
        "known = np.nan_to_num(values, nan=1e9)",
        "methods/kernel/test_mechanism.py::test_strange_values_land_on_the_grid",
    ),
    bug(
        "a stray quote swallows rows",
        "sources/files/csv_lines.py",
        "if state != _QUOTED or not many_lines:",
        "if state != _QUOTED:",
        "flows/test_odd_rows.py::test_one_unclosed_quote_in_a_csv_file",
    ),
    bug(
        "one odd date stops a SQL source",
        "sources/databases/sqlalchemy_values.py",
        "raw: sa.ColumnElement[Any] = sa.type_coerce(self.column, NullType())",
        "raw: sa.ColumnElement[Any] = self.column",
        "flows/test_odd_rows.py::test_one_unreadable_date_in_a_sql_source",
        says="SourceError: reading",
    ),
    bug(
        "bounds read from the data",
        "table/coding/grid.py",
        "    low, high = bounds(column)\n    absent",
        "    low, high = bounds(column)\n    low = max(low, float(np.nanmin(np.append(numbers, high))))\n    absent",
        "methods/gaussian/test_moments.py::test_partitioning_workers_and_order_change_nothing",
    ),
    bug(
        "bins read from the data",
        "table/coding/encode.py",
        "bucket(numbers, bins_of(column.edges, whole), column.fallback_code, codes)",
        "numbers = numbers + (column.edges[0] - numbers.min(initial=column.edges[0]))\n"
        "        bucket(numbers, bins_of(column.edges, whole), column.fallback_code, codes)",
        "table/coding/test_encoding.py::test_is_total_and_each_row_stands_alone",
    ),
    bug(
        "categories read from the data",
        "table/coding/encode.py",
        'np.take(_codes_of_places(column), reading.numbers, out=codes, mode="clip")',
        'np.take(_codes_of_places(column), reading.numbers, out=codes, mode="clip")\n'
        "        codes -= codes.min(initial=0 if not len(codes) else codes.max())",
        "table/coding/test_encoding.py::test_agrees_with_the_plain_oracle",
    ),
    bug(
        "a null rounds its neighbours another way",
        "table/tensors.py",
        "elif pa.types.is_decimal(type_) or (pa.types.is_integer(type_) and type_.bit_width == 64):",
        "elif child.null_count:",
        "table/tensors/test_rows_alone.py::test_a_null_beside_it_does_not_round_a_large_number_another_way",
    ),
    bug(
        "a block of one row is summed in another order",
        PAIRS,
        "squares = features[layout.number_rows].astype(np.int64) ** 2",
        "squares = (features[layout.number_rows] / 3.0) ** 2 * 9.0",
        "methods/gaussian/test_pairs.py::test_a_block_of_one_row_has_the_norm_it_has_beside_others",
    ),
    Mutant(
        "the number of rows from a file's footer",
        "tests/flows/test_plan_and_ledger.py::test_plan_estimates_counting_without_asking_how_many_rows_there_are",
        (Edit("understudy/cli/estimating.py", "if not spec.source.rows_are_public:", "if False:"),),
    ),
)
"""What one row becomes depends on that row alone."""

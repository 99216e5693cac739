"""Privacy bugs, each as a small edit of today's code and the one test that must fail for it.

Among them is every break that was ever reproduced in this project, both ways of each scale error, and what the
literature and other libraries got wrong. `run.py` plants them in copies of the tree; `test_planted.py` sees to it that
none goes stale: an edit whose text is no longer there exactly once fails there, so that whoever moves the code moves
the bug along with it.

A test that must fail is a test of `make test`: fast, and about the thing that is broken, not a hash of the source.
"""

from __future__ import annotations

from tests.mutants.charges import CAP, EVENTS
from tests.mutants.later import CHOSEN, DISCOVERED, WEIGHED
from tests.mutants.mutant import Mutant, found
from tests.mutants.noise import DRAWS, SCALES, SENSITIVITIES
from tests.mutants.rows import ROW_BY_ROW, ROWS_OF_A_PERSON, TICKS_OF_A_PERSON
from tests.mutants.trees import TREES
from tests.mutants.visible import VISIBLE

REPLAYED = "tests/auditing/test_replay.py::test_no_pair_of_neighbours_is_told_apart"
BY_SOURCE = "tests/auditing/test_sources.py::test_no_pair_of_neighbours_is_told_apart_by_where_it_lies"
DISCOVERED_FIRST = "tests/auditing/test_replay.py::test_nor_where_columns_are_discovered_first"
COLLIDING = "tests/auditing/test_sources.py::test_nor_where_all_ids_collide_in_one_half_of_their_hashes"
CHANGING = (
    "tests/auditing/test_sources.py::test_a_file_that_changes_in_between_ends_alike_for_both_and_buys_nothing[csv]"
)
WHOLE = "tests/auditing/test_whole.py::test_nothing_of_a_whole_release_tells_its_table_from_a_neighbour"
RETRIED = "tests/auditing/test_whole.py::test_nor_do_runs_that_fail_and_are_tried_again[privpgd, people]"
QUOTING = "tests/auditing/test_whole.py::test_nor_does_a_stage_that_fails_and_quotes_what_it_was_given"
UNCHARGED = "tests/auditing/test_whole.py::test_nor_is_anything_drawn_that_is_not_charged_to_the_last_bit"
FAMILIES = "tests/auditing/test_replay.py::test_nor_are_two_sets_of_tables_that_differ_in_one_family"
FAMILIES_FIRST = "tests/auditing/test_replay.py::test_nor_two_sets_of_tables_whose_columns_are_discovered_first"
DECLARED = "tests/releasing/test_declarations.py::test_whatever_is_declared_and_true_keeps_every_unit_within_the_cap"
BY_GENERATORS = {
    "a period for every snapshot text": DECLARED,
    "trees: weights that sum to 2": FAMILIES + "[tree]",
    "trees: every row weighs as much as a root": FAMILIES + "[tree]",
    "trees: a unit of one row and not of W ticks": FAMILIES + "[tree]",
    "trees: a row more than the bound": FAMILIES + "[tree]",
    "trees: an orphan is counted": FAMILIES + "[tree]",
    "trees: roots without a key are one root": FAMILIES + "[tree]",
    "trees: the row that was read first owns a key": FAMILIES + "[tree, many visits]",
    "trees: the rows that are kept depend on how many there are": FAMILIES + "[tree, in order]",
    "trees: a row follows on one of another family": FAMILIES + "[tree, in order]",
    "trees: a row has the siblings of the parent before": FAMILIES + "[tree]",
    "a file that changes while it is read": CHANGING,
    "half of an id's hash": COLLIDING + "[high]",
    "the door does not compare events": UNCHARGED + "[privpgd, people]",
    "errors of the Python interface quote values": QUOTING,
    "a failed draw quotes its values": QUOTING,
    "redrawn on retry": RETRIED,
    "trees: open columns do not tell rows apart": FAMILIES_FIRST + "[tree, discovery]",
    "trees: discovery takes a root for one row": FAMILIES_FIRST + "[tree, discovery]",
    "trees: in discovery every row is a unit": FAMILIES_FIRST + "[tree, discovery]",
    "trees: measured by another attribution than discovered": FAMILIES_FIRST + "[tree, discovery]",
    "discovery: every value of a unit counts in full": DISCOVERED_FIRST + "[discovery, people]",
    "discovery: a threshold one too low": DISCOVERED_FIRST + "[discovery]",
    "discovery: what spills is not charged": DISCOVERED_FIRST + "[discovery]",
    "counts: the square root of 2 of a replaced row is lost": REPLAYED + "[privpgd, adaptive people replaced]",
    "counts: the rows of an entity are forgotten": REPLAYED + "[privpgd, quality]",
    "residuals: replacing taken for adding": REPLAYED + "[privpgd, replaced]",
    "residuals: the rows of an entity are forgotten": REPLAYED + "[privpgd, people]",
    "moments: replacing taken for adding": REPLAYED + "[gaussian, fixed centre replaced]",
    "moments: the rows of an entity are forgotten": REPLAYED + "[gaussian, people]",
    "products: rows are not clipped": REPLAYED + "[gaussian]",
    "embeddings: the class size costs nothing": REPLAYED + "[kernel]",
    "embeddings: the records of a unit are forgotten": REPLAYED + "[kernel, people]",
    "mixtures: norms are not bounded": REPLAYED + "[mixing]",
    "noise in floats": REPLAYED + "[privpgd, quality]",
    "at most k rows, and one": REPLAYED + "[privpgd, people]",
    "ticks: weights that sum to 2": REPLAYED + "[privpgd, people]",
    "ticks: every row weighs as much as an entity": REPLAYED + "[privpgd, auto]",
    "ticks: a unit of k rows and not of W ticks": REPLAYED + "[privpgd, people replaced]",
    "ticks: one row of an entity is not counted": REPLAYED + "[privpgd, people]",
    "7 and 7.0 are two people": REPLAYED + "[privpgd, people]",
    "NaN is somebody": REPLAYED + "[privpgd, people]",
    "a stray quote swallows rows": BY_SOURCE + "[csv-privpgd, replaced]",
    "one odd date stops a SQL source": BY_SOURCE + "[sqlite-privpgd, people]",
    "bins read from the data": REPLAYED + "[privpgd]",
    "the exact number of rows in the facts": REPLAYED + "[privpgd]",
    "weights: an entity taken for one tick": REPLAYED + "[privpgd, people]",
    "the exact number of rows of entities": REPLAYED + "[privpgd, people replaced]",
}
"""Bugs that the audit's own generators find, not only the test that was written for each of them."""

EIGHT_BREAKS = {
    "the cap as a natural filter": ("an account whose releases compose as if they were fixed",),
    "a period for every snapshot text": ("a period for every snapshot text",),
    "files that change between the passes": ("a file that changes while it is read", "at most k rows, and one"),
    "ids that collide in 64 bits": ("half of an id's hash",),
    "ids that are nobody, or spelled in several ways": ("NaN is somebody", "7 and 7.0 are two people"),
    "one odd cell stops a source or swallows rows": (
        "one odd date stops a SQL source",
        "a stray quote swallows rows",
    ),
    "what is drawn is not what is charged": ("the door does not compare events",),
    "values in errors of the Python interface": ("errors of the Python interface quote values",),
}
"""What a hostile review broke on commit 7b5a274 (issue "Every claim true"), and the bugs that bring each of it back."""

EVERYTHING = (
    *(*SCALES, *SENSITIVITIES, *DRAWS, *EVENTS, *CAP),
    *(*ROWS_OF_A_PERSON, *TICKS_OF_A_PERSON, *ROW_BY_ROW, *VISIBLE),
    *(*WEIGHED, *CHOSEN, *DISCOVERED, *TREES),
)
MUTANTS: tuple[Mutant, ...] = found(EVERYTHING, BY_GENERATORS)

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
from tests.mutants.visible import VISIBLE

REPLAYED = "tests/auditing/test_replay.py::test_no_pair_of_neighbours_is_told_apart"
BY_SOURCE = "tests/auditing/test_sources.py::test_no_pair_of_neighbours_is_told_apart_by_where_it_lies"
BY_GENERATORS = {
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
    "choices: the sensitivity of a replaced row": REPLAYED + "[privpgd, adaptive people replaced]",
    "noise in floats": REPLAYED + "[privpgd, quality]",
    "at most k rows, and one": REPLAYED + "[privpgd, people]",
    "ticks: weights that sum to 2": REPLAYED + "[privpgd, people]",
    "ticks: every row weighs as much as an entity": REPLAYED + "[privpgd, auto]",
    "ticks: a unit of k rows and not of W ticks": REPLAYED + "[privpgd, people replaced]",
    "ticks: one row of an entity is not counted": REPLAYED + "[privpgd, people]",
    "7 and 7.0 are two people": REPLAYED + "[privpgd, people]",
    "NaN is somebody": REPLAYED + "[privpgd, people]",
    "a stray quote swallows rows": BY_SOURCE + "[csv-privpgd, people]",
    "one odd date stops a SQL source": BY_SOURCE + "[sqlite-privpgd, people]",
    "bins read from the data": REPLAYED + "[privpgd]",
    "the exact number of rows in the facts": REPLAYED + "[privpgd]",
    "weights: an entity taken for one tick": REPLAYED + "[privpgd, people]",
    "the exact number of rows of entities": REPLAYED + "[privpgd, people replaced]",
}
"""Bugs that the audit's own generators find, not only the test that was written for each of them."""

EVERYTHING = (
    *(*SCALES, *SENSITIVITIES, *DRAWS, *EVENTS, *CAP),
    *(*ROWS_OF_A_PERSON, *TICKS_OF_A_PERSON, *ROW_BY_ROW, *VISIBLE),
    *(*WEIGHED, *CHOSEN, *DISCOVERED),
)
MUTANTS: tuple[Mutant, ...] = found(EVERYTHING, BY_GENERATORS)

"""Listed values and truths, however they are stored: which of the listed ones a value is.

A category matches by its text, so 7, 7.0 and "7" are one value; true and false also match listed 1 and 0. Decimals are
compared as doubles. Where the spec says so, blanks around a word and its case do not count, and a value has aliases.
A truth is one of the usual words, in any case and with white space around it, a text or number that is 0 or 1, or what
the spec lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import TruthForm, WordForm
from understudy.pipelines.table.reading.arrow import is_text, texts, unboxed, wholes
from understudy.pipelines.table.reading.numbers import numbers_of

_USUAL = {"false": 0, "true": 1, "f": 0, "t": 1, "no": 0, "yes": 1, "n": 0, "y": 1, "off": 0, "on": 1, "0": 0, "1": 1}
NEITHER = 2
"""What stands for a value that is neither false (0) nor true (1)."""

_SPELLED = (("0", "False", "false"), ("1", "True", "true"))


def truths_of(values: pa.Array, form: TruthForm | None = None) -> np.ndarray:
    """0, 1 or NEITHER; nulls become arbitrary."""
    words = _truths(form)
    if is_text(values.type):
        lowered = pc.ascii_lower(pc.ascii_trim_whitespace(texts(values)))
        found = _positions(lowered, pa.array(list(words), pa.large_string()), list(words.values()), NEITHER)
        if (rest := np.flatnonzero(found == NEITHER)).size:  # 1.0 and 0.00 are truths too
            found[rest] = _zero_or_one(numbers_of(lowered.take(pa.array(rest))))
        return found
    numbers = numbers_of(values)
    found = _zero_or_one(numbers)
    for word, truth in words.items() if form is not None and not pa.types.is_boolean(values.type) else ():
        found[numbers == numbers_of(pa.array([word]))[0]] = truth
    return found


def _zero_or_one(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers == 1, 1, np.where(numbers == 0, 0, NEITHER))


@lru_cache(maxsize=256)
def _truths(form: TruthForm | None) -> dict[str, int]:
    """The usual words, and what a spec lists, which counts where the two differ."""
    listed = {} if form is None else {**dict.fromkeys(form.false, 0), **dict.fromkeys(form.true, 1)}
    return _USUAL | listed


def places_of(values: pa.Array, listed: tuple[str | int, ...], form: WordForm | None = None) -> np.ndarray:
    """The place of each value in the list, as many as there are where it is not listed; nulls become arbitrary."""
    type_, absent, by_text = values.type, len(listed), _by_text(listed, form)
    if form is not None and form.is_spelled and is_text(type_):
        return _spelled_places(texts(values), by_text, absent, form)
    if pa.types.is_boolean(type_):
        of_truth = [absent, absent]
        for truth, names in enumerate(_SPELLED):
            for name in names:
                of_truth[truth] = by_text.get(name, of_truth[truth])
        return np.array(of_truth, np.int64).take(wholes(values))
    if pa.types.is_integer(type_):
        low, high = (0, 2**64) if pa.types.is_unsigned_integer(type_) else (-(2**63), 2**63)
        wide = pa.uint64() if low == 0 else pa.int64()
        whole = {int(text): place for text, place in by_text.items() if is_whole(text) and low <= int(text) < high}
        return _positions(pc.cast(values, wide), pa.array(list(whole), wide), list(whole.values()), absent)
    if pa.types.is_floating(type_) or (pa.types.is_decimal(type_) and type_.scale != 0):
        numbers = numbers_of(pa.array(list(by_text), pa.large_string())) + 0.0  # -0.0 and 0.0 are one value
        known = np.isfinite(numbers)
        places = np.array(list(by_text.values()))[known]
        return _positions(pa.array(numbers_of(values) + 0.0), pa.array(numbers[known]), places, absent)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        values = pc.cast(values, pa.timestamp(type_.unit))
    return _positions(texts(values), pa.array(list(by_text), pa.large_string()), list(by_text.values()), absent)


@lru_cache(maxsize=1024)
def _by_text(listed: tuple[str | int, ...], form: WordForm | None) -> dict[str, int]:
    found = {str(value): place for place, value in reversed(list(enumerate(listed)))}
    if form is None:
        return found
    places = {value: place for place, value in enumerate(listed)}
    return {alias: places[value] for alias, value in form.aliases} | found


def _spelled_places(values: pa.LargeStringArray, by_text: dict[str, int], absent: int, form: WordForm) -> np.ndarray:
    """By what words are compared by, found once for each different text."""
    by_spelling = {form.spelled(text): place for text, place in by_text.items()}
    coded = values.dictionary_encode()
    different = coded.dictionary.view(pa.large_binary()).to_pylist()
    places = [by_spelling.get(form.spelled(text.decode(errors="replace")), absent) for text in different]
    return np.array([*places, absent], np.int64).take(unboxed(pc.fill_null(coded.indices, len(different))))


def is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 25 and str(int(text)) == text


def _positions(values: pa.Array, listed: pa.Array, places: Sequence[int] | np.ndarray, absent: int) -> np.ndarray:
    """The place that goes with each value; the first of equal listed values counts."""
    found = pc.fill_null(pc.index_in(values, value_set=listed, skip_nulls=True), len(listed))
    return np.append(np.asarray(places, np.int64), absent).take(unboxed(found))

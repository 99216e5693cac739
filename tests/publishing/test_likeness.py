"""What the card says of pictures, from published rows alone: how they vary, what repeats, what is blurred."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.pages import faults, read_page
from tests.publishing.test_samples import card_of, made, picture
from tests.table.tensors.examples import picture_spec
from understudy.pipelines.publishing.card.rendering import MOST_BYTES
from understudy.pipelines.publishing.likeness import PAIRS, RANKED, Likeness, fine_shares, likenesses
from understudy.pipelines.publishing.samples import picture_classes
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import write_tensor

SIDE = 12
CLASSES = ["spread", "one", "soft"]


def digits_of(pictures: dict[str, np.ndarray]) -> tuple[Any, pa.Table]:
    """A spec and a table of pictures by class, mixed."""
    spec = picture_spec(columns={
        "image": {"type": "tensor", "shape": [SIDE, SIDE], "min": 0, "max": 255},
        "label": {"type": "category", "values": CLASSES},
    })  # fmt: skip
    labels = np.repeat(list(pictures), [len(each) for each in pictures.values()])
    numbers = np.concatenate(list(pictures.values())).reshape(len(labels), -1) * 255
    order = np.random.default_rng(1).permutation(len(labels))
    tensor = TableDomain.of(spec).tensors[0]
    return spec, pa.table({"label": pa.array(labels[order]), "image": write_tensor(numbers[order], tensor)})


def three_kinds(many: int = 30) -> dict[str, np.ndarray]:
    """One class of noise, one that is the same picture throughout, one that is smooth."""
    rng = np.random.default_rng(3)
    at = np.arange(SIDE) / SIDE
    waves = [np.cos(math.pi * (at[:, None] * a + at[None, :] * b)) for a in (0, 1, 2) for b in (0, 1, 2)]
    smooth = 0.5 + np.tensordot(rng.uniform(-0.05, 0.05, (many, len(waves))), waves, 1)
    same = np.repeat(rng.random((1, SIDE, SIDE)), many, axis=0)
    return {"spread": rng.random((many, SIDE, SIDE)), "one": same, "soft": smooth}


def likenesses_of(spec: Any, table: pa.Table) -> dict[str, Likeness]:
    domain = TableDomain.of(spec)
    found = likenesses(table.column("image"), domain.tensors[0], picture_classes(table, domain))
    return {each.label.removeprefix("label "): each for each in found}


def test_fine_detail_is_what_varies_faster_than_four_pixels() -> None:
    board = np.indices((SIDE, SIDE)).sum(axis=0) % 2
    waves = 0.5 + 0.5 * np.cos(math.pi * (np.arange(SIDE) + 0.5) / SIDE)[:, None] * np.ones(SIDE)
    noise = np.random.default_rng(2).random((200, 32, 32, 3))
    shares = fine_shares(np.stack([board, waves, np.full((SIDE, SIDE), 0.3)])[..., None])
    assert shares == pytest.approx([1, 0, 0], abs=0.1)
    assert shares[2] == 0
    assert fine_shares(noise).mean() == pytest.approx(1 - math.pi / 16, abs=0.02)  # a quarter of a disc is not fine


def test_distances_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(5)
    given = {"spread": rng.random((9, SIDE, SIDE)), "one": rng.random((7, SIDE, SIDE)) * 0.2}
    spec, table = digits_of(given)
    found = likenesses_of(spec, table)
    one, other = (np.rint(each * 255).reshape(len(each), -1) / 255 for each in given.values())

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.sqrt(((a[:, None] - b[None, :]) ** 2).mean(axis=2))

    inside = apart(one, one)[np.triu_indices(9, 1)]
    assert found["spread"].within == pytest.approx(math.sqrt((inside**2).mean()))
    assert found["spread"].between == pytest.approx(math.sqrt((apart(one, other) ** 2).mean()))
    assert found["spread"].variety == pytest.approx(found["spread"].within / found["spread"].between)
    assert found["spread"].pairs[0].apart == pytest.approx(inside.min())
    assert found["spread"].nearest == pytest.approx(
        np.median(np.where(np.eye(9, dtype=bool), np.inf, apart(one, one)).min(axis=1))
    )


def test_a_class_that_repeats_itself_is_seen_and_a_blurred_one_has_no_fine_detail() -> None:
    spec, table = digits_of(three_kinds())
    found = likenesses_of(spec, table)
    assert found["one"].repeated == 1
    assert found["one"].variety == pytest.approx(0, abs=1e-6)
    assert found["spread"].repeated == 0
    assert found["soft"].fine < 0.02 < found["spread"].fine
    labels = table["label"].to_pylist()
    for name, each in found.items():
        rows = [row for pair in each.pairs for row in (pair.one, pair.other)]
        assert len(set(rows)) == len(rows) == 2 * PAIRS
        assert {labels[row] for row in [*rows, *each.ranked]} == {name}
        assert [pair.apart for pair in each.pairs] == sorted(pair.apart for pair in each.pairs)
        assert len(each.ranked) == RANKED


def test_the_card_says_so_in_words_and_shows_the_pictures() -> None:
    spec, table = digits_of(three_kinds())
    card = card_of(spec, table)
    page = read_page(card)
    assert faults(page) == []
    told = page.sections["Pictures: what repeats, what is blurred"]
    assert told.count("repeats itself") == 1 + 1  # the class, and the remark above
    assert "how near its pictures are to real ones does not" in told
    said = [each.attributes.get("aria-label", "") for each in page.all("svg")]
    assert sum(text.startswith("pair 1 of nearly alike pictures of label one, 0.0% apart") for text in said) == 1
    assert "pictures of label soft from the most blurred to the sharpest" in said
    assert card.count("data:image/png;base64,") == 2
    # The first pair that is shown is the pair that was found.
    uri = re.findall(r'id="alike-0" href="data:image/png;base64,([^"]+)"', card)[0]
    pixels = picture(base64.b64decode(uri))
    pair = likenesses_of(spec, table)["spread"].pairs[0]
    for place, row in enumerate((pair.one, pair.other)):
        left = place * (SIDE + 2)
        given = np.array(table["image"][row].as_py()).reshape(SIDE, SIDE)
        np.testing.assert_array_equal(pixels[:SIDE, left : left + SIDE], given)


def test_what_is_said_of_pictures_is_said_again_of_the_rows_that_are_published() -> None:
    """Read back from a file, the published rows give the same: nothing else is in it."""
    spec, table = digits_of(three_kinds(5))
    again = pa.Table.from_pylist(table.to_pylist(), schema=table.schema)
    name = "Pictures: what repeats, what is blurred"
    assert read_page(card_of(spec, table)).sections[name] == read_page(card_of(spec, again)).sections[name]


def test_one_picture_alone_and_pictures_without_labels() -> None:
    rng = np.random.default_rng(6)
    spec, table = digits_of({"spread": rng.random((1, SIDE, SIDE)), "one": rng.random((4, SIDE, SIDE))})
    alone = likenesses_of(spec, table)["spread"]
    assert (alone.within, alone.nearest, alone.repeated, alone.pairs, alone.variety) == (None, None, None, (), None)
    assert len(alone.ranked) == 1
    assert "One picture alone" in card_of(spec, table)
    nameless = picture_spec(columns={"image": {"type": "tensor", "shape": [4, 3], "min": 0, "max": 255}})
    card = card_of(nameless, made(nameless, 13))
    assert "all pictures" in card
    assert faults(read_page(card)) == []


def test_a_card_of_many_large_pictures_stays_small() -> None:
    """On 66eb9e5 the samples of twenty classes of coloured noise alone take more than the card may."""
    spec = picture_spec(columns={
        "image": {"type": "tensor", "shape": [64, 64, 3], "min": 0, "max": 255},
        "label": {"type": "category", "values": [f"kind {number}" for number in range(20)]},
    })  # fmt: skip
    assert len(card_of(spec, made(spec, 200)).encode()) <= MOST_BYTES

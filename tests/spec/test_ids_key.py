"""`unit.ids` is a new key: specs without it keep their hash."""

from __future__ import annotations

import pytest

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.reading import parse_spec

WITH_IDS = SPEC.replace("max_rows: 4", "max_rows: 4, ids: text")
BEFORE = "a3502e052633d91ad97b0ca07b5c1706ed65f4ea03ca05a5e0987eb4c39284cb"


def test_the_hash_of_a_spec_without_it_is_what_it_was() -> None:
    assert parse_spec(SPEC).hash == BEFORE
    assert parse_spec(WITH_IDS).hash != BEFORE
    assert "ids" not in parse_spec(SPEC).model_dump()["privacy"]["unit"]


def test_it_reaches_the_unit_and_is_no_other_account() -> None:
    plain, text = (parse_spec(each).privacy.protected_unit for each in (SPEC, WITH_IDS))
    assert (plain.ids_are_text, text.ids_are_text) == (False, True)
    assert plain == text


@pytest.mark.parametrize("unit", ["{ids: text}", "{entity: patient_id, ids: number}"])
def test_it_needs_an_entity_and_knows_one_word(unit: str) -> None:
    with pytest.raises(SpecError, match="ids"):
        parse_spec(SPEC.replace("{entity: patient_id, max_rows: 4}", unit))

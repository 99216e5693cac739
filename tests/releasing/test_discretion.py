"""What leaves a guarded function: an error of ours, bare."""

from __future__ import annotations

import traceback

import pytest

from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.releasing.discretion import discreet


@discreet("looking")
def fail(error: BaseException, row: str) -> None:
    seen = row  # a local variable of the frame that fails
    try:
        raise KeyError(seen)
    except KeyError:
        error.add_note(row)
        raise error  # noqa: B904  the context is what the test is about


def caught_from(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as caught:
        fail(error, "se" + "cret")
    return caught.value


@pytest.mark.parametrize("error", [ValueError("secret"), BaseException("secret"), SpecError("public", "fix"),
                                   ExceptionGroup("secret", [ValueError("secret")])])  # fmt: skip
def test_nothing_is_attached_to_what_leaves(error: BaseException) -> None:
    told = caught_from(error)
    assert isinstance(told, UnderstudyError)
    assert (told.__cause__, told.__context__, getattr(told, "__notes__", None)) == (None, None, None)
    page = traceback.TracebackException.from_exception(told, capture_locals=True)
    inside = [frame for frame in page.stack if frame.name in ("fail", "guarded")]
    assert [frame.name for frame in inside] == ["guarded"]
    assert not [text for text in (inside[0].locals or {}).values() if "secret" in text]
    assert "secret" not in str(told)


def test_our_own_words_pass_and_a_stranger_is_named_by_type_and_stage() -> None:
    ours = SpecError("public", "fix")
    assert caught_from(ours) is ours
    assert str(caught_from(ValueError("secret"))).startswith("looking failed with ValueError;")


def test_an_interruption_passes_without_what_it_interrupted() -> None:
    stopped = KeyboardInterrupt()
    assert caught_from(stopped) is stopped
    assert stopped.__context__ is None
    assert "secret" not in "".join(traceback.format_exception(stopped))

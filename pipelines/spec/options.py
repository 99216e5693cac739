"""Reading what a spec says under `method:` into a method's own options, with errors that name the key."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.public import Public

Options = TypeVar("Options", bound=Public)


def read_options(spec: ReleaseSpec, kind: type[Options]) -> Options:
    try:
        return kind.model_validate(spec.method.options)
    except ValidationError as error:
        problems = "\n".join(_explained(problem["loc"], problem["type"], problem["msg"]) for problem in error.errors())
        raise SpecError(problems, f"{spec.method.name} knows: {', '.join(kind.model_fields)}; see docs/") from None


def _explained(where: tuple[int | str, ...], kind: str, message: str) -> str:
    key = ".".join(str(part) for part in where) or "options"
    what = "unknown option" if kind == "extra_forbidden" else message.removeprefix("Value error, ")
    return f"method.{key}: {what}"

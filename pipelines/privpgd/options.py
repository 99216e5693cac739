"""What a spec may say under `method:` for privpgd."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError
from understudy.pipelines.columns import Public
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec import MethodSpec


class PrivPGDOptions(Public):
    marginals: Literal["all-1way", "all-2way", "all-3way"] | tuple[tuple[str, ...], ...] = "all-2way"
    one_way_share: float = Field(
        0.1,
        ge=0,
        le=0.9,
        description="part of the budget set aside for one-way marginals, which anchor the others",
    )


def privpgd_options(method: MethodSpec) -> PrivPGDOptions:
    try:
        return PrivPGDOptions.model_validate(method.options)
    except ValidationError as error:
        problems = "\n".join(
            f"method.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()
        )
        raise SpecError(problems, f"privpgd knows: {', '.join(PrivPGDOptions.model_fields)}") from None

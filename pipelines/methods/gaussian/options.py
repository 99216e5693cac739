"""The options of the method, as the spec's `method:` mapping gives them. All public; a typo is an error."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.options import read_options
from understudy.pipelines.spec.public import Public
from understudy.pipelines.table.domain import TableDomain

Mode = Literal["noisy-moments", "copula", "sampling-noise"]
LABEL_KINDS = ("category", "boolean")
MAX_CLASSES = 200


class GaussianOptions(Public):
    mode: Mode = Field("noisy-moments", description="what is released: noisy moments, a copula, or samples themselves")
    label: str | None = Field(
        None, description="category or boolean column; one Gaussian is fitted to each of its values"
    )
    centre: Literal["learned", "fixed"] = Field(
        "learned",
        description="noisy-moments only: products about the noisy means, clipped, or about the middle, in one pass",
    )
    rows: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="sampling-noise only: records the charge buys; default publish.rows",
    )
    batches: int = Field(1, ge=1, le=1000, description="sampling-noise only: charges the records are bought in")
    marginal_share: float = Field(
        0.3, gt=0.01, lt=0.99, description="copula only: share of the budget that buys the one-way marginals"
    )
    expected_rows: int = Field(
        100_000,
        ge=1,
        le=10**12,
        description="your public guess of the table's size; only advice depends on it",
    )


def gaussian_options(spec: ReleaseSpec, domain: TableDomain) -> GaussianOptions:
    """Check `method:` of the spec, and that the label names a column this mode can condition on."""
    options = read_options(spec, GaussianOptions)
    if spec.privacy.noise != "rounded":
        raise SpecError(
            f"the gaussian method draws rounded Gaussian noise only, not {spec.privacy.noise!r}",
            "drop privacy.noise, or use `method: {name: privpgd}`",
        )
    if options.label is not None:
        _check_label(options.label, domain)
    return options


def _check_label(label: str, domain: TableDomain) -> None:
    labels = [column.name for column in domain.columns if column.kind in LABEL_KINDS]
    if label not in labels:
        raise SpecError(
            f"method.label: {label!r} is no category or boolean column",
            f"choose one of: {', '.join(labels)}" if labels else "declare such a column or drop `label`",
        )
    if domain.columns[domain.index(label)].size > MAX_CLASSES:
        raise SpecError(
            f"method.label: {label!r} has more than {MAX_CLASSES} values",
            "group them, or model it without `label`",
        )
    if len(domain.columns) == 1:
        raise SpecError("method.label: no other column is left to model", "drop `label`")

"""The public domain of a table: its tensors, and for each coded column its codes, their order and what one stands for.

Codes of a column are laid out as bins or listed values first, then `other` if declared, then null if declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from understudy.pipelines.spec.columns import IdentifierColumn, TensorColumn
from understudy.pipelines.spec.dates import DatetimeColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.table.columns import DomainColumn, QualityColumn
from understudy.pipelines.table.composed import Lapse, Made, Split, lapse_of, made_of, split_of
from understudy.pipelines.table.declared import domain_column


@dataclass(frozen=True)
class TensorDomain:
    """A column of tensors: `shape` numbers a row, laid out row by row, each from `low` to `high`."""

    name: str
    shape: tuple[int, ...]
    low: float
    high: float

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def middle(self) -> float:
        """What stands for a number that cannot be read."""
        return self.low / 2 + self.high / 2

    @property
    def is_picture(self) -> bool:
        """Whether it can be shown: [H, W], [H, W, 1] or [H, W, 3]."""
        return len(self.shape) == 2 or (len(self.shape) == 3 and self.shape[2] in (1, 3))

    @property
    def is_bytes(self) -> bool:
        """Whether its published numbers are whole and fit a byte each."""
        return float(self.low).is_integer() and float(self.high).is_integer() and self.low >= 0 and self.high <= 255


@dataclass(frozen=True)
class TableDomain:
    """The coded columns and the tensors, each in spec order, and the identifiers that are published as fresh ids.

    Whatever counts sees `columns` alone: tensors have no codes. A published table holds, in the place of the parts of a
    datetime, the datetime; of a lapse, the moment; and the columns that are made of others.
    """

    columns: tuple[DomainColumn, ...]
    surrogates: tuple[str, ...] = ()
    tensors: tuple[TensorDomain, ...] = ()
    splits: tuple[Split, ...] = ()
    lapses: tuple[Lapse, ...] = ()
    made: tuple[Made, ...] = ()
    layout: tuple[str, ...] | None = None

    @classmethod
    def of(cls, spec: ReleaseSpec) -> TableDomain:
        modelled: list[DomainColumn] = []
        splits, lapses, made, layout = [], [], [], []
        for name, column in spec.columns.items():
            match column:
                case DatetimeColumn() if column.parts:
                    splits.append(split_of(name, column))
                    modelled += [part for _, part in splits[-1].parts]
                case LaterColumn():
                    lapses.append(lapse_of(name, column, spec))
                    modelled.append(lapses[-1].seconds)
                case DerivedColumn() | LookupColumn():
                    made.append(made_of(name, column, modelled, spec))
                case TensorColumn() | IdentifierColumn():
                    continue
                case OpenColumn():
                    raise ValueError(f"what {name} can hold is still to be discovered")
                case _:
                    modelled.append(domain_column(name, column))
            layout.append(name)
        surrogates = tuple(name for name, column in spec.columns.items() if _is_surrogate(column))
        tensors = tuple(
            TensorDomain(name, column.shape, float(column.min), float(column.max))
            for name, column in spec.columns.items()
            if isinstance(column, TensorColumn)
        )
        published = (*surrogates, *layout, *(tensor.name for tensor in tensors)) if splits or made else None
        return cls(tuple(modelled), surrogates, tensors, tuple(splits), tuple(lapses), tuple(made), published)

    @property
    def as_modelled(self) -> bool:
        """Whether the columns of the source are the coded ones, value by value."""
        return not (self.splits or self.lapses)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def record_names(self) -> tuple[str, ...]:
        """Every column that is read: the coded ones, then the tensors."""
        return self.names + tuple(tensor.name for tensor in self.tensors)

    @property
    def counted_names(self) -> tuple[str, ...]:
        """What is read to count: the coded columns or, lest there be no rows at all, a tensor if nothing is coded."""
        return self.names or self.record_names[:1]

    @property
    def generated_names(self) -> tuple[str, ...]:
        """The columns of a generated table, before what is modelled by parts is put together."""
        return self.surrogates + self.record_names

    @property
    def published_names(self) -> tuple[str, ...]:
        """The columns of a published table, in its order: fresh ids, columns in spec order, tensors."""
        return self.generated_names if self.layout is None else self.layout

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)

    @cached_property
    def countable(self) -> tuple[DomainColumn, ...]:
        """What the numbers in a clique stand for: the columns, and after them how each of them was understood. Of a
        part of a datetime that is how the datetime was: its parts do not tell what could not be taken apart."""
        wholes = {part.name: split.whole for split in self.splits for _, part in split.parts}
        return self.columns + tuple(QualityColumn.of(wholes.get(column.name, column)) for column in self.columns)

    @cached_property
    def countable_sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.countable)

    def quality_of(self, index: int) -> int:
        """The number of a column's quality in a clique."""
        return len(self.columns) + index

    def index(self, name: str) -> int:
        return self.names.index(name)


def _is_surrogate(column: Column) -> bool:
    return isinstance(column, IdentifierColumn) and column.action == "surrogate"

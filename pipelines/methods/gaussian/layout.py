"""Which numbers describe one row: the public layout of the feature vector, decided from the spec alone.

Row r of the table becomes integers f(r): a constant 1; one fixed-point number in [-grid, grid] for each numeric
column; one 0/1 indicator of null for each nullable numeric column; and a 0/1 one-hot block for each category (its
`other` and null codes included, so exactly one of the block is 1). A numeric null has the number 0 and the indicator
1. Each column is one *slot*: whatever the row, a slot's features have norm at most 1 (numbers in units of the grid).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from understudy.pipelines.errors import SpecError
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

NUMERIC_KINDS = ("integer", "number", "date", "datetime")
MAX_FEATURES = 2000


@dataclass(frozen=True)
class Layout:
    """Indices are columns of the domain. `label`, if any, splits rows into classes and is in no slot."""

    domain: TableDomain
    numeric: tuple[int, ...]
    categories: tuple[int, ...]
    label: int | None
    grid: int

    @classmethod
    def of(cls, domain: TableDomain, label: str | None, grid: int) -> Layout:
        label_index = None if label is None else domain.index(label)
        free = [i for i in range(len(domain.columns)) if i != label_index]
        numeric = tuple(i for i in free if domain.columns[i].kind in NUMERIC_KINDS)
        categories = tuple(i for i in free if i not in numeric)
        layout = cls(domain, numeric, categories, label_index, grid)
        if layout.width > MAX_FEATURES:
            raise SpecError(
                f"the gaussian method would need {layout.width} features; it takes at most {MAX_FEATURES}",
                "list fewer category values, or use `method: {name: privpgd}`",
            )
        return layout

    @property
    def slots(self) -> int:
        return len(self.numeric) + len(self.categories)

    @property
    def classes(self) -> int:
        return 1 if self.label is None else self.domain.columns[self.label].size

    def column(self, index: int) -> DomainColumn:
        return self.domain.columns[index]

    @cached_property
    def number_rows(self) -> np.ndarray:
        """Feature positions of the numeric columns; position 0 is the constant."""
        return np.arange(1, 1 + len(self.numeric))

    @cached_property
    def null_row(self) -> dict[int, int]:
        """Position of the null indicator of each nullable numeric column."""
        nullable = [i for i in self.numeric if self.column(i).nullable]
        return {column: 1 + len(self.numeric) + place for place, column in enumerate(nullable)}

    @cached_property
    def block_rows(self) -> dict[int, np.ndarray]:
        """Positions of each category's one-hot block."""
        start, blocks = 1 + len(self.numeric) + len(self.null_row), {}
        for index in self.categories:
            blocks[index] = np.arange(start, start + self.column(index).size)
            start += self.column(index).size
        return blocks

    @cached_property
    def indicator_rows(self) -> np.ndarray:
        return np.arange(1 + len(self.numeric), self.width)

    @cached_property
    def width(self) -> int:
        sizes = sum(self.column(i).size for i in self.categories)
        return 1 + len(self.numeric) + len(self.null_row) + sizes

"""Generated rows to published ones: parts are put together, types kept, moments follow others, sums are computed.

Post-processing of generated values. Parts come first and are rounded, then what is computed from them: a total is the
sum of the amounts that are published beside it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.derived import derive
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.durations import moments_after
from understudy.pipelines.table.keeping import Types, cast, kept_types
from understudy.pipelines.table.parts import put_together


def finished(
    table: pa.Table, domain: TableDomain, types: Types | None = None, rng: np.random.Generator | None = None
) -> pa.Table:
    """The published table of a generated one, its columns in the types of the source's catalogue."""
    if domain.as_modelled and not domain.made and not types:
        return table
    rng = rng or np.random.default_rng()
    kept = kept_types(domain, types or {})
    columns = {name: table.column(name).combine_chunks() for name in domain.generated_names}
    columns |= {split.name: put_together(table, split, rng) for split in domain.splits}
    for column in (*domain.columns, *(split.whole for split in domain.splits)):
        if column.name in kept and column.name not in {lapse.name for lapse in domain.lapses}:
            low, high = column.ends if column.edges else (0, 1)
            columns[column.name] = cast(columns[column.name], kept[column.name], float(low), float(high))
    for lapse in domain.lapses:
        moments = moments_after(columns[lapse.after.name], columns[lapse.name])
        columns[lapse.name] = cast(moments, kept[lapse.name], 0.0, 0.0)
    for made in domain.made:
        columns[made.name] = cast(derive(made, pa.table(columns)), kept[made.name], 0.0, 0.0)
    fields = [
        kept[name].field(name) if name in kept else pa.field(name, columns[name].type)
        for name in domain.published_names
    ]
    return pa.table([columns[name] for name in domain.published_names], schema=pa.schema(fields))

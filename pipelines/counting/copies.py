"""Counts of a synthetic table: of the rows that are there, or as they were added up while its parts were made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.tally import Clique
from understudy.pipelines.table.synthetic import Synthetic


def counts_of(synthetic: Synthetic, cliques: Sequence[Clique]) -> list[np.ndarray]:
    """Over all rows, exact. Of a table in several parts: marginals that were counted while they were made."""
    if synthetic.seen is None:
        return count_marginals([synthetic.codes], synthetic.domain.sizes, cliques)
    return [synthetic.seen.counts[clique] for clique in cliques]

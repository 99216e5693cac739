"""Rows beyond those that were fitted, part by part: copies of fitted rows, every code of them drawn anew.

Method: the redraw of `polish` (Gibbs sampling of density exp(-strength/2 sum_S w_S gap_S^2) over all tables), once
through a part that starts as fitted rows in random order, towards the same target counts; then single-code moves, which
close what gaps are left. Those are some counts a cell, whatever the number of rows: where rows are many some of them
are enough, and where they are few whole sweeps follow as in a fit. The part starts where the sampler would lead it, so
that one pass will do: about half of all codes change, no row stays as it was, and the marginals of each part are as
near to the targets as those of the fit. The strength is three times that of the fit: gaps are smaller in proportion to
its square root, and rows still move.

Columns of the focus are written last in every part, too.

Penalised statistics play no part in a redraw; where there are any, whole sweeps follow it as in a fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.privpgd.engine import Fitted, Int32Array
from understudy.pipelines.methods.privpgd.polish import build_fibres, build_scores, polish
from understudy.pipelines.methods.privpgd.polish_kernel import redraw, sweep
from understudy.pipelines.methods.privpgd.repair import replace_broken_rows
from understudy.pipelines.methods.privpgd.written_last import write_last
from understudy.pipelines.spec.rules import Rule as RowRule
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import keep_order

FITTED_ROWS = 500_000
"""As many are fitted; more would cost as much a row as all of generation did, and change no marginal."""
STRENGTH = 0.3
CLOSING_ROWS = 300
"""For each cell of a marginal: 32 x 32 cells are closed by 300,000 rows."""
SWEEPS = 12


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The sampler of a release: draws are of the fit and the random stream alone."""

    fitted: Fitted
    domain: TableDomain
    rules: tuple[RowRule, ...]

    def draw(self, first: int, rows: int, rng: np.random.Generator) -> pa.Table:
        codes = self.fitted.unmerged(drawn_anew(self.fitted, rows, rng), rng)
        table = decode(codes, self.domain, rng, first_id=first + 1)
        return keep_order(table, codes, self.rules, self.domain, rng)


def drawn_anew(fitted: Fitted, rows: int, rng: np.random.Generator) -> Int32Array:
    """Codes [rows, columns], merged where the fit's are."""
    have = len(fitted.codes)
    codes = np.concatenate([fitted.codes[rng.permutation(have)[: rows - start]] for start in range(0, rows, have)])
    sizes = np.array(fitted.sizes, dtype=np.int64)
    fibres = build_fibres(codes, fitted.targets, fitted.rules, fitted.sizes)
    redraw(codes, np.arange(rows), rng.permutation(len(sizes)), sizes, fibres, np.float32(STRENGTH), rng)
    closing = int(CLOSING_ROWS * np.mean([target.probabilities.size for target in fitted.targets]))
    if fitted.penalties or closing >= rows:
        polish(codes, fitted.targets, fitted.sizes, SWEEPS, rng, fitted.rules, fitted.penalties)
    else:
        some = rng.permutation(rows)[:closing]
        sweep(codes, some, rng.permutation(len(sizes)), sizes, fibres, build_scores(codes, (), fitted.sizes))
    if fitted.rules:
        replace_broken_rows(codes, fitted.rules, fitted.sizes, rng)
    for column in fitted.focus:
        write_last(codes, column, fitted.targets, fitted.sizes, SWEEPS, rng, fitted.rules, fitted.penalties)
    return codes

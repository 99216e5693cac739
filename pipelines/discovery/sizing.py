"""How many bins and values a column can afford: a public formula of the noise, the number of rows and of columns.

Two errors move against each other. With b bins, values are smeared within a bin, an error of about c/b. Every pair of
columns has about b^2 cells, each with noise of std s: an error of about b^2 s sqrt(2/pi) / (2 n) of the pair's total
variation, if nothing is done about it. The sum is least at b = (c n / (s sqrt(2/pi)))^(1/3); s is the std of a count
that gets the whole budget, times the square root of the number of pairs, since they share it. What is done about noise
(shrinking interactions that drown) allows for more: `GAIN` was chosen on Adult (docs/benchmarks.md).
"""

from __future__ import annotations

import math

GAIN = 4.0
LEAST_BINS, MOST_BINS = 6, 64
VALUES_A_BIN = 8
"""How many values a category keeps for each bin a number would have: rare ones cost little beside frequent ones."""


def affordable_bins(units: float, noise: float, columns: int) -> int:
    """Bins of an ordered column. `noise`: std, in units, of a count that gets the measurement's whole budget."""
    pairs = max(columns * (columns - 1) / 2, 1.0)
    room = max(units, 1.0) / (noise * math.sqrt(pairs))
    return int(min(max(round(GAIN * room ** (1 / 3)), LEAST_BINS), MOST_BINS))


def affordable_values(units: float, noise: float, columns: int) -> int:
    return VALUES_A_BIN * affordable_bins(units, noise, columns)

"""Where in its bin a published value lies. Post-processing: it sees codes and the public domain only.

Within a bin the density of values follows the slope of the neighbouring bins, on the column's scale: a straight line
whose mean over the bin is the bin's own share, so that no bin gains or loses a row. The slope is the mean of the slopes
to both sides, at most twice the smaller one, zero at a peak or in a valley and never so steep that the density would be
negative (van Leer's limiter). A bin with one neighbour takes the slope to it; spikes are nobody's neighbours.

Of the m values of a bin one lies in each m-th of it, by share, and chance decides whose: quantiles then lie where the
bin's count and slope put them, without the scatter of m independent draws, which would be that of a sample.

References. van Leer 1977, Towards the ultimate conservative difference scheme IV, for the limited slopes; McKay,
Beckman and Conover 1979 for draws of which each stratum has one.
"""

from __future__ import annotations

import numpy as np

from understudy.pipelines.table.columns import DomainColumn


def tilts(codes: np.ndarray, column: DomainColumn) -> np.ndarray:
    """Of each bin the tilt a in [-1, 1]: at the share u of its width the density is 1 + a (2u - 1) times its mean."""
    counts = np.bincount(codes, minlength=column.value_codes)[: column.value_codes].astype(np.float64)
    lows, highs = column.intervals()
    scale = column.on_scale
    start, end = scale.forward(lows.astype(np.float64)), scale.forward(highs.astype(np.float64))
    found = np.zeros(column.value_codes)
    smooth = np.flatnonzero(~column.is_spike & (end > start))
    if len(smooth) < 2:
        return found
    widths, centres = (end - start)[smooth], ((end + start) / 2)[smooth]
    density = counts[smooth] / widths
    between = np.diff(density) / np.diff(centres)
    left, right = np.r_[between[0], between], np.r_[between, between[-1]]
    steepest = np.minimum(np.abs(left + right) / 2, 2 * np.minimum(np.abs(left), np.abs(right)))
    slope = np.where(left * right > 0, np.sign(left) * steepest, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found[smooth] = np.nan_to_num(np.clip(slope * widths / (2 * density), -1.0, 1.0), nan=0.0)
    return found


def tilted(share: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """Uniform shares in [0, 1) as shares of a bin whose density is 1 + a (2u - 1): the root of (1 - a) u + a u^2."""
    root = np.sqrt(np.maximum((1.0 - tilt) ** 2 + 4.0 * tilt * share, 0.0))
    return np.asarray(np.clip(2.0 * share / np.maximum(1.0 - tilt + root, 1e-300), 0.0, np.nextafter(1.0, 0.0)))


def spread(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Shares in [0, 1), in random order: of the m rows of a code one in each m-th."""
    order = rng.permutation(len(codes))
    shuffled = codes[order]
    if len(codes) and int(codes.max()) < 2**16:
        shuffled = shuffled.astype(np.uint16)  # which are sorted by radix
    sorted_ = np.argsort(shuffled, kind="stable")
    counts = np.bincount(codes)
    first = np.cumsum(counts) - counts
    its = codes[order[sorted_]]
    shares = np.empty(len(codes))
    shares[order[sorted_]] = (np.arange(len(codes)) - first[its] + rng.random(len(codes))) / counts[its]
    return np.minimum(shares, np.nextafter(1.0, 0.0))


def place(codes: np.ndarray, column: DomainColumn, tilt: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A value of each bin: doubles of a number column, else whole numbers, all within their bins' intervals."""
    lows, highs = column.intervals()
    low, high = lows[codes], highs[codes]
    if column.kind in ("integer", "date") and column.step is None and (highs - lows).max(initial=0) <= 1:
        return np.asarray(low)  # every bin has one value
    share = tilted(spread(codes, rng), tilt[codes])
    values = _numbers(low, high, share, column) if column.kind == "number" else _wholes(low, high, share, column)
    if column.step is not None:
        values = _on_steps(values, codes, lows, highs, column)
    exact = column.is_spike[codes]
    return np.where(exact, low, values)


def _numbers(low: np.ndarray, high: np.ndarray, share: np.ndarray, column: DomainColumn) -> np.ndarray:
    """Doubles in [low, high)."""
    if column.scale == "linear":
        values = low * (1.0 - share) + high * share
    else:
        scale = column.on_scale
        values = scale.backward(scale.forward(low) * (1.0 - share) + scale.forward(high) * share)
    return np.asarray(np.clip(values, low, np.maximum(low, np.nextafter(high, -np.inf))))


def _wholes(low: np.ndarray, high: np.ndarray, share: np.ndarray, column: DomainColumn) -> np.ndarray:
    if column.scale == "linear":
        values = low + np.floor(share * (high - low)).astype(np.int64)
    else:
        scale = column.on_scale
        from_, to = scale.forward(low.astype(np.float64)), scale.forward(high.astype(np.float64))
        values = np.floor(scale.backward(from_ * (1.0 - share) + to * share)).astype(np.int64)
    return np.asarray(np.clip(values, low, np.maximum(low, high - 1)))


def _on_steps(
    values: np.ndarray, codes: np.ndarray, lows: np.ndarray, highs: np.ndarray, column: DomainColumn
) -> np.ndarray:
    """The multiple of the step that lies as far in its bin as the value does; failing that, the nearest one within the
    declared range; and if the range has none, the value itself. Moments go back to the start of their bin."""
    step = column.step
    assert step is not None
    up, down = step.numerator, step.denominator
    if column.kind == "number":
        first, last = _multiples(lows, highs, up, down)
        if column.span is None or column.declared_span[1] == column.edges[-1]:  # the last bin is closed
            end = np.floor(highs[-1] * down / up)
            last[-1] = end - (end * up / down > highs[-1])
    else:
        first, last = -((-lows) // up), (highs - 1) // up
    low, high, here_first, here_last = lows[codes], highs[codes], first[codes], last[codes]
    inside = here_first <= here_last
    with np.errstate(divide="ignore", invalid="ignore"):
        deep = np.nan_to_num((values - low) / (high - low))
    steps = here_first + np.floor(np.clip(deep, 0.0, 1.0) * (here_last - here_first + 1))
    steps = np.clip(steps, here_first, here_last)
    if column.kind in ("date", "datetime"):
        return np.asarray(np.where(inside, steps.astype(np.int64) * up, low))
    smooth = ~column.is_spike
    if not smooth.any() or (outer_first := first[smooth][0]) > (outer_last := last[smooth][-1]):
        return values
    nearest = np.clip(np.rint(values * down / up), outer_first, outer_last)
    multiples = np.where(inside, steps, nearest)
    if column.kind == "number":
        return np.asarray(multiples * up / down)
    return np.asarray(multiples.astype(np.int64) * up)


def _multiples(low: np.ndarray, high: np.ndarray, up: int, down: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and last k with low <= k up / down < high, exact in doubles however the products round."""
    first, last = np.ceil(low * down / up), np.ceil(high * down / up) - 1
    first += first * up / down < low
    first -= (first - 1) * up / down >= low
    last -= last * up / down >= high
    last += (last + 1) * up / down < high
    return first, last

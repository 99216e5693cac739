"""Figure 3 of the paper: how the Renyi epsilon of n sampled records grows with the order, for four sizes n."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.papers.gaussian_renyi import FittedSet, order_limit, record_epsilon
from understudy.pipelines.privacy.relation import Relation

SIZES = (10**4, 10**5, 10**6, 10**7)
DIMENSION, LEAST, LARGEST_ORDER = 6, 0.01, 30.0
TITLES = {Relation.ADD_REMOVE: "add or remove one record", Relation.REPLACE_ONE: "replace one record"}


def curve(records: int, relation: Relation, points: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Orders and n times the epsilon of one record, as printed in the paper, up to where the theorem ends."""
    data = FittedSet(records, DIMENSION, LEAST)
    top = min(LARGEST_ORDER, order_limit(data, relation, strict=False))
    orders = np.linspace(1.0, top, points + 2)[1:-1]
    return orders, np.array([records * record_epsilon(order, data, relation, strict=False) for order in orders])


def draw_figure_3(path: Path) -> None:
    """Write the figure as SVG, the same bytes every time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "understudy", "svg.fonttype": "none"}):
        figure, panels = pyplot.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
        for panel, relation in zip(panels, TITLES, strict=True):
            for records in SIZES:
                panel.semilogy(*curve(records, relation), label=f"n = $10^{len(str(records)) - 1}$")
            panel.set(title=TITLES[relation], xlabel="order alpha", xlim=(1, LARGEST_ORDER))
            panel.grid(alpha=0.3)
        panels[0].set_ylabel("Renyi epsilon of n records")
        panels[1].legend(loc="lower right")
        figure.savefig(path, format="svg", metadata={"Date": None})
        pyplot.close(figure)


if __name__ == "__main__":
    draw_figure_3(Path(sys.argv[1]))

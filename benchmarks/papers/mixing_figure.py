"""The paper's Figure 3, epsilon against noise for several orders, with the sound figure beside the paper's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from understudy.pipelines.methods.mixing.mechanism import MixtureDesign
from understudy.pipelines.methods.mixing.paper import theorem_1_epsilon
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.relation import Relation

RECORDS, CLASSES, DELTA = 60_000, 10, 1e-5
ORDERS = (1, 4, 16, 64)


def curves(order: int, stds: np.ndarray) -> tuple[list[float], list[float]]:
    """(sound, paper) epsilons of as many mixtures as records, for noise of these stds on means of unit vectors."""
    size = RECORDS // CLASSES
    sound, paper = [], []
    for std in stds:
        design = MixtureDesign("poisson", order / size, order, size, float(std) * order)
        sound.append(composed_loss([design.event(size)], DELTA, Relation.ADD_REMOVE).epsilon)
        paper.append(theorem_1_epsilon(order, float(std), float(std), RECORDS, RECORDS, DELTA))
    return sound, paper


def plot_epsilon_against_noise(path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    for index, order in enumerate(ORDERS):
        stds = np.geomspace(0.6, 4.0, 7) / order
        sound, paper = curves(order, stds)
        axes.loglog(stds, sound, color=f"C{index}", label=f"l = {order}")
        axes.loglog(stds, paper, color=f"C{index}", linestyle=":")
    axes.set_xlabel("noise on a mean of l unit vectors (std)")
    axes.set_ylabel(f"epsilon at delta {DELTA:g}")
    axes.set_title("60,000 mixtures of 60,000 records in 10 classes", fontsize=10)
    axes.set_ylim(0.01, 1000)
    axes.legend(title="solid: charged\ndotted: paper, corrected", fontsize=8, title_fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)

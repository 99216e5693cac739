"""What a learner makes of both tables: can it tell them apart, and is it as good when it learnt from the synthetic one.

Gradient-boosted trees of scikit-learn, an extra (`pip install 'understudy[compare]'`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from understudy.pipelines.comparing.model import Detection, Downstream
from understudy.pipelines.table.columns import DomainColumn

MOST_ROWS = 50_000
MOST_CLASSES = 50
NOT_LEARNT = "nobody tried to tell rows apart or to learn from them: pip install understudy[compare]"
SEED = 20_261_118


def can_learn() -> bool:
    return find_spec("sklearn") is not None


def detection(columns: Sequence[DomainColumn], real: np.ndarray, synthetic: np.ndarray) -> Detection | None:
    """Half of as many rows of each side are learnt from, the other half is told apart."""
    rows = min(len(real), len(synthetic), MOST_ROWS)
    if rows < 20:
        return None
    order = np.random.default_rng(SEED)
    sides = [side[order.permutation(len(side))[:rows]] for side in (real, synthetic)]
    half = rows // 2
    return Detection(told_apart(columns, [side[:half] for side in sides], [side[half:] for side in sides]), rows)


def told_apart(columns: Sequence[DomainColumn], seen: Sequence[np.ndarray], new: Sequence[np.ndarray]) -> float:
    """The AUC on new rows, real and synthetic ones, of a classifier that saw others of both."""
    from sklearn.metrics import roc_auc_score

    learnt, kept = np.concatenate(seen), np.concatenate(new)
    labels = [np.repeat([0, 1], [len(side) for side in sides]) for sides in (seen, new)]
    used = _telling(learnt, range(len(columns)))
    if not used:
        return 0.5
    model = _trees([columns[i] for i in used]).fit(learnt[:, used], labels[0])
    return float(roc_auc_score(labels[1], model.predict_proba(kept[:, used])[:, 1]))


def downstream(
    label: int, columns: Sequence[DomainColumn], real: np.ndarray, synthetic: np.ndarray
) -> Downstream | None:
    """AUC of two classes, accuracy of more, R2 of numbers; None where there is too little to learn from."""
    order = np.random.default_rng(SEED).permutation(len(real))[: 2 * MOST_ROWS]
    half = len(order) // 2
    learnt, kept = real[order[:half]], real[order[half:]]
    copy = synthetic[np.random.default_rng(SEED).permutation(len(synthetic))[: max(1, half)]]
    return learnt_from(label, columns, learnt, copy, kept)


def learnt_from(
    label: int, columns: Sequence[DomainColumn], learnt: np.ndarray, copy: np.ndarray, kept: np.ndarray
) -> Downstream | None:
    """Models of a column by all others, of real and of synthetic rows, both scored on real rows that were kept."""
    scores = [_score(label, columns, side, kept) for side in (learnt, copy)]
    if scores[0] is None or scores[1] is None:
        return None
    return Downstream(columns[label].name, scores[0][0], scores[0][1], scores[1][1])


def _score(
    label: int, columns: Sequence[DomainColumn], learnt: np.ndarray, kept: np.ndarray
) -> tuple[str, float] | None:
    from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

    learnt, kept = (side[np.isfinite(side[:, label])] for side in (learnt, kept))
    others = _telling(learnt, [i for i in range(len(columns)) if i != label])
    given = [columns[i] for i in others]
    if not others or len(learnt) < 20 or len(kept) < 20 or len(set(kept[:, label])) < 2:
        return None
    if columns[label].kind not in ("category", "boolean"):
        model = _trees(given, classes=False).fit(learnt[:, others], learnt[:, label])
        return "R2", float(r2_score(kept[:, label], model.predict(kept[:, others])))
    classes = np.unique(learnt[:, label])
    if len(classes) < 2 or len(classes) > MOST_CLASSES:
        return None
    model = _trees(given).fit(learnt[:, others], learnt[:, label])
    if len(set(kept[:, label])) == 2 and len(classes) == 2:
        return "AUC", float(roc_auc_score(kept[:, label] == classes[1], model.predict_proba(kept[:, others])[:, 1]))
    return "accuracy", float(accuracy_score(kept[:, label], model.predict(kept[:, others])))


def _telling(rows: np.ndarray, columns: Iterable[int]) -> list[int]:
    """Those that hold more than one value, since nothing can be learnt from the others."""
    return [i for i in columns if len(np.unique(rows[np.isfinite(rows[:, i]), i])) > 1]


def _trees(columns: Sequence[DomainColumn], classes: bool = True) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    named = [column.kind == "category" and not column.ordered and column.size <= 255 for column in columns]
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return kind(max_iter=60, max_leaf_nodes=15, categorical_features=named, random_state=0)

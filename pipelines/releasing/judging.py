"""What a copy is good for, of one table or several: from what was measured and nothing else."""

from __future__ import annotations

from understudy.pipelines.inference.tree_verdict import tree_verdict
from understudy.pipelines.inference.tree_views import told_tree
from understudy.pipelines.inference.verdict import Verdict, measured_verdict
from understudy.pipelines.methods.tree.released import is_tree, released_tree
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.planning import Planned


def verdict_of_measured(measured: Measurement, planned: Planned) -> Verdict | None:
    """None where a method measured no tables of counts."""
    tree = planned.spec.tree
    if tree is None or not is_tree(measured):
        return measured_verdict(measured, planned.domain.names)
    return tree_verdict(told_tree(released_tree(measured), tree, planned.domains, int(measured.facts["ticks"])))

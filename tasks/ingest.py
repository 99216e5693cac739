"""Ingest: open the private table, check that it has what the spec declares, and bound what one unit contributes.

No row is read here: the table is streamed when it is counted, projected to the declared columns, reduced to the rows of
its period where `rolling.column` says which those are, and with at most `max_rows` of them an entity. So no task result
ever holds private rows.
"""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.releasing.measuring import named_source, named_tree
from understudy.pipelines.sources.opening import Source
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.retrying import retried
from understudy.tasks.telling.stages import stage


@retried
@stage("opening the table")
def ingest(spec: ReleaseSpec, base: Path) -> Source | TreeSource:
    source = named_source(spec, base) if spec.tree is None else named_tree(spec, base)
    fault_point("after_ingest")
    return source

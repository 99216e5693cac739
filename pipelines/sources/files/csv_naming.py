"""That the address itself says that lines of CSV files are read, where that matters for the guarantee.

Under `replace_one` of rows the number of rows is public, unless a replaced row may vanish: a line of CSV that is no
record does (`ReleaseSpec.every_row_counts`). That is decided from the spec alone, before anything is opened, so there
`folder/*.csv` has to be written where a folder would do otherwise.
"""

from __future__ import annotations

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec


def require_named_csv(spec: ReleaseSpec) -> None:
    """SpecError if the source turned out to be CSV, the spec does not say so, and the number of rows would be told."""
    if spec.privacy.relation is Relation.REPLACE_ONE and spec.every_row_counts:
        raise SpecError(
            "source.uri names a folder of CSV files; under replace_one the spec itself has to say that they are CSV",
            "write source.uri as folder/*.csv (or *.csv.gz, *.csv.zst); nothing was read or charged",
        )

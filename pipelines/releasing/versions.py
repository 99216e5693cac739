"""`snapshot: table`: the table's own version is the snapshot, so that a changed table cannot hide behind an old name.

It is looked up once a run, before anything is planned or charged, without reading a row, and stands in the spec from
then on (`table@12-447d6ee61509`): in its hash, the charge, the manifest. Every pass reads that very version. So the
same version released again is found and free, and a changed table is another measurement and charged.

A run that goes on for another one, or for itself after a crash, means the version that was charged then, however the
table changed since. If that version is gone, opening the table fails, which is before any charge.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.sources.opening import kind_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import THE_TABLE


def means_the_table(spec: ReleaseSpec) -> bool:
    return spec.source.snapshot == THE_TABLE


def require_versions(spec: ReleaseSpec) -> None:
    """Refuse `snapshot: table` of what has no versions. Asks nobody."""
    if not means_the_table(spec):
        return
    kind = kind_of(spec.source.address)
    if kind is not None and not kind.terms.versions:
        raise no_versions(f"a source of kind {spec.source.address.kind} has none")
    if spec.rolling is not None:
        raise SpecError(
            "a rolling release names its period, so `snapshot: table` cannot",
            f'name it: snapshot: "{{{{ {spec.rolling.period} }}}}"; or remove `rolling`',
        )


def no_versions(why: str) -> SpecError:
    return SpecError(
        f"`snapshot: table` is for tables that have versions (Delta Lake, Apache Iceberg); {why}",
        'name the state of the data yourself: snapshot: "2026-10", or "{{ month }}" on a schedule; change it when the '
        "data changed",
    )


@discreet("ingest")
def at_version(
    spec: ReleaseSpec, base: Path, ledger: Ledger, *, resume: bool = False, runs: Collection[str] = ()
) -> ReleaseSpec:
    """The spec as this run means it. `runs` are the flow runs that it goes on for, itself among them."""
    if not means_the_table(spec) or named_so_before(spec, ledger):
        return spec
    require_versions(spec)
    kind = kind_of(spec.source.address)
    if kind is None:  # told when it is opened
        return spec
    for charge in reversed(ledger.charges(spec.privacy.account)):
        if charge.release == spec.name and (resume or charge.flow_run in runs):
            then = spec.model_copy(update={"source": spec.source.model_copy(update={"snapshot": charge.snapshot})})
            if then.source.version is not None and charge.spec_hash == then.hash:
                return then
    return spec.model_copy(update={"source": spec.source.at_version(kind.version(spec.source, base))})


def named_so_before(spec: ReleaseSpec, ledger: Ledger) -> bool:
    """Whether `table` was charged as a name like any other, before it had a meaning: what was paid for stays free."""
    return any(
        charge.spec_hash == spec.hash for charge in ledger.charges_of(spec.privacy.account, spec.name, THE_TABLE)
    )

"""The release that evidence is about: its manifest, what a check of it found, and the contract of its rows.

Nothing is read beside them: no row, no ledger, no source. So evidence can be made by whoever holds the release.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.contracts.promised import promised
from understudy.pipelines.publishing.findings import Certificate
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import holds_rows
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.contract import TableContract

_NOWHERE = "unknown"
"""In the place of addresses, which a manifest does not tell."""


@dataclass(frozen=True)
class Subject:
    certificate: Certificate
    envelope: str | None = field(default=None, repr=False)
    curator: str = ""
    """Who answers for the release, where they said so."""
    license: str = ""
    """On which terms it may be used, where they said so."""

    @property
    def manifest(self) -> Manifest:
        return self.certificate.manifest

    @property
    def data_files(self) -> tuple[PublishedFile, ...]:
        return tuple(file for file in self.manifest.files if holds_rows(file.path))

    @property
    def is_signed(self) -> bool:
        return any(finding.what == "signature" and finding.holds for finding in self.certificate.findings)

    @property
    def date(self) -> str:
        return self.manifest.created_at[:10]

    @property
    def identifier(self) -> str:
        """One word for this release, for formats that want one."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.manifest.name}-{self.manifest.release_id}".lower()).strip("-")

    @cached_property
    def spec(self) -> ReleaseSpec:
        told = self.manifest.spec
        try:
            source = {**told["source"], "uri": _NOWHERE}
            return ReleaseSpec.model_validate({**told, "source": source, "publish": {"to": _NOWHERE}})
        except (ValueError, KeyError, TypeError):
            pass
        raise PublishError(
            "the spec in the manifest cannot be read by this version of Understudy",
            f"use version {self.manifest.versions.get('understudy', 'of the release')} for it",
        )

    @cached_property
    def contracts(self) -> dict[str, TableContract]:
        return promised(self.spec, self.manifest)

    @property
    def description(self) -> str:
        manifest = self.manifest
        return (
            f"A synthetic copy of snapshot {manifest.snapshot} of {manifest.name}, {manifest.rows:,} rows by "
            f"{len(manifest.columns)} columns. No row is of a real person. {manifest.guarantee.sentence}"
        )

    @property
    def versions(self) -> dict[str, str]:
        return dict(self.manifest.versions)

    def declared(self, *path: str) -> Any:
        """A value of the spec in the manifest, None where an older one does not have it."""
        found: Any = self.manifest.spec
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

"""What a check of a published release found: one line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.pipelines.publishing.manifest import Manifest


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and whether it holds."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(frozen=True)
class Certificate:
    manifest: Manifest
    epsilon: float
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

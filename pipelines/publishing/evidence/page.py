"""One page for a privacy officer: what is promised, what was checked, the NIST table, errors by group, what is beside.

It is made from the manifest and from what a check of it found.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.evidence.errors import GROUPS, GroupError, group_errors
from understudy.pipelines.publishing.evidence.nist import Row, nist_table
from understudy.pipelines.publishing.evidence.subject import Subject
from understudy.pipelines.publishing.pages.page import Html, Section, code, mark, page, paragraph, table

MOST_GROUPS = 30


def evidence_page(subject: Subject, beside: Iterable[tuple[str, str]]) -> str:
    """`beside` are the other documents: file name and what it is."""
    manifest, guarantee, findings = subject.manifest, subject.manifest.guarantee, subject.certificate.findings
    links = "".join(f'<li><a href="{escape(file)}">{escape(file)}</a>: {escape(what)}</li>' for file, what in beside)
    return page(
        f"Evidence for {manifest.name}",
        Html(
            f"release {code(manifest.release_id)}, snapshot {escape(manifest.snapshot)}, "
            f"published {escape(manifest.created_at)}"
        ),
        [
            (at_most(guarantee.epsilon, 3), "epsilon, at most"),
            (at_most(guarantee.delta, 2), "delta"),
            (f"{sum(finding.holds for finding in findings)} of {len(findings)}", "checks hold"),
        ],
        Html(
            paragraph(guarantee.sentence)
            + paragraph(
                f"Protected: {guarantee.unit}. Everything on this page comes from the release's manifest and from "
                "checking it anew; no private row, ledger or network was used."
            )
        ),
        [
            Section("What was checked when this page was written", _findings(subject)),
            Section(
                "The questions of NIST SP 800-226",
                _nist(nist_table(subject)),
                '"Not covered" means that this release cannot answer; somebody else must.',
            ),
            Section("What was charged", _events(subject)),
            Section(
                "How far groups are off, by noise alone",
                _errors(group_errors(manifest), manifest.counted),
                "Standard deviation of one group's count, the worst first, and what part of a group of that size it "
                "is.",
            ),
            Section("Beside this page", Html(f"<ul>{links}</ul>")),
        ],
    )


def _findings(subject: Subject) -> Html:
    rows = (
        (mark("holds", "yes") if each.holds else mark("does not hold", "no"), each.what, each.detail)
        for each in subject.certificate.findings
    )
    return table(("result", "what was checked", "found"), rows, "what was checked")


def _nist(rows: list[Row]) -> Html:
    told = ((row.topic, row.question, row.evidence if row.covered else mark(row.evidence, "open")) for row in rows)
    return table(("topic", "question", "evidence"), told, "questions of NIST SP 800-226")


def _events(subject: Subject) -> Html:
    events = subject.manifest.guarantee.events
    return table(
        ("stage", "event", "charge"),
        ((charged.stage, charged.description, code(charged.mid)) for charged in events),
        "what was charged",
    )


def _errors(errors: list[GroupError], counted: str) -> Html:
    if not errors:
        return paragraph("The method's noise is not of counts by group: not covered.")
    heads = ("counts by", "groups", f"std, in {counted}", *(f"group of {size:,}" for size in GROUPS))
    rows = (
        (error.query, f"{error.groups:,}", f"{error.std:.1f}", *(f"{part:.1%}" for part in error.relative))
        for error in errors[:MOST_GROUPS]
    )
    left = len(errors) - MOST_GROUPS
    more = paragraph(f"{left} more, less noisy ones are in group-errors.csv.") if left > 0 else ""
    return Html(table(heads, rows, "errors of groups") + more)

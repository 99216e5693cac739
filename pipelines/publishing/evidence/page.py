"""One page for a privacy officer: what is promised, what was checked, the NIST table, errors by group, what is beside.

It is made from the manifest and from what a check of it found, loads nothing and runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.evidence.errors import GROUPS, GroupError, group_errors
from understudy.pipelines.publishing.evidence.nist import Row, nist_table
from understudy.pipelines.publishing.evidence.subject import Subject

MOST_GROUPS = 30


def evidence_page(subject: Subject, beside: Iterable[tuple[str, str]]) -> str:
    """`beside` are the other documents: file name and what it is."""
    manifest = subject.manifest
    filling = {
        "name": escape(manifest.name),
        "release_id": escape(manifest.release_id),
        "snapshot": escape(manifest.snapshot),
        "created_at": escape(manifest.created_at),
        "sentence": escape(manifest.guarantee.sentence),
        "epsilon": at_most(manifest.guarantee.epsilon, 3),
        "delta": at_most(manifest.guarantee.delta, 2),
        "unit": escape(manifest.guarantee.unit),
        "held": _held(subject),
        "findings": _findings(subject),
        "nist": _nist(nist_table(subject)),
        "events": _events(subject),
        "errors": _errors(group_errors(manifest), manifest.counted),
        "beside": "".join(
            f'<li><a href="{escape(file)}">{escape(file)}</a>: {escape(what)}</li>' for file, what in beside
        ),
    }
    page = files(__package__).joinpath("evidence_template.html").read_text(encoding="utf-8")
    for key, text in filling.items():
        page = page.replace("{{ " + key + " }}", text)
    return page


def _held(subject: Subject) -> str:
    findings = subject.certificate.findings
    return f"{sum(finding.holds for finding in findings)} of {len(findings)}"


def _findings(subject: Subject) -> str:
    lines = (
        f'<tr><td class="{"yes" if each.holds else "no"}">{"holds" if each.holds else "does not hold"}</td>'
        f"<td>{escape(each.what)}</td><td>{escape(each.detail)}</td></tr>"
        for each in subject.certificate.findings
    )
    return f"<table><tr><th>result</th><th>what was checked</th><th>found</th></tr>{''.join(lines)}</table>"


def _nist(rows: list[Row]) -> str:
    lines = (
        f'<tr><td>{escape(row.topic)}</td><td>{escape(row.question)}</td><td class="{"" if row.covered else "open"}">'
        f"{escape(row.evidence)}</td></tr>"
        for row in rows
    )
    return f"<table><tr><th>topic</th><th>question</th><th>evidence</th></tr>{''.join(lines)}</table>"


def _events(subject: Subject) -> str:
    lines = (
        f"<tr><td>{escape(charged.stage)}</td><td>{escape(charged.description)}</td><td><code>{escape(charged.mid)}"
        "</code></td></tr>"
        for charged in subject.manifest.guarantee.events
    )
    return f"<table><tr><th>stage</th><th>event</th><th>charge</th></tr>{''.join(lines)}</table>"


def _errors(errors: list[GroupError], counted: str) -> str:
    if not errors:
        return "<p>The method's noise is not of counts by group: not covered.</p>"
    heads = "".join(f"<th>group of {size:,}</th>" for size in GROUPS)
    lines = (
        f"<tr><td>{escape(error.query)}</td><td>{error.groups:,}</td><td>{error.std:.1f}</td>"
        + "".join(f"<td>{part:.1%}</td>" for part in error.relative)
        + "</tr>"
        for error in errors[:MOST_GROUPS]
    )
    left = len(errors) - MOST_GROUPS
    more = f"<p class='sub'>{left} more, less noisy ones are in group-errors.csv.</p>" if left > 0 else ""
    return (
        f"<table><tr><th>counts by</th><th>groups</th><th>std, in {counted}</th>{heads}</tr>{''.join(lines)}</table>"
        + more
    )

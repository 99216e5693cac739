"""Evidence as files in a directory: each a format that somebody else reads, and one page for people."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import yaml

from understudy.pipelines.errors import PublishError, ValidationFailed
from understudy.pipelines.publishing.contracts.odcs import odcs_contract
from understudy.pipelines.publishing.evidence.croissant import croissant
from understudy.pipelines.publishing.evidence.errors import GROUPS, group_errors
from understudy.pipelines.publishing.evidence.nist import nist_table
from understudy.pipelines.publishing.evidence.page import evidence_page
from understudy.pipelines.publishing.evidence.registry import registry_entry
from understudy.pipelines.publishing.evidence.subject import Subject

PAGE = "evidence.html"
STATEMENT = "statement.dsse.json"


def write_evidence(subject: Subject, folder: Path, release: Path | None = None) -> list[Path]:
    """The files that were written, the page first. `release` is the release's directory, where it is one here.

    A release that was changed has no evidence: only a missing or unbelieved signature is told on the page.
    """
    broken = [each.what for each in subject.certificate.findings if not each.holds and each.what != "signature"]
    if broken:
        raise ValidationFailed(
            f"no evidence is written for a release that does not hold: {', '.join(broken[:3])}",
            "look at it with `understudy verify`, and ask its publisher for another copy",
        )
    beside = None if release is None else os.path.relpath(release, folder)
    makers: dict[str, tuple[str, Callable[[], str]]] = {
        "nist-sp-800-226.csv": ("the table above, for a spreadsheet", lambda: _nist(subject)),
        "group-errors.csv": ("errors of every measured column and pair, from noise alone", lambda: _errors(subject)),
        "registry.yaml": ("an entry for the deployments registry, TODO where only the publisher knows",
                          lambda: _yaml(registry_entry(subject))),
        "croissant.json": ("Croissant 1.1 with its responsible-AI fields",
                           lambda: _json(croissant(subject, beside or ""))),
        "contract.odcs.yaml": ("Open Data Contract 3.1, for `datacontract test`",
                               lambda: _yaml(_contract(subject, beside))),
    }  # fmt: skip
    if subject.envelope is not None:
        makers[STATEMENT] = ("the signed statement (DSSE, in-toto)", lambda: subject.envelope or "")
    page = evidence_page(subject, [(name, what) for name, (what, _) in makers.items()])
    texts = {PAGE: page, **{name: make() for name, (_, make) in makers.items()}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        return [folder / name for name in texts]
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise PublishError(f"cannot write to {folder}: {problem}", "name another directory")


def _contract(subject: Subject, beside: str | None) -> dict[str, object]:
    of_table = "{model}/" if subject.manifest.tables else ""
    path = None if beside is None else f"{beside}/data/{of_table}*.parquet"
    local = {"server": "release", "type": "local", "path": path, "format": "parquet"}
    return odcs_contract(subject.manifest, subject.contracts, servers=[local] if path else None)


def _nist(subject: Subject) -> str:
    rows = [[row.topic, row.question, row.evidence] for row in nist_table(subject)]
    return _csv(["topic", "question", "evidence"], rows)


def _errors(subject: Subject) -> str:
    heads = ["counts_by", "groups", f"std_{subject.manifest.counted}", *(f"part_of_{size}" for size in GROUPS)]
    rows = [
        [error.query, str(error.groups), f"{error.std:.4g}", *(f"{part:.4g}" for part in error.relative)]
        for error in group_errors(subject.manifest)
    ]
    return _csv(heads, rows)


def _csv(heads: list[str], rows: list[list[str]]) -> str:
    written = StringIO()
    csv.writer(written, lineterminator="\n").writerows([heads, *([_inert(cell) for cell in row] for row in rows)])
    return written.getvalue()


def _inert(cell: str) -> str:
    """A column called =1+1 must not be computed by whoever opens this in a spreadsheet."""
    return f"'{cell}" if cell[:1] in "=+-@\t" and not cell.lstrip("-").replace(".", "", 1).isdigit() else cell


def _json(document: dict[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _yaml(document: dict[str, object]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)

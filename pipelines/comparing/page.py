"""A comparison as a page and as JSON, in a folder that only its owner can open. Both say that they are not private."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from understudy.pipelines.comparing.model import NOT_PRIVATE, Comparison, Numbers, TreeComparison, mean
from understudy.pipelines.comparing.page_tables import distances_table, downstream_table, table_of, told_apart
from understudy.pipelines.comparing.tree_page import tree_facts, tree_sections
from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.pages.page import Html, Section, code, page, paragraph
from understudy.pipelines.table.columns import value_text

PAGE, DOCUMENT = "comparison.html", "comparison.json"
_ALARM = """<style>
.warning { position: sticky; top: 0; margin: 0 0 14px; background: #a61b1b; color: #fff; font-weight: 600;
           padding: 10px 16px; }
@media print { .warning { position: static; background: none; color: #a61b1b; }
section::before { content: "CONFIDENTIAL: computed from private rows without noise"; color: #a61b1b; } }
</style>"""
"""The warning stays in sight, and is on every part that is printed by itself."""


def write_comparison(found: Comparison | TreeComparison, folder: Path) -> Path:
    """The page's path. Both files replace those of an earlier comparison of the same release."""
    document = {"confidential": NOT_PRIVATE, **asdict(found)}
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        _write(folder / DOCUMENT, json.dumps(document, indent=1) + "\n")
        _write(folder / PAGE, page_of(found))
        return folder / PAGE
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise PublishError(f"cannot write to {folder}: {problem}", "name another folder with --to")


def _write(path: Path, text: str) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".draft-")  # which only its owner can read
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(draft, path)


def page_of(found: Comparison | TreeComparison) -> str:
    if isinstance(found, TreeComparison):
        facts, sections = tree_facts(found), tree_sections(found)
    else:
        facts, sections = _facts(found), _sections(found)
    warning = Html(f'{_ALARM}<p class="warning" role="alert">{escape(NOT_PRIVATE)}</p>')
    measure = paragraph(
        "A distance is total variation: the part of the rows that would have to be moved, 0 to 1. Beside each stands "
        "what it would be about for as many real rows drawn anew. Worst first."
    )
    return page(
        f"CONFIDENTIAL: {found.name}",
        Html(f"release {code(found.release_id)} beside the private table, snapshot {escape(found.snapshot)}"),
        facts,
        Html(warning + measure + "".join(paragraph(remark) for remark in found.remarks)),
        sections,
    )


def _sections(found: Comparison) -> list[Section]:
    looked_at = f"{len(found.triples):,} of {found.triples_in_all:,} looked at"
    return [
        Section("Columns", distances_table(found.columns)),
        Section("Numbers and dates: real / synthetic", _numbers(found.numbers)),
        Section("Pairs of columns", distances_table(found.pairs)),
        Section("Triples of columns", distances_table(found.triples), looked_at),
        Section("Learning from it", _learning(found)),
    ]


def _facts(found: Comparison) -> list[tuple[str, str]]:
    told = [
        (f"{found.real_rows:,}", "private rows"),
        (f"{found.synthetic_rows:,}", "synthetic rows"),
        *((f"{average:.4f}", f"mean distance of {what}") for what, average in _means(found)),
    ]
    if found.detection is not None:
        told.append((f"{found.detection.auc:.3f}", "AUC of telling them apart"))
    return told


def _means(found: Comparison) -> Iterable[tuple[str, float]]:
    for what, these in (("columns", found.columns), ("pairs", found.pairs), ("triples", found.triples)):
        if (average := mean(these)) is not None:
            yield what, average


def _numbers(found: Sequence[Numbers]) -> Html:
    if not found:
        return paragraph("none")
    shares = [share for share, _, _ in found[0].quantiles]
    rows = []
    for each in found:
        spikes = "; ".join(f"{spike.value}: {spike.real:.2%} / {spike.synthetic:.2%}" for spike in each.spikes)
        quantiles = (f"{_told(each, real)} / {_told(each, synthetic)}" for _, real, synthetic in each.quantiles)
        rows.append((each.column, f"{each.ks:.4f}", *quantiles, spikes))
    return table_of(("column", "KS", *(f"{share:.0%}" for share in shares), "spikes"), rows)


def _told(column: Numbers, value: float) -> str:
    return value_text(column.kind, value)


def _learning(found: Comparison) -> Html:
    told = told_apart(found.detection) + downstream_table(found.downstream)
    return Html(told) if told else paragraph("not looked at")

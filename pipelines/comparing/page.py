"""A comparison as a page and as JSON, in a folder that only its owner can open. Both say that they are not private."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from pathlib import Path

from understudy.pipelines.comparing.model import NOT_PRIVATE, Comparison, Numbers, TreeComparison, mean
from understudy.pipelines.comparing.page_tables import distances_table, table_of
from understudy.pipelines.comparing.tree_page import tree_facts, tree_sections
from understudy.pipelines.errors import PublishError
from understudy.pipelines.table.columns import value_text

PAGE, DOCUMENT = "comparison.html", "comparison.json"


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
    page = files(__package__).joinpath("comparison_template.html").read_text()
    if isinstance(found, TreeComparison):
        facts, sections = tree_facts(found), tree_sections(found)
    else:
        facts, sections = _facts(found), _sections(found)
    filling = {
        "warning": escape(NOT_PRIVATE),
        "name": escape(found.name),
        "release_id": escape(found.release_id),
        "snapshot": escape(found.snapshot),
        "facts": "".join(f"<div class='fact'><b>{number}</b><span>{what}</span></div>" for number, what in facts),
        "remarks": "".join(f"<p class='sub'>{escape(remark)}</p>" for remark in found.remarks),
        "sections": "".join(f"<section><h2>{escape(title)}</h2>{body}</section>" for title, body in sections),
    }
    for key, text in filling.items():
        page = page.replace("{{ " + key + " }}", text)
    return page


def _sections(found: Comparison) -> list[tuple[str, str]]:
    triples = f"<p class='sub'>{len(found.triples):,} of {found.triples_in_all:,} looked at</p>"
    return [
        ("Columns", distances_table(found.columns)),
        ("Numbers and dates: real / synthetic", _numbers(found.numbers)),
        ("Pairs of columns", distances_table(found.pairs)),
        ("Triples of columns", triples + distances_table(found.triples)),
        ("Learning from it", _learning(found)),
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


def _numbers(found: Sequence[Numbers]) -> str:
    if not found:
        return "<p class='sub'>none</p>"
    shares = [share for share, _, _ in found[0].quantiles]
    rows = []
    for each in found:
        spikes = "; ".join(f"{spike.value}: {spike.real:.2%} / {spike.synthetic:.2%}" for spike in each.spikes)
        quantiles = (f"{_told(each, real)} / {_told(each, synthetic)}" for _, real, synthetic in each.quantiles)
        rows.append((each.column, f"{each.ks:.4f}", *quantiles, spikes))
    return table_of(("column", "KS", *(f"{share:.0%}" for share in shares), "spikes"), rows)


def _told(column: Numbers, value: float) -> str:
    return value_text(column.kind, value)


def _learning(found: Comparison) -> str:
    told = ""
    if found.detection is not None:
        told += (
            f"<p>A classifier that saw {found.detection.rows:,} rows tells real from synthetic with an AUC of "
            f"<b>{found.detection.auc:.3f}</b>; 0.5 is guessing.</p>"
        )
    if found.downstream:
        rows = [
            (each.label, each.score, f"{each.trained_on_real:.4f}", f"{each.trained_on_synthetic:.4f}")
            for each in found.downstream
        ]
        told += table_of(("label", "score on real rows", "trained on real rows", "trained on the copy"), rows)
    return told or "<p class='sub'>not looked at</p>"

"""How a release is loaded, asked, verified and cited: lines to copy, run from the release's directory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from html import escape

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.card.parts import CardParts
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.pages.page import Html, Section, block
from understudy.pipelines.table.columns import DomainColumn

MOST_GROUPS = 20
_BARE = re.compile(r"[^\W\d][\w.\-]*")
_WORDS = {"by", "where", "difference", "ratio", "over", "and", "or", "not", "in", "between", "is", "null"}


def using_section(parts: CardParts) -> Section:
    manifest = parts.manifest
    body = "".join(
        f"<h3>{title}</h3>{block(text, label)}"
        for title, text, label in (
            ("In pandas", _pandas(manifest), "loading in pandas"),
            ("In SQL (DuckDB)", _sql(manifest), "loading in SQL"),
            ("Ask it, with intervals", _ask(parts), "asking the release"),
            ("Verify it", "understudy verify . --key publisher.pem", "verifying the release"),
            ("Cite it", _citation(manifest), "citation"),
            ("BibTeX", _bibtex(manifest), "citation as BibTeX"),
        )
    )
    told = "From the release's directory; where it was published to a database, its tables are there by their names."
    asked = ""
    if manifest.measured is None:
        asked = (
            f"<p>It carries no measurements that questions could be answered from ({escape(manifest.method)}), so "
            "answers come from the rows, without intervals.</p>"
        )
    return Section("Use it", Html(body + asked), told)


def _pandas(manifest: Manifest) -> str:
    lines = [
        f"{_variable(name, place)} = pd.read_parquet({folder!r})"
        for place, (name, folder) in enumerate(_folders(manifest))
    ]
    return "\n".join(["import pandas as pd", *lines])


def _sql(manifest: Manifest) -> str:
    """DuckDB reads a file where a table is expected: `FROM` alone is a query."""
    files = (f"{folder}/*.parquet".replace("'", "''") for _, folder in _folders(manifest))
    return "\n".join(f"FROM '{each}' LIMIT 10;" for each in files)


def _folders(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if not manifest.tables:
        yield "rows", "data"
    for fact in manifest.tables:
        yield fact.name, f"data/{fact.name}"


def _variable(name: str, place: int) -> str:
    return name if name.isidentifier() and name.isascii() else f"table_{place + 1}"


def _ask(parts: CardParts) -> str:
    lines = [f"understudy ask . {shlex.quote(question)}" for question in _questions(parts)]
    return "\n".join(lines) or "understudy ask . count"


def _questions(parts: CardParts) -> Iterator[str]:
    """Of columns that this very release has; none where their names cannot be written in a question."""
    yield "count"
    if parts.manifest.tables:
        return
    columns = parts.tables[0].synthetic.domain.columns
    group = next((_quoted(each.name) for each in columns if _groups(each) and _quoted(each.name)), None)
    number = next(
        (_quoted(each.name) for each in columns if each.kind in ("integer", "number") and _quoted(each.name)), None
    )
    if group is not None:
        yield f"share by {group}"
    if number is not None:
        yield f"mean({number})" + (f" by {group}" if group is not None else "")


def _groups(column: DomainColumn) -> bool:
    return column.kind in ("category", "boolean") and column.size <= MOST_GROUPS


def _quoted(name: str) -> str | None:
    if _BARE.fullmatch(name) and name.lower() not in _WORDS:
        return name
    quote = next((mark for mark in "\"'`" if mark not in name), None)
    return None if quote is None or not name.isprintable() else f"{quote}{name}{quote}"


def _citation(manifest: Manifest) -> str:
    guarantee = manifest.guarantee
    return (
        f"{manifest.name}, synthetic copy of snapshot {manifest.snapshot}. Release {manifest.release_id}, "
        f"{manifest.created_at[:10]}. ({at_most(guarantee.epsilon)}, {at_most(guarantee.delta, 3)})-differentially "
        f"private for {guarantee.unit}. Made with Understudy {manifest.versions.get('understudy', '')}.".replace(
            " .", "."
        )
    )


def _bibtex(manifest: Manifest) -> str:
    key = re.sub(r"[^a-z0-9]+", "-", f"{manifest.name}-{manifest.release_id}".lower()).strip("-")
    epsilon, delta = at_most(manifest.guarantee.epsilon), at_most(manifest.guarantee.delta, 3)
    fields = {
        "title": f"{manifest.name}: synthetic copy of snapshot {manifest.snapshot}",
        "year": manifest.created_at[:4],
        "version": manifest.release_id,
        "note": f"({epsilon}, {delta})-differentially private",
    }
    lines = ",\n".join(f"  {name} = {{{_in_braces(text)}}}" for name, text in fields.items())
    return f"@misc{{{key},\n{lines}\n}}"


def _in_braces(text: str) -> str:
    return re.sub(r"[\\{}]", "", text)

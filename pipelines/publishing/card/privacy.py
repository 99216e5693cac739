"""What a card says of its checks, its budget, its noise and where it comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from html import escape

from understudy.pipelines.counting.released import LEVEL
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.publishing.card.parts import CardParts
from understudy.pipelines.publishing.manifest import Manifest, NoiseFact
from understudy.pipelines.publishing.pages.charts import budget_gauge
from understudy.pipelines.publishing.pages.page import Html, Section, code, listed, mark, named, paragraph, table

MOST_AGREEMENTS = 12
RULE = "rule: "


def checks_section(manifest: Manifest, agreements: Sequence[Agreement]) -> Section:
    """What was checked before publication: contract, rules, and the distance to every noisy measurement."""
    rules = [line for line in agreements if line.query.startswith(RULE)]
    others = [line for line in agreements if not line.query.startswith(RULE)]
    checked = [
        "Every column is there, of its declared type; every value lies in its declared domain; fresh ids are unique.",
        *(
            ["Every row leads to a row of the table above it, and no more of them than declared."]
            * bool(manifest.tables)
        ),
        *(named(f"Rule, kept by every row: {line.query.removeprefix(RULE)}") for line in rules if not line.distance),
    ]
    body = listed(checked)
    if others:
        body = Html(body + "<h3>Distance to what was measured</h3>" + _agreements(others))
    return Section(
        "Checks and rules",
        body,
        "All of it held, or nothing would have been published. No private row was looked at for this.",
    )


def _agreements(agreements: Sequence[Agreement]) -> str:
    worst = sorted(agreements, key=lambda line: line.distance / max(line.allowed, 1e-12), reverse=True)
    rows = [(named(line.query), f"{line.distance:.4f}", f"{line.allowed:.4f}") for line in worst[:MOST_AGREEMENTS]]
    more = len(worst) - MOST_AGREEMENTS
    note = paragraph(f"The {MOST_AGREEMENTS} closest to their limit; {more} more are farther from it.") * (more > 0)
    heads = ("released query", "distance of the synthetic table", "allowed by the noise")
    return table(heads, rows, "distance to what was measured", sortable=True) + note


def privacy_sections(parts: CardParts, spent_before: float) -> Iterator[Section]:
    manifest = parts.manifest
    account, guarantee = manifest.account, manifest.guarantee
    yield Section(
        "What is promised, and what is not",
        Html(
            paragraph(guarantee.sentence)
            + f"<p><b>Promised.</b> Whoever holds this release, with any other knowledge and any amount of computing, "
            f"learns almost nothing about {named(guarantee.unit)} that they would not have learnt from a release "
            "without it.</p><p><b>Not promised.</b> Facts about the whole population do show: that is what the table "
            "is for. Numbers carry noise, rare combinations are blurred, and no single synthetic row describes a real "
            "person or should be used to decide about one.</p>"
        ),
    )
    held = f": {account.theorem}" if account.theorem else ""
    yield Section(
        "Budget",
        budget_gauge(spent_before, account.spent_epsilon, account.cap_epsilon),
        Html(
            f"Account {named(account.name)}: its loss at delta {escape(account.cap_delta)}, as its filter "
            f"{escape(account.filter)} counts all its releases. The cap holds however later releases are chosen"
            f"{escape(held)}. The loss of this release alone, above, was found by the {escape(guarantee.accountant)} "
            "accountant."
        ),
    )
    steps = "".join(f"<li>{escape(step)}</li>" for step in manifest.steps)
    yield Section("What was done", Html(f"<ol>{steps}</ol>{_noise(manifest, _counted_names(parts))}"))


def provenance_section(manifest: Manifest) -> Section:
    rows = (
        (event.stage, event.description, code(event.mid[:16]), code(event.measurement_sha256[:16]))
        for event in manifest.guarantee.events
    )
    versions = ", ".join(f"{name} {number}" for name, number in manifest.versions.items())
    body = table(("stage", "event", "charge", "measurement"), rows, "what was charged")
    signed = mark("manifest.dsse.json", "yes")
    told = (
        f'<p class="sub">spec {code(manifest.spec_hash)}<br>{escape(versions)}<br>The manifest has a hash of every '
        f"file of the release; {signed}, where it is, signs the manifest.</p>"
    )
    return Section("Provenance", Html(body + told))


def _counted_names(parts: CardParts) -> frozenset[str]:
    """What columns are called where noise is told: those of several tables by their table."""
    return frozenset(one.called(name) for one in parts.tables for name in one.synthetic.domain.names)


def _noise(manifest: Manifest, names: Collection[str]) -> str:
    """A row for all tables of as many columns, and one for whatever else was measured."""
    groups: dict[str, list[NoiseFact]] = {}
    for fact in manifest.noise:
        columns = fact.query.split(" x ")
        counted = all(name in names or name == LEVEL for name in columns)
        width = "one column" if len(columns) == 1 else f"{len(columns)} columns"
        groups.setdefault(f"tables of {width}" if counted else fact.query, []).append(fact)
    rows = []
    for what, facts in groups.items():
        low, high = min(fact.std for fact in facts), max(fact.std for fact in facts)
        noise = f"{low:,.3f}" if f"{low:,.3f}" == f"{high:,.3f}" else f"{low:,.3f} to {high:,.3f}"
        count = f"{len(facts):,} " if what.startswith("tables of ") else ""
        rows.append((named(count + what), f"{sum(fact.numbers for fact in facts):,}", noise))
    if not rows:
        return ""
    std = "standard deviation of the noise" + (", in entities" if manifest.counted == "entities" else "")
    return table(("what was measured", "numbers released", std), rows, "noise of what was measured")

"""What an evaluator asks by NIST SP 800-226, row by row, with the evidence of this release or "not covered".

Reference. NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (2025): its pyramid from the
guarantee (epsilon, unit) over algorithms and their utility to implementation, security and collection. The questions
here are in our words.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.evidence.subject import Subject

NOT_COVERED = "not covered"


@dataclass(frozen=True)
class Row:
    topic: str
    question: str
    evidence: str

    @property
    def covered(self) -> bool:
        return not self.evidence.startswith(NOT_COVERED)


def nist_table(subject: Subject) -> list[Row]:
    return [*_guarantee(subject), *_algorithms(subject), *_utility(subject), *_below(subject)]


def _guarantee(subject: Subject) -> list[Row]:
    guarantee, account = subject.manifest.guarantee, subject.manifest.account
    cap = f"account {account.name}: cap epsilon {account.cap_epsilon} at delta {account.cap_delta}"
    return [
        Row("Guarantee", "What is the strength of the guarantee?",
            f"epsilon {at_most(guarantee.epsilon, 6)} at delta {at_most(guarantee.delta, 3)}, composed by the "
            f"{guarantee.accountant} accountant from the events below and recomposed when this was written"),
        Row("Guarantee", "Which variant of differential privacy, and which tables are neighbours?",
            f"(epsilon, delta)-differential privacy; neighbours differ by "
            f"{'one unit more or less' if guarantee.relation.value == 'add_remove' else 'one unit changed'} "
            f"(relation {guarantee.relation.value})"),
        Row("Guarantee", "What is the unit of privacy?", _unit(subject)),
        Row("Guarantee", "How do several releases of the same data compose?",
            f"{cap}, of which {at_most(account.spent_epsilon, 6)} was spent when this was published, by "
            f"{account.releases_charged} charges" + (
                f"; the cap holds for adaptively chosen releases by {account.theorem}" if account.theorem
                else f"; {NOT_COVERED} for releases chosen adaptively: this one is older than filters")),
        Row("Guarantee", "Does anything leave the guarantee out?", _unprotected(subject)),
        Row("Guarantee", "Were parameters tuned on the private table?",
            "declared domains and options are public by the publisher's word; what was bought from the table is among "
            "the events" + (" (discovered: " + ", ".join(_discovered(subject)) + ")" if _discovered(subject) else "")),
        Row("Guarantee", "Can a repeated or failed run spend more than was told?",
            "no: one committed charge a draw, kept by the ledger whose newest entry has the hash "
            f"{account.history_head[:16] or 'unknown'}; a retry reuses the stored measurement"),
    ]  # fmt: skip


def _algorithms(subject: Subject) -> list[Row]:
    manifest = subject.manifest
    events = "; ".join(f"{charged.stage}: {charged.description}" for charged in manifest.guarantee.events)
    sampler = subject.declared("privacy", "noise") or "rounded"
    return [
        Row("Algorithms", "Which mechanisms were run, with what noise?", f"method {manifest.method}; {events}"),
        Row("Algorithms", "Are they proven?",
            "a proof page a mechanism in the documentation (docs/proofs), tied by hash to the functions it is about"),
        Row("Algorithms", "How are contributions bounded?",
            f"{manifest.guarantee.unit}; rows beyond are dropped by a keyed hash that no other unit's rows can move"),
        Row("Algorithms", "Is noise drawn so that finite precision cannot break it?",
            f"whole numbers throughout, sampler {sampler}; randomness of the operating system, no seed"),
        Row("Algorithms", "Is what follows the noise post-processing?",
            "rows, card and measured/ are made from the stored measurement alone: " + "; ".join(manifest.steps[-2:])),
    ]  # fmt: skip


def _utility(subject: Subject) -> list[Row]:
    manifest, verdict = subject.manifest, subject.manifest.verdict
    fit = (
        f"{verdict.sentence} Errors by group in group-errors.csv"
        if verdict is not None
        else f"{NOT_COVERED}: the method {manifest.method} gives no verdict; compare with the owner's own table"
    )
    understood = (
        f"noisy shares of {len(manifest.quality)} columns that were read, missing, unreadable or out of range are on "
        "the card and in the manifest"
        if manifest.quality
        else f"{NOT_COVERED}: privacy.quality was not bought"
    )
    return [
        Row("Utility and bias", "How accurate is the release?", fit),
        Row("Utility and bias", "Do errors fall harder on small groups?",
            "yes, as for all noise of one size: " + (
                f"the smallest group to quote at 10% error has {verdict.smallest_group:,} {manifest.counted}; "
                "group-errors.csv has every column and pair" if verdict is not None else "see group-errors.csv")),
        Row("Utility and bias", "Is there bias beside noise (clipping, binning, dropped rows)?", understood),
        Row("Utility and bias", "Were groups without weight in the data considered by their representatives?",
            f"{NOT_COVERED}: a question for the publisher"),
    ]  # fmt: skip


def _below(subject: Subject) -> list[Row]:
    findings = subject.certificate.findings
    held = sum(finding.holds for finding in findings)
    versions = ", ".join(f"{name} {number}" for name, number in subject.versions.items())
    return [
        Row("Trust model", "Who sees the private rows?",
            "central model: the process that counts, and the engines that count for it; exact counts never leave it"),
        Row("Implementation", "Is the software known, tested and reproducible?",
            f"{versions}; spec {subject.manifest.spec_hash[:16]}; the project's audit is docs/audit.md"),
        Row("Implementation", "Side channels: time, memory, sizes, errors?",
            "errors, logs, file names and sizes of the published side are part of what is private; "
            f"{NOT_COVERED}: time and resources of the private side"),
        Row("Implementation", "Is this the release that was made?",
            f"{held} of {len(findings)} checks hold; " + (
                "signed, statement in statement.dsse.json" if subject.is_signed
                else f"{NOT_COVERED}: no signature by a key that is believed here")),
        Row("Security", "Access control, encryption and retention of the private table",
            f"{NOT_COVERED}: the publisher's systems"),
        Row("Collection", "Consent, minimisation and exposure when the data was collected",
            f"{NOT_COVERED}: before this pipeline"),
    ]  # fmt: skip


def _unit(subject: Subject) -> str:
    entity = subject.declared("privacy", "unit", "entity")
    if entity is None:
        return f"{subject.manifest.guarantee.unit}; nothing more is promised to a person with several rows"
    return f"{subject.manifest.guarantee.unit}; a person with two ids is protected as two people"


def _discovered(subject: Subject) -> list[str]:
    return [fact.stage for fact in subject.manifest.guarantee.events if "discover" in fact.stage]


def _unprotected(subject: Subject) -> str:
    told = ["what the spec declares (names, types, ranges, categories)", "when the release appeared"]
    if subject.declared("source", "rows_are_public"):
        told.append("the number of rows, declared public")
    return "public, hence not protected: " + "; ".join(told)

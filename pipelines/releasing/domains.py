"""Domains that the ledger remembers: which purchases answer a spec's open columns, and the spec they make of it.

A purchase belongs to the account and the table, not to the snapshot: a later snapshot finds it and pays nothing, and
since what takes the place of an open column is a function of what was stored, its codes are the same
(`pipelines.discovery.record`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from pydantic import ValidationError

from understudy.pipelines.discovery.asking import STAGES, further_questions, open_columns, subject_of, terms_of
from understudy.pipelines.discovery.closing import LEFT_OUT
from understudy.pipelines.discovery.record import Record
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Charge, State
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn


@dataclass(frozen=True)
class Bought:
    """What was bought, and the charges that paid for it: of a first round and, once it was bought, its second one."""

    record: Record
    charges: tuple[Charge, ...]

    def answers(self, name: str, column: OpenColumn) -> bool:
        """Whether this very column, declared the same, was asked about."""
        return self.record.columns.get(name) == column

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left to be asked in a second round, or that was bought too."""
        record = self.record
        return record.second is not None or not further_questions(record.columns, record.first_found)


@dataclass(frozen=True)
class Known:
    """A spec without open columns. `bought`: the charges by which this very release bought its domain, if it did;
    `found`: the columns that were open; `reused`: who bought what this release did not."""

    spec: ReleaseSpec
    bought: tuple[Charge, ...] = ()
    found: tuple[str, ...] = ()
    reused: str = ""

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of which nothing stood above the noise."""
        closed = dict(self.spec.columns)
        for table, declared in (self.spec.tables or {}).items():
            closed |= {f"{table}.{name}": column for name, column in declared.columns.items()}
        return tuple(name for name in self.found if closed[name].type == LEFT_OUT["type"])

    def planned(self) -> Planned:
        planned = plan_release(self.spec)
        if not self.found:
            return planned
        plan = replace(planned.plan, steps=(*self._steps(), *planned.plan.steps))
        mids = tuple(charge.mid for charge in self.bought)
        return Planned(planned.spec, planned.domain, planned.method, plan, mids, self.found, planned.domains)

    def _steps(self) -> list[str]:
        columns = f"{len(self.found)} column{'s' * (len(self.found) != 1)}"
        how = f"bought by {self.reused}, reused for nothing" if self.reused else "bought by this release, in its budget"
        left = f"; nothing of {', '.join(self.left_out)} stands above the noise: left out" if self.left_out else ""
        return [f"what {columns} can hold was discovered: {how}{left}"]


class Unusable(SpecError):
    """What was found does not make a release. It is said of what was released, and of nothing else."""


def known_domain(spec: ReleaseSpec, books: Books, rediscover: bool = False) -> Known | None:
    """The spec with what is remembered of its open columns; None if something has to be bought first."""
    wanted = open_columns(spec)
    if not wanted:
        return Known(without_discovery(spec))
    purchases = [each for each in purchases_of(spec, books) if each.is_whole]
    known = _as_it_was_charged(spec, books, wanted, purchases)
    if known is not None and not rediscover:
        return known
    if unknown_columns(spec, books, rediscover):
        return None
    return _closed(spec, wanted, _answers(wanted, purchases))


def unknown_columns(spec: ReleaseSpec, books: Books, rediscover: bool = False) -> dict[str, OpenColumn]:
    """The open columns that nothing is remembered of, or that are to be bought anew."""
    wanted = open_columns(spec)
    purchases = [each for each in purchases_of(spec, books) if each.is_whole]
    if (rediscover or _is_due(spec, purchases)) and not any(is_own(each.charges[0], spec) for each in purchases):
        return wanted
    answers = _answers(wanted, purchases)
    return {name: column for name, column in wanted.items() if name not in answers}


def purchases_of(spec: ReleaseSpec, books: Books) -> list[Bought]:
    """Domains of this table that the account has bought, oldest first."""
    account = parent_of(spec.privacy.account)
    if all(known.name != account for known in books.ledger.accounts()):
        return []
    rounds = [
        (charge, books.store.load(charge.mid, charge.measurement_sha256 or ""))
        for charge in books.ledger.charges(account)
        if charge.stage in STAGES and charge.state is State.MEASURED
    ]
    ours = [(charge, measured) for charge, measured in rounds if measured.facts.get("subject") == subject_of(spec)]
    later = {measured.facts["after"]: (charge, measured) for charge, measured in ours if charge.stage == STAGES[1]}
    found = []
    for charge, first in ours:
        if charge.stage == STAGES[0]:
            second = later.get(charge.mid)
            charges = (charge,) if second is None else (charge, second[0])
            found.append(Bought(Record(first, None if second is None else second[1]), charges))
    return found


def without_discovery(spec: ReleaseSpec) -> ReleaseSpec:
    """Nothing is set aside where nothing is left open."""
    return spec if spec.privacy.discovery is None else _with_columns(spec, {}, None)


def assumed_spec(spec: ReleaseSpec) -> ReleaseSpec:
    """The spec as it might turn out, with its discovery still to be paid, for checks and estimates."""
    columns = {name: column.assumed() for name, column in open_columns(spec).items()}
    return _with_columns(spec, columns, terms_of(spec).model_dump() if columns else None)


def is_own(charge: Charge, spec: ReleaseSpec) -> bool:
    """Whether this very release was charged."""
    return (charge.release, charge.snapshot) == (spec.name, spec.source.snapshot)


@dataclass(frozen=True)
class _Answer:
    bought: Bought
    body: dict[str, Any]


def _answers(wanted: Mapping[str, OpenColumn], purchases: Sequence[Bought]) -> dict[str, _Answer]:
    """The newest answer to each column that is declared as it was asked about."""
    found: dict[str, _Answer] = {}
    for bought in purchases:
        ours = [name for name, column in wanted.items() if bought.answers(name, column)]
        found |= {name: _Answer(bought, bought.record.closed(name)) for name in ours}
    return found


def _as_it_was_charged(
    spec: ReleaseSpec, books: Books, wanted: Mapping[str, OpenColumn], purchases: Sequence[Bought]
) -> Known | None:
    """The domain under which this snapshot was measured before, whatever was bought since."""
    charged = books.ledger.charges_of(spec.privacy.account, spec.name, spec.source.snapshot) if purchases else []
    hashes = {charge.spec_hash for charge in charged if charge.stage not in STAGES}
    for count in range(len(purchases), 0, -1) if hashes else ():
        answers = _answers(wanted, purchases[:count])
        with suppress(Unusable):  # by which nothing was measured
            if len(answers) == len(wanted) and (known := _closed(spec, wanted, answers)).spec.hash in hashes:
                return known
    return None


def _closed(spec: ReleaseSpec, wanted: Mapping[str, OpenColumn], answers: Mapping[str, _Answer]) -> Known:
    used = {charge.mid: charge for answer in answers.values() for charge in answer.bought.charges}
    own = tuple(charge for charge in used.values() if is_own(charge, spec))
    columns = {name: answers[name].body for name in wanted}
    closed = closed_spec(spec, columns, bought=bool(own))
    others = sorted({f"{charge.release} {charge.snapshot}" for charge in used.values() if not is_own(charge, spec)})
    return Known(closed, own, tuple(wanted), ", ".join(others))


def closed_spec(spec: ReleaseSpec, columns: Mapping[str, dict[str, Any]], bought: bool) -> ReleaseSpec:
    """The spec with what was found in the place of its open columns; `bought` by this very release."""
    try:
        return _with_columns(spec, columns, terms_of(spec).model_dump() if bought else None)
    except ValidationError as error:
        problem = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors(include_url=False))
    nothing = ", ".join(name for name, body in columns.items() if body["type"] == LEFT_OUT["type"])
    told = f"nothing of {nothing} stands above the noise" if nothing else "what was found cannot be used"
    raise Unusable(
        f"{told}, and without it there is no release: {problem}",
        "declare what these columns can hold; what was bought stays charged, and is not bought again",
    )


def _with_columns(
    spec: ReleaseSpec, columns: Mapping[str, dict[str, Any]], discovery: dict[str, Any] | None
) -> ReleaseSpec:
    tree = spec.model_dump()
    tree["columns"] = {name: columns.get(name, declared) for name, declared in tree["columns"].items()}
    for table, declared in (tree.get("tables") or {}).items():
        own = declared["columns"]
        declared["columns"] = {name: columns.get(f"{table}.{name}", said) for name, said in own.items()}
    tree["privacy"]["discovery"] = discovery
    return ReleaseSpec.model_validate(tree)


def _is_due(spec: ReleaseSpec, purchases: Sequence[Bought]) -> bool:
    """Whether the spec asks for a purchase in each period, and none was made in the one that it is now."""
    every = terms_of(spec).every
    if every is None or not purchases:
        return False
    bought = datetime.fromisoformat(purchases[-1].charges[0].created_at).date()
    return _period(bought, every) != _period(datetime.now(UTC).date(), every)


def _period(day: date, every: str) -> tuple[int, int]:
    length = {"month": 1, "quarter": 3, "year": 12}[every]
    return day.year, (day.month - 1) // length

"""Eight protocol bugs, planted one at a time into a child process.

The harness must catch every one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError

from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger import rows
from understudy.pipelines.privacy.ledger import schema as ledger_schema
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.ledger import Charge, Holder, Ledger, State
from understudy.pipelines.privacy.ledger.schema import charges
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.publishing.targets import directory as directory_target
from understudy.pipelines.publishing.targets.directory import DirectoryTarget


def meet() -> None:
    """Where a bug needs company, the worker puts a meeting point here: all processes pass it together."""


def plant(name: str) -> None:
    for part in name.split("+"):
        BUGS[part]()


def no_row_count_fence() -> None:
    """T2 updates whatever state the charge is in, and does not look at the row count."""

    def settle(self: Ledger, mid: str, holder: Holder, state: State, action: str, body: dict, **columns: Any) -> Charge:
        def work(connection: Any) -> Charge:
            account = connection.execute(select(charges.c.account).where(charges.c.mid == mid)).scalar_one()
            rows.get_account(connection, account, lock=True)
            connection.execute(update(charges).where(charges.c.mid == mid).values(state=state.value, **columns))
            ledger_history.append(connection, account, action, mid, body)
            return rows.get_charge(connection, mid)

        return self._database.write(work)

    Ledger._settle = settle  # type: ignore[method-assign,assignment]


def refund_on_failure() -> None:
    """A failed draw gives its budget back: "nothing was released", says its author."""

    def burn(self: Purchases, charge: Charge, reason: str) -> Charge:
        delete = charges.delete().where(charges.c.mid == charge.mid)
        self._ledger._database.write(lambda connection: connection.execute(delete))
        return charge

    Purchases._burn = burn  # type: ignore[method-assign]


def redraw_on_retry() -> None:
    """A retry that finds its charge without a measurement draws again."""

    def call(self: Purchases, planned: Any, mechanism: Any) -> Any:
        request = self._make_request(planned)
        charge = self._ledger.charge(request, Holder.here())
        self._on_event("charged", charge)
        return self._draw_and_keep(charge, mechanism) if charge.state is State.CHARGED else self._reuse(charge)

    Purchases.__call__ = call  # type: ignore[method-assign]


def charge_after_draw() -> None:
    """Draws first, pays afterwards."""

    def call(self: Purchases, planned: Any, mechanism: Any) -> Any:
        measurement = mechanism.draw(self._randomness)
        fault_point("after_draw")
        charge = self._ledger.charge(self._make_request(planned), Holder.here())
        self._on_event("charged", charge)
        sha256 = self._store.save(charge.mid, measurement, self._facts(charge))
        self._ledger.record_measurement(charge.mid, sha256, charge.holder)
        return self._store.load(charge.mid, sha256)

    Purchases.__call__ = call  # type: ignore[method-assign]


def cap_outside_transaction() -> None:
    """Reads the balance in one transaction, inserts the charge in another."""

    def charge(self: Ledger, request: Any, holder: Holder, lease_seconds: float = 60.0) -> Charge:
        self.check([request])
        meet()

        def work(connection: Any) -> Charge:
            rows.get_account(connection, request.account, lock=True)
            self._insert_charge(connection, request, holder, lease_seconds)
            return rows.get_charge(connection, request.mid)

        return self._database.write(work)

    Ledger.charge = charge  # type: ignore[method-assign]


def insert_decides() -> None:
    """Not a bug by itself: T1 relies on the unique key alone instead of looking first."""

    def charge(self: Ledger, request: Any, holder: Holder, lease_seconds: float = 60.0) -> Charge:
        mine = select(charges).where(charges.c.mid == request.mid, charges.c.holder_token == holder.token)

        def work(connection: Any) -> Charge:
            rows.get_account(connection, request.account, lock=True)
            self._insert_charge(connection, request, holder, lease_seconds)
            return rows.to_charge(connection.execute(mine).one())

        try:
            return self._database.write(work)
        except Exception as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
        found = self.find(request.mid)
        assert found is not None
        return found

    def find_together(self: Ledger, mid: str) -> Charge | None:
        found = original(self, mid)
        meet()  # both duplicates look before either inserts
        return found

    original = Ledger.find
    Ledger.find, Ledger.charge = find_together, charge  # type: ignore[method-assign]


def missing_unique_key() -> None:
    """A schema without unique keys on the charges. Planted when the ledger is made."""
    first, *others = ledger_schema.MIGRATIONS
    without = tuple(
        statement.replace("mid TEXT PRIMARY KEY,", "mid TEXT NOT NULL,").replace(
            "CHECK ((state = 'MEASURED') = (measurement_sha256 IS NOT NULL)),\n"
            "            UNIQUE (account, spec_hash, snapshot, stage, attempt)",
            "CHECK ((state = 'MEASURED') = (measurement_sha256 IS NOT NULL))",
        )
        for statement in first
    )
    ledger_schema.MIGRATIONS = (without, *others)


def trust_in_a_torn_file() -> None:
    """Reads the stored measurement without comparing hashes."""

    def load(self: MeasurementStore, mid: str, sha256: str) -> Any:
        from understudy.pipelines.privacy.ledger.store import _from_parquet
        from understudy.pipelines.privacy.measurement import Measurement

        return Measurement("counts", {}, _from_parquet((self.path(mid) / "arrays.parquet").read_bytes()))

    MeasurementStore.load = load  # type: ignore[method-assign]


def torn_publication() -> None:
    """Not a bug but a bad disk: one published file loses its tail after its hash was taken."""
    original = directory_target._write

    def write(release: Any, staging: Path) -> Any:
        manifest = original(release, staging)
        card = staging / "card.html"
        card.write_bytes(card.read_bytes()[:-3])
        return manifest

    directory_target._write = write


def pointer_before_hash_check() -> None:
    """Swaps `latest` to the new release, then checks its hashes."""

    def publish(self: DirectoryTarget, release: Any) -> Any:
        place = self._contained(release.manifest.name, release.manifest.release_id)
        place.mkdir(parents=True, exist_ok=True)
        directory_target._write(release, place)
        self._point_latest_at(place)
        return directory_target.read_release(place)

    DirectoryTarget.publish = publish  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    function.__name__: function
    for function in (
        no_row_count_fence,
        refund_on_failure,
        redraw_on_retry,
        charge_after_draw,
        cap_outside_transaction,
        insert_decides,
        missing_unique_key,
        trust_in_a_torn_file,
        torn_publication,
        pointer_before_hash_check,
    )
}

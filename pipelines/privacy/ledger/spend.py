"""Spending exactly once: the one way to draw noise. Every method buys through `Purchases`; a test proves no
other path.

    compare the event of what will be drawn with what is charged, to the last bit  (else stop; nothing charged)
    ready   the store takes durable writes and has room                            (else stop; nothing charged)
    T1      charge, in one transaction, within the cap                            `Ledger.charge`
    draw    once, in this process, from the operating system's randomness
    keep    stage, fsync, rename                                                  `MeasurementStore.save`
    T2      CHARGED -> MEASURED with the SHA-256, behind the row-count fence      `Ledger.record_measurement`
    return  what was stored, read back with every hash checked

A run that finds the charge already there never draws:
- MEASURED: load the stored measurement; spend nothing.
- CHARGED by a live holder: wait a bounded time for it to finish, then ChargeHeld.
- CHARGED by a dead holder: if it got as far as a complete stored measurement, finish its T2 (the same single
  draw); otherwise BURNT, and ChargeBurnt. Budget is lost, never refunded, and never redrawn.
- BURNT: ChargeBurnt. The mid is closed for ever; `pay_again` buys the next attempt under a mid of its own.

A holder is dead if its process is gone (same machine), or if its lease expired by the database's clock and
was not renewed while this run watched for two heartbeats by its own monotonic clock, so a clock that jumps
burns nobody.

Theorem. At most one draw for each committed charge: docs/proofs/spend-once.md. Relation, sensitivity and noise unit are
those of the mechanism that is bought. Reference. Gray & Cheriton 1989 for leases.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import ChargeBurnt, ChargeHeld, LedgerError, NoiseMismatch
from understudy.pipelines.privacy.events import to_json
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.holder import Holder, Presence, in_progress
from understudy.pipelines.privacy.ledger.ledger import Charge, ChargeRequest, Ledger, State
from understudy.pipelines.privacy.ledger.memory import require_remembered
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.rows import burnt_error
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise.rounded import RandomSource, operating_system_randomness

EventCallback = Callable[[str, Charge], None]
"""Called with ("charged" | "reused" | "measured" | "burnt", the charge)."""


@dataclass(frozen=True)
class Patience:
    """Seconds. `lease` outlives several heartbeats; `wait` is how long to wait for another run of the same
    release."""

    lease: float = 60.0
    heartbeat: float = 10.0
    wait: float = 120.0
    poll: float = 0.1


class Purchases:
    """Satisfies `mechanism.Purchase` for the charges of one release. `make_request` puts a planned charge into
    its terms."""

    def __init__(
        self,
        ledger: Ledger,
        store: MeasurementStore,
        make_request: Callable[[PlannedCharge], ChargeRequest],
        randomness: RandomSource | None = None,
        on_event: EventCallback | None = None,
        pay_again: bool = False,
        patience: Patience | None = None,
    ) -> None:
        self._ledger = ledger
        self._store = store
        self._make_request = make_request
        self._randomness = randomness or operating_system_randomness()
        self._on_event = on_event or (lambda kind, charge: None)
        self._pay_again = pay_again
        self._patience = patience or Patience()

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        request = self._make_request(charge)
        _require_charged_event(mechanism, charge, request)
        # A request may already carry the attempt that was approved; it is never taken back to an earlier one.
        attempt = max(request.attempt, self._ledger.attempt_for(request, self._pay_again))
        request = replace(request, attempt=attempt)
        holder = Holder.here()
        with in_progress(holder):
            found = self._ledger.find(request.mid)
            if found is None:
                canonical_json(dict(mechanism.facts))  # what cannot be stored fails here, where it costs nothing
                require_remembered(self._ledger, self._store, parent_of(request.account), request.mid)
                self._store.ready()
                fault_point("before_t1")
                found = self._ledger.charge(request, holder, self._patience.lease)
            if found.state is State.CHARGED and found.holder == holder:
                self._on_event("charged", found)
                return self._draw_and_keep(found, mechanism)
            self._ledger.require_same_source(request)
            return self._reuse(self._settled(found))

    def _draw_and_keep(self, charge: Charge, mechanism: Mechanism[Any]) -> Measurement:
        with self._heartbeat(charge):
            sha256 = self._draw_and_save(charge, mechanism)
            try:
                measured = self._ledger.record_measurement(charge.mid, sha256, charge.holder)
            except ChargeBurnt:
                self._store.discard(charge.mid)
                raise
        fault_point("after_t2")
        self._on_event("measured", measured)
        return self._store.load(charge.mid, sha256)

    def _draw_and_save(self, charge: Charge, mechanism: Mechanism[Any]) -> str:
        try:
            fault_point("after_t1")
            measurement = mechanism.draw(self._randomness)
            fault_point("after_draw")
            return self._store.save(charge.mid, measurement, self._facts(charge))
        except Exception as error:
            reason = f"{_where(error)} between the charge and the stored measurement"
        except BaseException as error:
            self._burn(charge, f"{_where(error)} between the charge and the stored measurement")
            raise
        # Raised outside the handler: the error may quote private values, so not even as a context does it travel on.
        raise burnt_error(self._burn(charge, reason))

    def _reuse(self, charge: Charge) -> Measurement:
        if charge.state is State.BURNT:
            raise burnt_error(charge)
        assert charge.measurement_sha256 is not None
        measurement = self._store.load(charge.mid, charge.measurement_sha256)
        self._on_event("reused", charge)
        return measurement

    def _settled(self, charge: Charge) -> Charge:
        """Wait until another attempt's charge is MEASURED or BURNT, settling it here if its holder is
        dead."""
        deadline = time.monotonic() + self._patience.wait
        lease_seen, seen_at = charge.lease_until, time.monotonic()
        while charge.state is State.CHARGED:
            if charge.lease_until != lease_seen:
                lease_seen, seen_at = charge.lease_until, time.monotonic()
            if self._is_dead(charge, watched=time.monotonic() - seen_at):
                return self._take_over(charge)
            if time.monotonic() > deadline:
                raise ChargeHeld(
                    f"Stage {charge.stage!r} of {charge.release!r} is being measured by {charge.holder}.",
                    "Run again when it has finished: its result is then used for free. If it never will, "
                    f"give the charge up: understudy ledger burn {charge.mid[:12]} --reason ...",
                )
            time.sleep(self._patience.poll)
            charge = self._again(charge)
        return charge

    def _is_dead(self, charge: Charge, watched: float) -> bool:
        presence = charge.holder.presence()
        if presence is not Presence.UNKNOWN:
            return presence is Presence.DEAD
        return watched > 2 * self._patience.heartbeat and self._ledger.lease_expired(charge)

    def _take_over(self, charge: Charge) -> Charge:
        charge = self._again(charge)  # it may have finished in its last moment
        if charge.state is not State.CHARGED:
            return charge
        sha256 = self._store.recover(charge.mid, self._facts(charge))
        if sha256 is None:
            return self._burn(charge, f"{charge.holder} died between the charge and the stored measurement")
        measured = self._ledger.record_measurement(charge.mid, sha256, charge.holder)
        self._on_event("measured", measured)
        return measured

    def _burn(self, charge: Charge, reason: str) -> Charge:
        """Burn exactly this attempt's charge; if another run settled it first, that is what stands."""
        settled = self._ledger.burn(charge.mid, reason, charge.holder)
        if settled.state is State.BURNT:
            self._store.discard(charge.mid)
            self._on_event("burnt", settled)
        return settled

    def _again(self, charge: Charge) -> Charge:
        found = self._ledger.find(charge.mid)
        if found is None:
            raise LedgerError(
                f"Charge {charge.mid[:12]} vanished from the ledger {self._ledger.where}.",
                "Charges are never deleted: the database was replaced or restored. Stop all releases and look.",
            )
        return found

    def _facts(self, charge: Charge) -> dict[str, Any]:
        return {
            "ledger": self._ledger.id,
            "holder": charge.holder.token,
            "account": charge.account,
            "release": charge.release,
            "stage": charge.stage,
            "snapshot": charge.snapshot,
            "spec_hash": charge.spec_hash,
            "attempt": charge.attempt,
            "event": to_json(charge.event),
        }

    @contextmanager
    def _heartbeat(self, charge: Charge) -> Iterator[None]:
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(self._patience.heartbeat):
                try:
                    self._ledger.extend_lease(charge.mid, charge.holder, self._patience.lease)
                except LedgerError:
                    continue  # the fence in T2 decides, not the heartbeat

        thread = threading.Thread(target=beat, name="understudy-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _require_charged_event(mechanism: Mechanism[Any], charge: PlannedCharge, request: ChargeRequest) -> None:
    """What will be drawn is what was planned and what will be charged: the same event, to the last bit."""
    if not isinstance(mechanism, Mechanism):
        raise TypeError("only a Mechanism is sold: a value whose event follows from the noise it draws")
    if mechanism.event == charge.event == request.event:
        return
    drawn, asked = (canonical_json(to_json(event)) for event in (mechanism.event, request.event))
    raise NoiseMismatch(
        f"Stage {charge.stage!r} would draw {drawn}, but {canonical_json(to_json(charge.event))} is planned "
        f"and {asked} is to be charged.",
        "Nothing was charged and nothing was drawn. The method contradicts its own plan: please report it.",
    )


def _where(error: BaseException) -> str:
    """The kind of error and the line it came from: enough to find it, and no value it might quote."""
    frames = traceback.extract_tb(error.__traceback__)
    last = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{last}"

"""What happened, told to the orchestrator: one event and one log line, both of public values only.

Events drive automations (docs/operating.md): `understudy.charge.charged|measured|reused|burnt`,
`understudy.publish.done|waiting|retired`, `understudy.key.made`, `understudy.budget.low`,
`understudy.release.failed|crashed`.
Telling must never fail a release.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress

from prefect.events import emit_event
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from understudy.pipelines.privacy.ledger.ledger import Charge

PREFIX = "understudy"
Value = str | int | float | bool | None


def announce(what: str, account: str, **facts: Value) -> None:
    """Emit `understudy.<what>` about the account, and log the same as one line of JSON."""
    public = {name: value for name, value in facts.items() if value is not None}
    _log(what, {"account": account, **public})
    with suppress(Exception):
        emit_event(
            event=f"{PREFIX}.{what}",
            resource={"prefect.resource.id": f"{PREFIX}.account.{account}", "prefect.resource.name": account},
            payload={"account": account, **public},
        )


def announce_charge(what: str, charge: Charge) -> None:
    """`understudy.charge.charged|measured|reused|burnt`, with the charge's public names."""
    facts = {"release": charge.release, "snapshot": charge.snapshot, "stage": charge.stage, "mid": charge.mid}
    announce(f"charge.{what}", charge.account, **facts)


def _log(what: str, facts: dict[str, Value]) -> None:
    line = json.dumps({"event": f"{PREFIX}.{what}", **facts}, sort_keys=True)
    level = logging.WARNING if what.endswith(("burnt", "low", "failed", "crashed")) else logging.INFO
    try:
        get_run_logger().log(level, line)
    except MissingContextError:
        logging.getLogger(PREFIX).log(level, line)

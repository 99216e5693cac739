"""Events on their way: to the server that OPENLINEAGE_URL names, as OpenLineage's own clients do, or to a file.

`UNDERSTUDY_LINEAGE` is a file that gets a line an event, or an address that stands before `OPENLINEAGE_URL`.
`OPENLINEAGE_ENDPOINT` and `OPENLINEAGE_API_KEY` are obeyed. Sending never raises and never waits long: what cannot be
delivered is lost, and whoever sends is told the kind of failure.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

VARIABLE, URL, ENDPOINT, KEY = "UNDERSTUDY_LINEAGE", "OPENLINEAGE_URL", "OPENLINEAGE_ENDPOINT", "OPENLINEAGE_API_KEY"
PATIENCE = 5.0


def destination() -> str | None:
    """Where events go; None where nobody asked for them."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return None
    return os.environ.get(VARIABLE) or os.environ.get(URL) or None


def send(event: dict[str, Any]) -> str | None:
    """What went wrong, in words without an address or a key; None if it was delivered or nobody asked."""
    where = destination()
    if where is None:
        return None
    try:
        if where.startswith(("http://", "https://")):
            _post(where, event)
        else:
            _append(Path(where.removeprefix("file://")), event)
    except Exception as error:  # a library's own kinds, none of which may reach a release
        return str(getattr(error, "code", None) or type(error).__name__)
    return None


def _post(url: str, event: dict[str, Any]) -> None:
    endpoint = os.environ.get(ENDPOINT, "api/v1/lineage").strip("/")
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY):
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps(event).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/{endpoint}", body, headers, method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310  http or https: `send` looked
        answer.read()


def _append(path: Path, event: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(event) + "\n")

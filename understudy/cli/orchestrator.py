"""The Prefect server a command works with: the user's, asked before anything is paid, or a temporary one of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from understudy.cli.environment import API_URL, prefect_home, prepare
from understudy.cli.temporary_server import TemporaryServer
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.releasing.workspace import Workspace

ANSWER_SECONDS = 8.0
PATIENCE_SECONDS = 20.0
_FIX = "correct or remove PREFECT_API_URL (it ends in /api), or start that server; nothing was spent"
_own: list[TemporaryServer] = []


def has_users_server() -> bool:
    return API_URL in os.environ and not _own


def begin(workspace: Workspace, staged_in: Sequence[Path] = ()) -> None:
    """Ask the user's server whether it would do, or start one in the background; before prefect is imported."""
    prepare(workspace)
    if has_users_server():
        require_answer()
    elif not _own:
        server = TemporaryServer(prefect_home(workspace), staged_in)
        _own.append(server)
        os.environ[API_URL] = server.url
        os.environ.setdefault("DASK_TEMPORARY_DIRECTORY", str(server.scratch / "dask"))


def ready() -> None:
    """Return when the server that was started in the background is up."""
    for server in _own:
        server.wait()


def require_answer() -> None:
    """Raise unless the user's server answers as one of a version that fits; within seconds, whatever speaks there."""
    if API_URL in os.environ and _host() is None:  # prefect itself cannot even be imported with some of these
        raise UnderstudyError("PREFECT_API_URL is no http:// or https:// address", _FIX)
    found: list[UnderstudyError | None] = []
    # Its own deadline: a server that drips its answer, or a name that never resolves, is not met by any timeout.
    asking = threading.Thread(target=lambda: found.append(_problem()), daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    problem = found[0] if found else UnderstudyError(f"{_place()} takes too long to answer", _FIX)
    if problem is not None:
        raise problem


@contextmanager
def suited() -> Iterator[None]:
    """Prefect's settings while a flow runs: nobody watches for a heartbeat on a server that ends with the run."""
    if not _own:
        yield
        return
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


def _problem() -> UnderstudyError | None:
    """What is wrong with the server at PREFECT_API_URL. Its words are not repeated: who knows what speaks there."""
    import httpx
    from packaging.version import InvalidVersion, Version
    from prefect import __version__ as ours
    from prefect.client.base import ServerType
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
            get_client(httpx_settings={"timeout": ANSWER_SECONDS}, sync_client=True) as client,
        ):
            if (error := client.api_healthcheck()) is not None:
                raise error
            if client.server_type is ServerType.CLOUD:
                return None
            theirs = Version(str(client.api_version()))
    except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
        return UnderstudyError(f"{_place()} cannot be reached ({type(error).__name__})", _FIX)
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in (401, 403):
            return UnderstudyError(f"{_place()} refuses the credentials ({status})", "set PREFECT_API_KEY or "
                                   "PREFECT_API_AUTH_STRING as that server wants it")  # fmt: skip
        return UnderstudyError(f"{_place()} does not answer like a Prefect API ({status})", _FIX)
    except (InvalidVersion, ValueError, TypeError, RuntimeError) as error:
        return UnderstudyError(f"{_place()} does not answer like a Prefect API ({type(error).__name__})", _FIX)
    if theirs.major != Version(ours).major:
        return UnderstudyError(
            f"{_place()} is a Prefect server of version {theirs}, and this is Prefect {ours}",
            "use a server of the same major version; nothing was spent",
        )
    return None


def _place() -> str:
    host = _host()
    return f"the Prefect server at {host}" if host else "the Prefect server"


def _host() -> str | None:
    """Host and port of PREFECT_API_URL, if it is an address at all; the rest of it may hold a password."""
    try:
        parts = urlsplit(os.environ.get(API_URL, ""))
        host = f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname
    except ValueError:
        return None
    return host if parts.scheme in ("http", "https") else None

"""A REST catalogue of Iceberg on loopback: the protocol's paths over PyIceberg's own SQL catalogue.

No server of others installs here, so this one speaks for them: PyIceberg's REST client talks to it over HTTP, and
requirements and updates of a commit are checked and applied by PyIceberg's own code.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import CommitTableRequest, Table

ERRORS: dict[type[Exception], int] = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    CommitFailedException: 409,
}


@contextmanager
def rest_catalogue(place: Path) -> Iterator[str]:
    """Its address."""
    held = SqlCatalog("held", uri=f"sqlite:///{place / 'rest.db'}", warehouse=f"file://{place / 'warehouse'}")
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        do_HEAD = do_POST = do_DELETE = do_GET

        def _answer(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            asked = self.rfile.read(size)
            try:
                with one_at_a_time:
                    status, found = 200, _answered(held, self.command, self.path.strip("/").split("/")[1:], asked)
            except tuple(ERRORS) as error:
                status = ERRORS[type(error)]
                found = json.dumps({"error": {"message": str(error), "type": type(error).__name__, "code": status}})
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(found.encode())))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.encode())

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
            held.close()


def _answered(held: SqlCatalog, method: str, path: list[str], asked: bytes) -> str:
    match method, path:
        case "GET", ["config"]:
            return json.dumps({"defaults": {}, "overrides": {}})
        case "POST", ["namespaces"]:
            named = json.loads(asked)["namespace"]
            held.create_namespace(tuple(named))
            return json.dumps({"namespace": named, "properties": {}})
        case "POST", ["namespaces", namespace, "tables"]:
            left_out = {"location": None, "partition-spec": None, "write-order": None}
            return _created(held, namespace, CreateTableRequest.model_validate({**left_out, **json.loads(asked)}))
        case "POST", ["namespaces", namespace, "tables", name]:
            commit = CommitTableRequest.model_validate_json(asked)
            return held.commit_table(
                _named(held, namespace, name), commit.requirements, commit.updates
            ).model_dump_json()
        case "GET" | "HEAD", ["namespaces", namespace, "tables", name]:
            return _shown(held.load_table((namespace, name)))
        case "DELETE", ["namespaces", namespace, "tables", name]:
            held.drop_table((namespace, name))
            return "{}"
    raise NoSuchTableError(f"{method} {path}")


def _created(held: SqlCatalog, namespace: str, asked: CreateTableRequest) -> str:
    make = held._create_staged_table if asked.stage_create else held.create_table
    more = {"partition_spec": asked.partition_spec, "sort_order": asked.write_order}
    given = {name: value for name, value in more.items() if value is not None}
    return _shown(
        make((namespace, asked.name), asked.table_schema, asked.location, **given, properties=asked.properties)
    )


def _named(held: SqlCatalog, namespace: str, name: str) -> Any:
    """A table, or the name of one that this commit creates."""
    try:
        return held.load_table((namespace, name))
    except NoSuchTableError:
        return Table((namespace, name), None, "", held._load_file_io(), held)  # type: ignore[arg-type]


def _shown(table: Table) -> str:
    return json.dumps(
        {
            "metadata-location": table.metadata_location,
            "metadata": json.loads(table.metadata.model_dump_json()),
            "config": {},
        }
    )

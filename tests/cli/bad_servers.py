"""Servers that are not what PREFECT_API_URL promises: each of them speaks HTTP in its own wrong way."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CANARY = "canary-of-the-server"


def _handler(kind: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if kind == "silent":
                time.sleep(60)
            elif kind == "dripping":
                self.send_response(200)
                self.send_header("Content-Length", "100000")
                self.end_headers()
                for _ in range(60):
                    self.wfile.write(b"x")
                    time.sleep(1)
            elif kind == "other version":
                self._answer(200, json.dumps(True if self.path.endswith("health") else "2.20.1"))
            elif kind == "words":
                self._answer(200, f"<html>{CANARY}</html>")
            else:
                self._answer(int(kind), CANARY)

        do_POST = do_GET

        def _answer(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def bad_server(kind: str) -> Iterator[str]:
    """The address of an API that is dead, or answers as `kind` says."""
    if kind == "dead":
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        yield f"http://127.0.0.1:{port}/api"
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(kind))
    server.daemon_threads = True
    server.handle_error = lambda request, client_address: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api"
    finally:
        server.shutdown()
        server.socket.close()

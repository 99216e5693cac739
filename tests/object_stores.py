"""A real S3-speaking server (moto's, in a process of its own), once a session, with a bucket for each test."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import suppress

import pytest


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        with suppress(OSError):
            urllib.request.urlopen(f"{url}/moto-api/", timeout=2).close()
            break
        time.sleep(0.2)
    yield url
    process.terminate()
    process.wait()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "canary-access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    import boto3

    name = f"b{uuid.uuid4().hex[:20]}"
    boto3.client("s3").create_bucket(Bucket=name)
    return name

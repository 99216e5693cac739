"""What ships: every package, every template, and an installation that works away from the checkout."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

import understudy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks, so that nothing left in the checkout can help."""
    place = tmp_path_factory.mktemp("wheel")
    source, out = place / "source", place / "out"
    source.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(out), "."]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [built] = out.glob("*.whl")
    return built


def test_the_wheel_has_every_module_and_every_template(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("flows", "tasks", "pipelines", "understudy"):
        prefix = "" if folder == "understudy" else "understudy/"
        missing = [
            str(path)
            for path in (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))
            if f"{prefix}{path}" not in shipped
        ]
        assert missing == []
    for name in ("page_template.html", "style.css", "script.js"):
        assert f"understudy/pipelines/publishing/pages/{name}" in shipped
    assert "understudy/pipelines/drafting/spec.schema.json" in shipped
    assert "understudy/deployments/kubernetes/base-job-template.json" in shipped
    assert "understudy/deployments/prefect.yaml" in shipped


def test_the_version_is_the_same_wherever_it_stands() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert project["version"] == understudy.__version__ == citation["version"]


@pytest.mark.slow
def test_an_empty_environment_with_the_wheel_runs_the_demo_and_deploys_to_kubernetes(
    wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), str(wheel)], check=True, cwd=tmp_path)
    command = str(environment / "bin" / "understudy")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "PYTHON"))}
    clean |= {"UNDERSTUDY_HOME": str(tmp_path / "home"), "PREFECT_HOME": str(tmp_path / "prefect"), "DO_NOT_TRACK": "1"}

    def understudy(*arguments: str, **more: str) -> str:
        done = subprocess.run(
            [command, *arguments], cwd=tmp_path, env={**clean, **more}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "card.html" in understudy("demo", "--visits", "5000")
    with prefect_server(environment, tmp_path, clean) as api:
        spec = str(tmp_path / "demo" / "clinic.yaml")
        understudy("deploy", spec, "--pool", "cluster", "--pool-type", "kubernetes", PREFECT_API_URL=api)
        pool = json.load(urllib.request.urlopen(f"{api}/work_pools/cluster"))
    assert pool["type"] == "kubernetes"
    container = pool["base_job_template"]["job_configuration"]["job_manifest"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert container["volumeMounts"][0]["mountPath"] == "/var/lib/understudy"


@contextmanager
def prefect_server(environment: Path, place: Path, variables: dict[str, str]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    api = f"http://127.0.0.1:{port}/api"
    command = [str(environment / "bin" / "prefect"), "server", "start", "--no-ui", "--port", str(port)]
    with (place / "server.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=place, env=variables, stdout=log, stderr=log)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{api}/health")
                break
            except OSError:
                assert server.poll() is None, (place / "server.log").read_text()
                time.sleep(0.5)
        yield api
    finally:
        server.terminate()
        server.wait(30)

"""What cannot be run here is parsed: every file under deployments/ is what its reader will accept."""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from understudy.cli.deploying import read
from understudy.pipelines.spec.reading import load_spec

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deployments"


def load(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text())


def test_prefect_yaml_names_flows_that_exist_and_parameters_they_take() -> None:
    import inspect

    from prefect.client.schemas.schedules import CronSchedule

    tree = load("prefect.yaml")
    assert len({each["name"] for each in tree["deployments"]}) == len(tree["deployments"])
    for each in tree["deployments"]:
        module, _, name = each["entrypoint"].rpartition(".")
        flow = getattr(import_module(module), name)
        assert set(each.get("parameters", {})) <= set(inspect.signature(flow.fn).parameters)
        assert each["work_pool"]["name"] in ("understudy-cpu", "understudy-gpu")
        for schedule in each["schedules"]:
            CronSchedule(cron=schedule["cron"], timezone=schedule["timezone"])


def test_the_example_spec_can_be_deployed() -> None:
    path = FOLDER / "specs" / "clinic-visits.yaml"
    deployable = read(path)
    assert deployable.queue == "account-clinic"
    json.dumps(deployable.template)
    assert load_spec(path, dt.datetime(2026, 11, 2, 5, tzinfo=dt.UTC)).source.snapshot == "2026-10"


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_dockerfiles(name: str) -> None:
    """One base image, only files that exist, no secret, and not root at run time."""
    text = (FOLDER / "docker" / name).read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "CMD"}
    assert {line.split()[0] for line in lines} <= known
    assert lines[0].startswith("FROM ")
    assert not lines[0].endswith(":latest")
    for line in lines:
        if line.startswith("COPY"):
            *sources, _ = shlex.split(line)[1:]
            assert all((ROOT / source).exists() or source == "README.md" for source in sources), line
    assert [line for line in lines if line.startswith("USER")] == ["USER understudy"]
    assert lines.index("USER understudy") > max(i for i, line in enumerate(lines) if line.startswith("RUN"))
    assert json.loads(lines[-1].removeprefix("CMD "))[0] == "understudy"
    assert not re.search(r"(?i)password|secret|token", text)
    installs = [line for line in lines if "pip install" in line]
    assert installs
    assert all("-c constraints.txt" in line for line in installs), "an image has the versions that were tested"


def test_compose_has_a_whole_platform_and_no_password() -> None:
    tree = load("docker/compose.yaml")
    services = tree["services"]
    assert set(services) == {"ledger", "prefect-database", "server", "dask-scheduler", "dask-worker", "worker"}
    for name, service in services.items():
        assert {"image", "build"} & set(service), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in tree["volumes"], volume
        wanted = service.get("depends_on", [])
        assert set(wanted) <= set(services), name
        for other, condition in wanted.items() if isinstance(wanted, dict) else ():
            assert condition["condition"] != "service_healthy" or "healthcheck" in services[other]
        for variable, value in service.get("environment", {}).items():
            if "PASSWORD" in variable or ("://" in str(value) and "@" in str(value)):
                assert ":?set it in .env}" in value, f"{name} {variable} must come from .env"
    assert services["worker"]["command"][:3] == ["prefect", "worker", "start"]
    declared = (FOLDER / "docker" / "example.env").read_text()
    for variable in set(re.findall(r"\$\{(\w+)", (FOLDER / "docker" / "compose.yaml").read_text())):
        assert re.search(rf"^{variable}=$", declared, re.M), f"{variable} is empty in example.env"


def test_kubernetes_manifests() -> None:
    kinds = [tree["kind"] for name in ("storage", "worker", "secret.example")
             for tree in yaml.safe_load_all((FOLDER / "kubernetes" / f"{name}.yaml").read_text())]  # fmt: skip
    assert kinds == ["PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Deployment", "Secret"]
    assert not any(load("kubernetes/secret.example.yaml")["stringData"].values())


def test_the_kubernetes_job_template_is_one_that_prefect_can_fill_in() -> None:
    from prefect.utilities.templating import apply_values, find_placeholders

    template = json.loads((FOLDER / "kubernetes" / "base-job-template.json").read_text())
    variables = template["variables"]["properties"]
    used = {found.name for found in find_placeholders(template["job_configuration"])}
    assert used == set(variables), used ^ set(variables)
    values = {name: schema.get("default") for name, schema in variables.items()} | {"name": "clinic-visits-2026-10"}
    job = apply_values(template["job_configuration"], values)["job_manifest"]
    assert job["kind"] == "Job"
    pod = job["spec"]["template"]["spec"]
    # What prefect-kubernetes insists on finding, at the places where it looks.
    assert {"parallelism", "completions", "restartPolicy", "containers"} <= set(pod)
    assert {"annotations", "labels"} <= set(job["metadata"])
    assert job["spec"]["backoffLimit"] == 0  # Kubernetes must not retry by itself
    [container] = pod["containers"]
    assert container["volumeMounts"][0]["mountPath"] == "/var/lib/understudy"
    assert container["envFrom"] == [{"secretRef": {"name": "understudy"}}]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "understudy-home"

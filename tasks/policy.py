"""The operator's policy in the flow, and the spec that a deployment is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import get_client
from prefect.runtime import deployment, flow_run

from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.policy import Policy, pin_of
from understudy.pipelines.spec.model import ReleaseSpec


def obey(spec: ReleaseSpec, base: Path) -> None:
    """Refuse what the operator of this machine does not allow, before anything is opened."""
    policy = Policy.from_environment()
    if deployment.id and flow_run.flow_name == "release":  # else whoever filled the spec in was asked
        policy.require_spec(spec.hash)
    policy.require_allowed(spec, base)


def require_pinned(template: dict[str, Any], base: Path) -> None:
    """A run of a deployment releases the spec it was deployed with, from the directory it was deployed with."""
    if not deployment.id:
        return
    Policy.from_environment().require_spec(pin_of(template))
    with get_client(sync_client=True) as client:
        deployed = client.read_deployment(deployment.id).parameters
    if "template" not in deployed:  # made to take any spec; only a policy limits it
        return
    if pin_of(deployed["template"]) != pin_of(template) or Path(deployed.get("base", ".")) != base:
        raise SpecError(
            "this run was given another spec or directory than its deployment is for",
            "run the deployment without `template` and `base`, or deploy the other spec with `understudy deploy`",
        )

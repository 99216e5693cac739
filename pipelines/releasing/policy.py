"""What the operator of a machine allows the specs that reach it: a YAML file named by UNDERSTUDY_POLICY.

A spec comes from whoever may write specs, a run's parameters from whoever holds a Prefect token; the policy lies where
the work is done, and neither can change it. Every part is optional; what a part lists is all that is allowed.

    specs: [3f9c...]                        # pins of deployed specs, as `understudy deploy` prints them
    accounts: [clinic]                      # that may be charged
    targets: [/srv/releases, s3://public]   # places, with everything below them, and databases by their address
    schedulers: [tls://dask:8786]           # Dask schedulers; also the one in UNDERSTUDY_DASK_SCHEDULER
    approvers: {alice: "-----BEGIN PUBLIC KEY-----..."}   # whose signatures publish where approval is required

Without the file all is allowed, but for schedulers: whoever runs one sends code to the process that releases, so a
scheduler's address always needs the operator's word.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.targets.base import target_kind, target_place
from understudy.pipelines.spec.address import Address, is_in
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.plugins import TARGETS, is_own
from understudy.pipelines.spec.public import Public

POLICY = "UNDERSTUDY_POLICY"
SCHEDULER = "UNDERSTUDY_DASK_SCHEDULER"
_ASK = f"ask whoever runs this machine: the file that {POLICY} names decides. Nothing was read or charged"


class Policy(Public):
    """None: everything is allowed."""

    specs: frozenset[str] | None = None
    accounts: frozenset[str] | None = None
    targets: tuple[str, ...] | None = None
    schedulers: frozenset[str] = frozenset()
    approvers: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Policy:
        """The policy of this machine. One that cannot be read allows nothing: the run stops."""
        name = environment.get(POLICY)
        found = _read(Path(name)) if name else cls()
        own = environment.get(SCHEDULER)
        return found.model_copy(update={"schedulers": found.schedulers | {own}}) if own else found

    def require_spec(self, *pins: str) -> None:
        if self.specs is not None and not self.specs & set(pins):
            raise SpecError(f"the policy of this machine does not list this spec (pin {pins[0]})", _ASK)

    def require_allowed(self, spec: ReleaseSpec, base: Path) -> None:
        if self.accounts is not None and spec.privacy.account not in self.accounts:
            raise SpecError(f"the policy of this machine does not let {spec.privacy.account!r} be charged", _ASK)
        if self.targets is not None and not any(
            _below(spec.publish.address, Address.of(place), base) for place in self.targets
        ):
            raise SpecError("the policy of this machine does not let anything be published to publish.to", _ASK)
        scheduler_of(spec, self)


def pin_of(template: Mapping[str, Any]) -> str:
    """Of a spec as it is written, its periods not yet filled in: the same in every month, another after every edit."""
    return hash_of({"template": template})


def scheduler_of(spec: ReleaseSpec, policy: Policy) -> str | None:
    """The Dask scheduler that counts: the operator's, or the spec's if the operator allows it; None: this process."""
    if spec.compute.engine != "dask":
        return None
    if spec.compute.scheduler is None:
        return os.environ.get(SCHEDULER) or None
    if spec.compute.scheduler not in policy.schedulers:
        raise SpecError(
            f"compute.scheduler names {spec.compute.scheduler}, which the operator of this machine has not allowed: a "
            "scheduler can run its owner's code in the process that releases",
            f"remove compute.scheduler from the spec and set {SCHEDULER}={spec.compute.scheduler} where the release "
            f"runs, or list it under `schedulers` in the file that {POLICY} names. Nothing was read or charged",
        )
    return spec.compute.scheduler


def _below(to: Address, place: Address, base: Path) -> bool:
    """Databases are allowed by their very address. A target of another package needs a place of its own kind: leave to
    write files below a folder is not leave to have that package do it."""
    kind = target_kind(to)
    if kind is None or (kind.terms.table and not kind.terms.local):
        return to.text == place.text
    if to.kind != place.kind and not (is_own(TARGETS, to.kind) and is_own(TARGETS, place.kind)):
        return False
    path, root = target_place(to, base), target_place(place, Path("/"))
    if path is not None or root is not None:
        return path is not None and root is not None and is_in(path, root)
    return to.folders[: len(place.folders)] == place.folders


def _read(path: Path) -> Policy:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Policy.model_validate({} if tree is None else tree)
    except ValidationError as error:
        problem = ", ".join(".".join(map(str, each["loc"])) or "the file" for each in error.errors()[:5])
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        problem = getattr(error, "strerror", None) or type(error).__name__
    raise SpecError(
        f"the policy {path} cannot be used: {problem}",
        f"it may hold {', '.join(Policy.model_fields)}; correct it, or unset {POLICY} if there is none",
    )

"""What a spec needs beyond a plain installation, said before anything is paid.

The required packages are those that a default release imports. The rest are extras: torch alone brings gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec


@dataclass(frozen=True)
class Extra:
    """`purpose` needs `package`, which comes with `understudy[name]`."""

    name: str
    package: str
    purpose: str


def extras_of(spec: ReleaseSpec) -> Iterator[Extra]:
    if spec.method.name == "kernel":
        yield Extra("kernel", "torch", "the method kernel")
    elif spec.generate.device == "cuda":
        yield Extra("gpu", "torch", "generate.device: cuda")
    if spec.privacy.noise == "opendp":
        yield Extra("opendp", "opendp", "privacy.noise: opendp")
    if spec.compute.engine == "dask":
        yield Extra("dask", "distributed", "compute.engine: dask")


def require_extras(spec: ReleaseSpec) -> None:
    missing = [extra for extra in extras_of(spec) if find_spec(extra.package) is None]
    if missing:
        wanted = ",".join(sorted({extra.name for extra in missing}))
        raise SpecError(
            "; ".join(f"{extra.purpose} needs {extra.package}, which is not installed" for extra in missing),
            f"pip install 'understudy[{wanted}]'; nothing was read or charged",
        )

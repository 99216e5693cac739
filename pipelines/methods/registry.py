"""The methods by name. Each is imported only when asked for: some pull in torch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from understudy.pipelines.methods.base import Method

_METHODS = {
    "privpgd": "understudy.pipelines.methods.privpgd.method:PrivPGDMethod",
    "gaussian": "understudy.pipelines.methods.gaussian.method:GaussianMethod",
    "kernel": "understudy.pipelines.methods.kernel.method:KernelMethod",
    "mixing": "understudy.pipelines.methods.mixing.method:MixingMethod",
}


def method_named(name: str) -> Method[Any]:
    module, _, attribute = _METHODS[name].partition(":")
    method: Method[Any] = getattr(import_module(module), attribute)()
    return method

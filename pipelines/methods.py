"""The methods by name. Each is imported only when asked for: some pull in torch."""

from __future__ import annotations

from importlib import import_module

from understudy.pipelines.method import Method

_METHODS = {
    "privpgd": "understudy.pipelines.privpgd.method:PrivPGDMethod",
    "gaussian": "understudy.pipelines.gaussian.method:GaussianMethod",
    "kernel": "understudy.pipelines.kernel.method:KernelMethod",
    "mixing": "understudy.pipelines.mixing.method:MixingMethod",
}


def method_named(name: str) -> Method:
    module, _, attribute = _METHODS[name].partition(":")
    method: Method = getattr(import_module(module), attribute)()
    return method

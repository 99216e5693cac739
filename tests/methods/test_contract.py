"""Every built-in method keeps the contract that other packages' methods are held to."""

from __future__ import annotations

from typing import Any, ClassVar

from understudy.testing.methods import MethodContract

FLOWERS: dict[str, dict[str, Any]] = {
    "length": {"type": "number", "min": 0, "max": 10},
    "width": {"type": "number", "min": 0, "max": 4},
    "kind": {"type": "category", "values": ["rose", "daisy"]},
}


class TestPrivPGD(MethodContract):
    name = "privpgd"
    options: ClassVar[dict[str, Any]] = {"marginals": "all-2way"}


class TestGaussian(MethodContract):
    name = "gaussian"


class TestMixing(MethodContract):
    name = "mixing"
    entity = None
    columns: ClassVar[dict[str, dict[str, Any]]] = FLOWERS
    options: ClassVar[dict[str, Any]] = {"label": "kind", "rows": 500}


class TestKernel(MethodContract):
    name = "kernel"
    columns: ClassVar[dict[str, dict[str, Any]]] = FLOWERS
    options: ClassVar[dict[str, Any]] = {"label": "kind", "rows": 500}

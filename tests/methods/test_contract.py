"""Every built-in method keeps the contract that other packages' methods are held to."""

from __future__ import annotations

from typing import Any, ClassVar

from understudy.testing.methods import MethodContract


class TestPrivPGD(MethodContract):
    name = "privpgd"
    options: ClassVar[dict[str, Any]] = {"marginals": "all-2way"}


class TestGaussian(MethodContract):
    name = "gaussian"


class TestMixing(MethodContract):
    name = "mixing"


class TestKernel(MethodContract):
    name = "kernel"

"""The methods by name, of this project and of any installed package (entry points `understudy.methods`).

Each is imported only when asked for: some pull in torch.
"""

from __future__ import annotations

from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import Method
from understudy.pipelines.spec.plugins import METHODS, loaded, names


def method_named(name: str) -> Method[Any]:
    kind = loaded(METHODS, name)
    if kind is None:
        raise SpecError(f"there is no method {name!r}", f"installed are {', '.join(names(METHODS))}")
    method: Method[Any] = kind()
    return method

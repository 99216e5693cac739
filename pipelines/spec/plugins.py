"""What is installed under a name: sources and targets by the kind of their address, methods by their name.

Everything is found through entry points, Understudy's own (pyproject.toml) as those of any other package, in the groups
`understudy.sources`, `understudy.targets` and `understudy.methods`. Nothing is imported before a spec asks for it.

Whoever can install a package into this environment runs code in it anyway; what must not happen is that one silently
takes the place of another. So a name that two packages offer is refused, also where one of them is Understudy.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import SpecError

SOURCES, TARGETS, METHODS = "understudy.sources", "understudy.targets", "understudy.methods"
_OWN = "understudy"
_CHECKOUT = Path(__file__).parents[2] / "pyproject.toml"


def names(group: str) -> tuple[str, ...]:
    return tuple(sorted(_offered(group, tuple(sys.path))))


def is_own(group: str, name: str) -> bool:
    """Whether Understudy itself offers it."""
    return any(package == _OWN for package, _ in _offered(group, tuple(sys.path)).get(name, ()))


def loaded(group: str, name: str) -> Any | None:
    """What the entry point names, imported; None if nothing is installed under that name."""
    offers = _offered(group, tuple(sys.path)).get(name, ())
    if not offers:
        return None
    what = f"the {group.rpartition('.')[2].removesuffix('s')} {name!r}"
    if len(offers) > 1:
        others = sorted(package for package, _ in offers if package != _OWN)
        listed, verb = " and ".join(others), "offers" if len(others) == 1 else "offer"
        own = ", which is Understudy's own" if len(others) < len(offers) else ""
        raise SpecError(
            f"the installed {listed} {verb} {what}{own}",
            f"uninstall {' or '.join(others)}; nothing was read or charged",
        )
    ((package, entry),) = offers
    try:
        return entry.load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"[:200]  # of an import: no row was read yet
    raise SpecError(
        f"{what} of the installed package {package} cannot be imported ({reason})",
        f"repair or uninstall {package}; nothing was read or charged",
    )


@lru_cache(maxsize=32)
def _offered(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[tuple[str, EntryPoint], ...]]:
    """Every entry point of the group by name, with the package it comes from. `path` is what was looked through."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for entry in (*_installed(path).select(group=group), *_of_checkout(group)):
        package = _normal(entry.dist.name) if entry.dist is not None else _OWN
        found.setdefault(entry.name, {}).setdefault(package, entry)
    return {name: tuple(offers.items()) for name, offers in found.items()}


@lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> Any:
    """All entry points of all packages: looking through the path is what takes time, and it is done once."""
    return entry_points()


def _of_checkout(group: str) -> list[EntryPoint]:
    """Understudy's own, where it runs from a checkout: what is installed of it may be older than its files."""
    if not _CHECKOUT.is_file():
        return []
    listed = tomllib.loads(_CHECKOUT.read_text(encoding="utf-8"))["project"].get("entry-points", {}).get(group, {})
    return [EntryPoint(name, value, group) for name, value in listed.items()]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

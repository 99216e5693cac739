"""What an account may be called. A period of a disjoint series has an account of its own, which only its series opens:
its name holds an `@`, and no name that anybody gives may."""

from __future__ import annotations

import re

from understudy.pipelines.errors import SpecError

SEPARATOR = "@"
MOST_CHARACTERS = 100
_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{MOST_CHARACTERS - 1}}}")


def account_name_problem(name: str) -> str | None:
    """Why nobody may open an account of this name, or name it in a spec; None if one may."""
    if _NAME.fullmatch(name):
        return None
    periods = f"; an {SEPARATOR} is in the accounts of disjoint periods only" if SEPARATOR in name else ""
    return (
        f"{name[:40]!r} must be lower-case letters, digits, dots, dashes or underscores, the first a letter or digit "
        f"(at most {MOST_CHARACTERS}){periods}"
    )


def require_account_name(name: str) -> None:
    if (problem := account_name_problem(name)) is not None:
        raise SpecError(f"no account can be called so: {problem}", "name it after its data, such as clinic-visits")


def period_account(parent: str, series: str, label: str) -> str:
    """The account of one period of a series, which `series` (a hash) names."""
    return f"{series_prefix(parent, series)}{label}"


def series_prefix(parent: str, series: str) -> str:
    """What the names of the accounts of all periods of a series begin with."""
    return f"{parent}{SEPARATOR}{series[:10]}{SEPARATOR}"


def is_period_account(name: str) -> bool:
    return SEPARATOR in name


def parent_of(name: str) -> str:
    """The account that pays for what is charged to this one: itself, if it is no period's."""
    return name.partition(SEPARATOR)[0]

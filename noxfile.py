"""The suite on every Python that is promised, and with the oldest and the newest packages that pyproject.toml allows.

    nox -s tests            # Python 3.11, 3.12 and 3.13, the tested versions of constraints.txt
    nox -s oldest newest    # what the bounds in pyproject.toml promise
Arguments after -- go to pytest: nox -s tests-3.13 -- tests/privacy. `make matrix` runs them all; nox has an environment
of its own, since it needs newer attrs than dp-accounting allows.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|venv"  # pip searches for minutes where uv resolves the oldest in seconds
PYTHONS = ["3.11", "3.12", "3.13"]


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    _run(session)


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """Every package that a user may install, at its lower bound; the tools that test it are today's."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(one for extra in extras.keys() - {"dev", "peers"} for one in extras[extra])]
    lower = {found[1]: found[2] for line in named if (found := re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", line))}
    constraints = Path(session.create_tmp()) / "oldest.txt"
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in sorted(lower.items())))
    session.install("-c", str(constraints), "-e", ".[dev]")
    _run(session)


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    session.install("--upgrade", "-e", ".[dev]")
    _run(session)


def _run(session: nox.Session) -> None:
    session.run("python", "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *session.posargs)

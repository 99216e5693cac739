"""Addresses of MariaDB and MySQL, as a source and a target share them: `mysql://user@host:3306/database`.

The password comes from `MYSQL_PWD`, as the client's own tools read it, or the whole address from the environment or a
Secret block: `mysql+env://VARIABLE`, `mysql+block://name`.
"""

from __future__ import annotations

import os
import re

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.spec.address import Address, Terms, fingerprint

TERMS = Terms(table=True, hidden_in=frozenset({"env", "block"}))
_OPTIONS = frozenset({"unix_socket", "ssl_ca", "ssl_verify_cert", "ssl_verify_identity", "connect_timeout"})


def url_of(database: Address) -> sa.URL:
    """For SQLAlchemy, with whatever secret it needs. Never log, store or raise it."""
    try:
        given = sa.make_url(re.sub(r"^(mysql|mariadb)(\+\w+)?://", "mysql+pymysql://", database.revealed()))
    except ArgumentError:
        given = None
    if given is None or not given.database:
        raise SpecError(f"{database.key} is not of the form mysql://user@host/database", "correct it")
    unknown = sorted(set(given.query) - _OPTIONS)
    if unknown and not database.hidden_in:
        raise SpecError(
            f"{database.key} has connection options that a spec may not set: {', '.join(unknown)[:200]}",
            f"allowed: {', '.join(sorted(_OPTIONS))}",
        )
    query = {"charset": "utf8mb4", "connect_timeout": "20", **given.query}
    password = given.password if given.password is not None else os.environ.get("MYSQL_PWD")
    return given.set(password=password, query=query)


def server_of(database: Address) -> str:
    """Which database this is; empty where nobody can tell."""
    try:
        url = url_of(database)
    except UnderstudyError:  # told when it is connected to, if it ever is
        return ""
    socket = url.query.get("unix_socket", "")
    place = f"{(url.host or 'localhost').lower()}:{url.port or 3306}{socket}/{url.database}"
    return f"database mysql {fingerprint(place) if database.hidden_in else place}"

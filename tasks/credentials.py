"""Prefect Secret blocks, opened when a spec names one and kept in this process only."""

from __future__ import annotations

from typing import Any, cast

from prefect.blocks.system import Secret

from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.spec.address import provide
from understudy.pipelines.spec.model import ReleaseSpec


def lend_credentials(spec: ReleaseSpec) -> None:
    """Hand the address in each Secret block the spec names to the code that will connect with it."""
    for address in (*(alone.source.address for alone in spec.alone.values()), spec.publish.address):
        block = address.block
        if block is None:
            continue
        try:
            secret = cast(Secret[Any], Secret.load(block))
        except ValueError:
            raise UnderstudyError(
                f"{address.key} names the Prefect Secret block {block!r}, which does not exist",
                f"create it in Prefect's Blocks page, holding {address.kind}://user:password@host/database",
            ) from None
        provide(block, str(secret.get()))

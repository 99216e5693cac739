"""Differentially private synthetic copies of warehouse tables, on a schedule; no budget is ever spent twice."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Release", "Synthesizer", "__version__", "open_ledger", "open_release", "synthesize"]


def __getattr__(name: str) -> Any:
    """The Python interface, imported when first asked for: `understudy --help` needs none."""
    if name in ("Release", "Synthesizer", "open_ledger", "open_release", "synthesize"):
        from understudy import api

        return getattr(api, name)
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")

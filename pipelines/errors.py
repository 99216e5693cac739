"""Errors a user meets: one sentence on what is wrong, one on what to do, and the exit code.

No message may quote a value of the private table: names of columns, files and accounts only.
"""

from __future__ import annotations


class UnderstudyError(Exception):
    """Base of every expected failure; the command line prints it without a traceback."""

    exit_code = 1

    def __init__(self, problem: str, fix: str = "") -> None:
        self.problem = problem
        self.fix = fix
        super().__init__(f"{problem}\n  -> {fix}" if fix else problem)

    def __reduce__(self) -> tuple[type[UnderstudyError], tuple[str, str]]:
        # Prefect and Dask pickle exceptions between processes; the default would lose `fix`.
        return type(self), (self.problem, self.fix)


class Bare:
    """Lets errors of ours out without the error that was handled when they were raised: its words are not ours.

    Context managers that put one error for another raise it while the first is handled, so theirs always have one.
    """

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnderstudyError):
            error.__cause__ = error.__context__ = None


class SpecError(UnderstudyError):
    """The spec, or the way a command was used, is wrong."""

    exit_code = 2


class BudgetRefused(UnderstudyError):
    """The account cannot pay for this release."""

    exit_code = 3


class ChargeBurnt(UnderstudyError):
    """Budget was charged, the run died before the noisy result was stored, and it can never be redrawn."""

    exit_code = 4


class ValidationFailed(UnderstudyError):
    """The synthetic table breaks its own contract; nothing was published."""

    exit_code = 5


class NotUnderstood(ValidationFailed):
    """More of a column than the spec allows was not understood; nothing was published."""

    exit_code = 6


class OnlyNoise(ValidationFailed):
    """The copy would be worse than the spec allows, for its noise; nothing was published."""

    exit_code = 6


class SourceError(UnderstudyError):
    """The private table cannot be reached or read."""


class LedgerError(UnderstudyError):
    """The ledger is unreachable, busy or inconsistent."""


class ChargeHeld(LedgerError):
    """Another live run holds this charge."""


class NoiseMismatch(UnderstudyError):
    """What would be drawn is not what was planned and is to be charged. Found before the charge: nothing is lost."""


class PublishError(UnderstudyError):
    """The release could not be written to its target."""

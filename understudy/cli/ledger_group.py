"""The commands of the ledger; each imports what it needs when it runs, as those of `main` do."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from understudy.cli.arguments import AT, SPEC, with_zone


@click.group()
def ledger() -> None:
    """Open accounts, see what was spent, and prove that the history is whole."""


@ledger.command("open")
@click.argument("account")
@click.option("--epsilon", required=True, help="Cap on the composed epsilon of all releases.")
@click.option("--delta", required=True, help="The delta at which the cap holds.")
@click.option("--relation", type=click.Choice(["add_remove", "replace_one"]), default="add_remove", show_default=True)
@click.option("--entity", help="Column that says whose row it is; omit it to protect single rows.")
@click.option("--max-rows", type=click.IntRange(1), default=1, show_default=True, help="Rows an entity may contribute.")
@click.option("--filter", "kind", type=click.Choice(["gdp", "renyi"]), default="gdp", show_default=True,
              help="The rule that holds the cap. gdp: for releases with Gaussian noise, which privpgd (adaptive too), "
              "gaussian and kernel make unless told otherwise; it costs nothing extra. renyi: holds method mixing, "
              "kernel `release: steps`, `noise: opendp` and gaussian `sampling-noise` as well; Gaussian releases use "
              "up more of its cap. `understudy plan` says if an account cannot hold a release.")  # fmt: skip
@click.option("--order", type=float, metavar="A",
              help="renyi only: the one order at which losses are added [the best for Gaussian noise under this cap; "
              "`understudy plan` names the best for a release that needs renyi].")  # fmt: skip
@click.option("--own-delta", default="0", show_default=True, metavar="D",
              help="The part of delta set aside for events with a delta of their own, such as thresholds.")  # fmt: skip
def ledger_open(
    account: str, epsilon: str, delta: str, relation: str, entity: str | None, max_rows: int, kind: str,
    order: float | None, own_delta: str,
) -> None:  # fmt: skip
    """Open ACCOUNT: one per sensitive dataset. Relation, unit and filter are fixed for its life.

    The cap holds although each release may be chosen after looking at those before it. That needs a theorem, and the
    filter says which one.
    """
    from understudy.cli.ledger import open_account

    open_account(account, epsilon, delta, relation, entity, max_rows, kind, order, own_delta)


@ledger.command("show")
@click.argument("account", required=False)
def ledger_show(account: str | None) -> None:
    """Show what each account has spent over its releases, by its filter, and what is left.

    With ACCOUNT also the filter's theorem and the cap in other currencies.
    """
    from understudy.cli.ledger import show

    show(account)


@ledger.command("history")
@click.argument("account")
def ledger_history(account: str) -> None:
    """List everything that ever happened to ACCOUNT, oldest first."""
    from understudy.cli.ledger import history

    history(account)


@ledger.command("report")
@click.option("--to", type=click.Path(path_type=Path), default=Path("ledger.html"), show_default=True,
              help="The page to write.")  # fmt: skip
def ledger_report(to: Path) -> None:
    """Write the ledger as a page: balances over time, filters, charges, burnt ones, what still fits, the chain."""
    from understudy.cli.ledger import report

    report(to)


@ledger.command("verify")
def ledger_verify() -> None:
    """Recompute the hash chain and compare it with the accounts and charges."""
    from understudy.cli.ledger import verify

    verify()


@ledger.command("cap")
@click.argument("account")
@click.option("--epsilon", required=True)
@click.option("--delta", required=True)
@click.option("--reason", required=True, help="Kept in the history for ever.")
def ledger_cap(account: str, epsilon: str, delta: str, reason: str) -> None:
    """Raise or lower the cap of ACCOUNT, for a recorded reason."""
    from understudy.cli.ledger import change_cap

    change_cap(account, epsilon, delta, reason)


@ledger.command("burn")
@click.argument("charge")
@click.option("--reason", required=True, help="Kept in the history for ever.")
def ledger_burn(charge: str, reason: str) -> None:
    """Give up CHARGE, whose run is gone: its budget stays spent and it is never drawn."""
    from understudy.cli.ledger import burn

    burn(charge, reason)


@ledger.command("moved")
@SPEC
@click.option("--reason", required=True, help="Kept in the history for ever.")
@AT
def ledger_moved(spec: Path, reason: str, at: datetime | None) -> None:
    """Say that the data of SPEC is the data it was measured from, which now lies where SPEC says."""
    from understudy.cli.moving import move

    move(spec, reason, with_zone(at))


@ledger.command("backup")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--incomplete", is_flag=True, help="Also if measurements are lost that were paid for.")
def ledger_backup(directory: Path, incomplete: bool) -> None:
    """Copy ledger, measurements and keys into the new DIRECTORY, while releases run."""
    from understudy.cli.backing_up import run_backup

    run_backup(directory, incomplete)


@ledger.command("restore")
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--releases",
    multiple=True,
    metavar="PLACE",
    help="Where releases were published, a directory or one release: they may know more. Can be given again.",
)
@click.option("--older-is-fine", is_flag=True, help="Restore although something else knows more; needs --reason.")
@click.option("--reason", default="", help="Kept in the history for ever.")
def ledger_restore(directory: Path, releases: tuple[str, ...], older_is_fine: bool, reason: str) -> None:
    """Put the backup in DIRECTORY into an empty ledger, or put back what a present one has lost."""
    from understudy.cli.backing_up import run_restore

    run_restore(directory, releases, older_is_fine, reason)


@ledger.command("export")
def ledger_export() -> None:
    """Print the whole ledger as JSON."""
    from understudy.cli.ledger import export

    export()

"""The command line. Every command imports what it needs when it runs, so that --help answers at once."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click

from understudy.cli.arguments import AT, SPEC, with_zone
from understudy.cli.drafting import init
from understudy.cli.editors import completion, print_schema, spec_group
from understudy.cli.environment import choose_workspace
from understudy.cli.ledger_group import ledger
from understudy.cli.one_message import OneMessageGroup

_EPILOG = (
    "Exit codes: 0 done, 2 bad spec or usage, 3 budget refused, 4 burnt charge, 5 validation failed, "
    "6 too much was not understood or only noise, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP, 1 anything else."
)


@click.group(cls=OneMessageGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    envvar="UNDERSTUDY_HOME",
    metavar="DIR",
    help="Ledger and measurements live here [~/.understudy].",
)
@click.option("--ledger", envvar="UNDERSTUDY_LEDGER", metavar="URL", help="Another ledger, such as a PostgreSQL URL.")
@click.version_option(package_name="understudy")
def main(home: str | None, ledger: str | None) -> None:
    """Publish differentially private synthetic copies of warehouse tables, and never spend a budget twice.

    Start with `understudy demo`. For a table of your own: `understudy init SOURCE` drafts a spec, `understudy ledger
    open` opens an account with a budget, `understudy plan SPEC` says what it would cost, `understudy release SPEC` does
    it.
    """
    choose_workspace(home, ledger)


for _command in (init, spec_group, completion):
    main.add_command(_command)


@main.command()
@click.option("--directory", type=click.Path(path_type=Path), default=Path("demo"), show_default=True)
@click.option("--visits", type=click.IntRange(1000, 5_000_000), default=60_000, show_default=True)
def demo(directory: Path, visits: int) -> None:
    """Build a small clinic warehouse of three tables and release a private copy of them, end to end."""
    from understudy.demo.run import run_demo

    run_demo(directory, visits)


@main.command()
@SPEC
@click.option("--assume-rows", type=click.IntRange(1),
              help="A public guess of the table's size, for noise as a share and for time and memory. Default: the "
              "source's metadata if the spec has rows_are_public, else 100,000.")  # fmt: skip
@click.option("--what-if", multiple=True, metavar="KEY=A,B,C",
              help="Instead of the plan, compare values of epsilon, delta or max_rows, as epsilon=0.5,1,2: noise, the "
              "error of groups, the columns that drown. Needs no account.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write the plan as a page, for whoever has to approve it.")  # fmt: skip
@AT
def plan(
    spec: Path, assume_rows: int | None, what_if: tuple[str, ...], as_json: bool, html: Path | None, at: datetime | None
) -> None:
    """Show what releasing SPEC would spend, its noise, which columns drown, and the balance after. Reads no row."""
    from understudy.cli.planning import print_plan

    print_plan(spec, assume_rows, as_json, with_zone(at), what_if, html)


@main.command()
@SPEC
@click.option("--resume", is_flag=True, help="Only finish a release that was charged before; never spend.")
@click.option("--pay-again", is_flag=True, help="After a burnt charge: pay for a new measurement of the same snapshot.")
@click.option("--approve", is_flag=True, help="At a terminal: say yes where the spec wants approval.")
@click.option("--rediscover", is_flag=True, help="Buy anew what open columns can hold, although it is known.")
@AT
def release(spec: Path, resume: bool, pay_again: bool, approve: bool, rediscover: bool, at: datetime | None) -> None:
    """Release SPEC: measure, generate, validate, publish. Running it again is free and safe."""
    from understudy.cli.releasing import run_release

    options = {"resume": resume, "pay_again": pay_again, "approved": approve, "rediscover": rediscover}
    run_release(spec, **options, at=with_zone(at))


@main.command()
@click.argument("release_id")
@click.argument("spec_hash")
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Your ed25519 key, in PEM.")
@click.option("--run", metavar="ID", help="Resume this paused run with the token, instead of printing it.")
def approve(release_id: str, spec_hash: str, key: Path, run: str | None) -> None:
    """Say yes to RELEASE_ID of SPEC_HASH, as the review of the paused run names them, by your signature."""
    from understudy.cli.approving import say_yes

    say_yes(release_id, spec_hash, key, run)


@main.command()
@click.argument("specs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--pool", help="Work pool [the spec's schedule.pool].")
@click.option("--pool-type", type=click.Choice(["process", "docker", "kubernetes"]), default="process",
              show_default=True, help="How to make the pool if there is none of that name.")  # fmt: skip
@click.option("--base", help="Where the spec's relative paths start on the worker [the spec's directory].")
@click.option("--image", help="Container image for docker and kubernetes pools.")
@click.option("--gpu-limit", type=click.IntRange(1), default=1, show_default=True, help="GPU tasks at a time.")
@click.option("--notify", metavar="TYPE/NAME", help="Notification block told of low budgets, burnt charges, failures.")
@click.option("--paused", is_flag=True, help="Deploy with the schedule switched off.")
def deploy(
    specs: tuple[Path, ...], pool: str | None, pool_type: str, base: str | None, image: str | None, gpu_limit: int,
    notify: str | None, paused: bool,
) -> None:  # fmt: skip
    """Make or update a Prefect deployment for each of SPECS, on its schedule, one release of an account at a time."""
    from understudy.cli.deploying import Options, run_deploy

    run_deploy(specs, Options(pool, pool_type, base, image, gpu_limit, notify, paused))


@main.command()
@click.argument("releases", nargs=-1, required=True)
@click.option("--without-ledger", is_flag=True, help="Check the files and the arithmetic only.")
def recertify(releases: tuple[str, ...], without_ledger: bool) -> None:
    """Recompute the guarantee of published RELEASES and check every file and charge. Spends nothing."""
    from understudy.cli.recertifying import run_recertify

    run_recertify(releases, without_ledger)


@main.command()
@click.argument("release")
@click.option("--key", "keys", multiple=True, type=click.Path(path_type=Path), metavar="PEM_FILE",
              help="A public key to believe, as `understudy keys show` prints it [the keys of this home].")  # fmt: skip
def verify(release: str, keys: tuple[Path, ...]) -> None:
    """Check a published RELEASE by itself: signature, every file, the guarantee. Needs no ledger and no network.

    RELEASE is its directory, the folder of all releases of a name (the latest is meant), an object store's path, or a
    table such as duckdb:///out.duckdb#table. Exit code 5 if anything does not hold.
    """
    from understudy.cli.verifying import run_verify

    run_verify(release, keys)


@main.command()
@click.argument("release")
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Where to write it [NAME-card.html in this folder].")  # fmt: skip
def card(release: str, to: Path | None) -> None:
    """Write the card of a published RELEASE into a file, from wherever the release lies. Spends nothing.

    RELEASE is what `verify` takes: a directory, an object store's path, or a table such as
    postgresql+env://WAREHOUSE_URL#visits_synthetic, whose card is a text in the database.
    """
    from understudy.cli.card import run_card

    run_card(release, to)


@main.command()
@click.argument("release")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--curator", default="", metavar="NAME", help="Who answers for the release: goes into the documents.")
@click.option("--license", "terms", default="", metavar="URL", help="On which terms it may be used, likewise.")
@click.option("--key", "keys", multiple=True, type=click.Path(path_type=Path), metavar="PEM_FILE",
              help="A public key to believe, as `understudy keys show` prints it [the keys of this home].")  # fmt: skip
def evidence(release: str, directory: Path, curator: str, terms: str, keys: tuple[Path, ...]) -> None:
    """Write what RELEASE can show to an auditor into DIRECTORY: a page, and a file for each standard.

    The questions of NIST SP 800-226 with their evidence or "not covered", errors of groups by noise alone, an entry
    for the deployments registry, Croissant 1.1, an Open Data Contract 3.1, the signed statement. From the manifest
    alone: no row, ledger or network is used. RELEASE is what `verify` takes; one that was changed is refused (exit
    code 5).
    """
    from understudy.cli.evidence import run_evidence

    run_evidence(release, directory, curator, terms, keys)


@main.command()
@click.argument("releases", nargs=-1, required=True)
@click.option("--plan", "plans", multiple=True, type=click.Path(path_type=Path), metavar="SPEC",
              help="Also the plan of this spec, made anew whenever it is looked at.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; by default this machine alone.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any that is free.")
@click.option("--without-ledger", is_flag=True, help="Leave out the ledger's page.")
def serve(releases: tuple[str, ...], plans: tuple[Path, ...], host: str, port: int, without_ledger: bool) -> None:
    """Show RELEASES over HTTP: catalogue, cards, manifests, the ledger's page, plans. Reads only.

    RELEASES are directories that releases are published to, and tables, such as duckdb:///file.duckdb#table.
    No private value is in reach: neither rows, measurements, the ledger's database nor comparisons are served. Releases
    that wait for approval can be approved here only if UNDERSTUDY_SERVE_TOKEN is set, by a signature of an approver.
    """
    from understudy.cli.serving_pages import serve as run

    run(releases, plans, host, port, not without_ledger)


@main.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.argument("release")
@click.option("--to", type=click.Path(path_type=Path), help="Where to [confidential in the home].")
@click.option("--label", "labels", multiple=True, metavar="COLUMN",
              help="Train a model of it on either table, and score both.")  # fmt: skip
def compare(spec: Path, release: str, to: Path | None, labels: tuple[str, ...]) -> None:
    """Set a published RELEASE beside the private table of SPEC: for its owner alone.

    RELEASE is its directory, or the folder of all releases of a name (the latest is meant). Columns, pairs, triples,
    distribution functions, spikes, tails, and what a learner makes of both go to a page and to JSON. They are computed
    from private rows without noise, so they are as confidential as the table, and gate nothing.
    """
    from understudy.cli.comparing import run_compare

    run_compare(spec, release, to, labels)


@main.command()
@click.argument("release")
@click.argument("question")
@click.option("--level", type=click.FloatRange(0.5, 1, max_open=True), default=0.95, show_default=True,
              help="How often the intervals hold the truth.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON.")
def ask(release: str, question: str, level: float, as_json: bool) -> None:
    """Answer QUESTION about a published RELEASE from what was measured, with intervals. Spends nothing.

    As in `understudy ask releases/visits "mean(charge) by ward where age >= 60"`: count, share(...), mean, sum, median
    and quantile(x, 0.9), `by` groups, `where` conditions, `difference` or `ratio` between groups, `over time` for
    all releases of a name; and regressions, `ols(charge ~ age + sex)` and `logit(readmitted ~ age)`. RELEASE is what
    `verify` takes. docs/asking.md has the language and what the intervals say.
    """
    from understudy.cli.asking import run_ask

    run_ask(release, question, level, as_json)


@main.group()
def keys() -> None:
    """The key that signs releases, and its public half to hand out."""


@keys.command("new")
@click.option("--file", type=click.Path(path_type=Path), help="Where to [keys/release.pem in the home].")
def keys_new(file: Path | None) -> None:
    """Make a new ed25519 key. The first release does so itself if there is none."""
    from understudy.cli.keys import new_key

    new_key(file)


@keys.command("show")
def keys_show() -> None:
    """Print the public key in PEM (its id goes to stderr): hand this out to whoever verifies releases."""
    from understudy.cli.keys import show_key

    show_key()


@keys.command("use")
@click.argument("file", type=click.Path(path_type=Path))
def keys_use(file: Path) -> None:
    """Sign with the key in FILE from now on; a copy is kept in the home. Earlier releases stay believed here."""
    from understudy.cli.keys import change_key

    change_key(file)


@main.command()
@click.option("--from", "measurement", required=True, metavar="MEASUREMENT", help="Its directory, or its charge's id.")
@click.option("--to", type=click.Path(path_type=Path), default=Path("releases"), show_default=True)
@click.option("--rows", type=click.IntRange(1), help="How many rows [the noisy number of rows].")
@click.option("--method", help="Must be the method that measured it.")
@click.option("--epochs", type=click.IntRange(0), help="privpgd: passes over all marginals.")
@click.option("--particles", type=click.IntRange(1), help="privpgd: particles that are moved.")
def generate(
    measurement: str, to: Path, rows: int | None, method: str | None, epochs: int | None, particles: int | None
) -> None:
    """Make another synthetic table from a paid measurement. Free: it spends nothing and reads no row."""
    from understudy.cli.generating import generate_from

    generate_from(measurement, method, rows, to, {"epochs": epochs, "particles": particles})


@main.command()
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--pairs", type=click.IntRange(0), default=400, show_default=True, help="Neighbouring tables a method.")
@click.option("--releases", type=click.IntRange(0), default=2000, show_default=True,
              help="Complete releases of each of two tables that are told apart; without SPEC of a few principal ones, "
              "and a fiftieth of the others.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Other made tables, other draws.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="FILE",
              help="Where to note what has run, so that the same command goes on after it was stopped.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Stop after so long; the page says what ran.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("audit.md"), show_default=True)
@AT
def audit(
    spec: Path | None,
    pairs: int,
    releases: int,
    seed: int,
    keep: Path | None,
    minutes: float | None,
    out: Path,
    at: datetime | None,
) -> None:
    """Attack the promises of SPEC, or of every method, on made tables; write one page. Reads no row, costs nothing."""
    from understudy.cli.auditing import run_audit

    run_audit(spec, pairs, releases, seed, out, with_zone(at), keep, minutes)


@main.command()
def schema() -> None:
    """The same as `understudy spec schema`."""
    print_schema()


main.add_command(ledger)


if __name__ == "__main__":
    sys.exit(main())

"""`understudy init`: a spec drafted from a catalogue, with the questions that no catalogue answers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from understudy.pipelines.drafting.draft import Choices, Draft
    from understudy.pipelines.drafting.facts import TableFacts

NONE = "none"
CAP_FACTOR = 3
"""The account that is proposed pays for several such releases: their loss adds up slower than their number."""


@click.command()
@click.argument("source")
@click.option("--table", help="The table or view, where SOURCE is a database or describes several.")
@click.option("--root", metavar="TABLE", help="Draft several tables: this one, whose rows are who is protected, and "
              "all that point to it by foreign keys, and to those.")  # fmt: skip
@click.option("--contract", "contracts", multiple=True, type=click.Path(path_type=Path),
              help="What else is declared about the table: an ODCS data contract, a dbt schema.yml or project, a JSON "
              "Schema, a Frictionless schema, SDV metadata.")  # fmt: skip
@click.option("--entity", metavar="COLUMN", help="The column that says whose row it is; `none`: every row is somebody.")
@click.option("--max-rows", type=click.IntRange(1, 1_000_000), help="Rows of one entity that are kept [4].")
@click.option("--epsilon", metavar="E", help="What a release may cost [1].")
@click.option("--delta", metavar="D", help="The delta beside it [1e-6].")
@click.option("--account", help="The ledger account that pays [the table's name].")
@click.option("--out", type=click.Path(path_type=Path), help="Where to [the table's name].yaml.")
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given is the default.")
@click.pass_context
def init(
    context: click.Context, source: str, table: str | None, root: str | None, contracts: tuple[Path, ...],
    entity: str | None, max_rows: int | None, epsilon: str | None, delta: str | None, account: str | None,
    out: Path | None, yes: bool,
) -> None:  # fmt: skip
    """Draft a spec for SOURCE from its catalogue alone. Reads no row.

    SOURCE is a CSV or Parquet file, a folder of Parquet files, a DuckDB file, a database with --table
    (postgresql://user@host/database, sql+env://VARIABLE, sqlite:///file.db), or a contract about a table. Names,
    types, comments, keys, enums, domains and CHECK constraints are taken from the catalogue; bounds and values that
    only a column's name suggests are marked as guesses; what stays open is to be discovered, for a part of the budget.
    """
    asked = Asked(entity, max_rows, epsilon, delta, account, asking=not yes and sys.stdin.isatty())
    if root is not None:
        _refuse_beside_root(table, contracts, entity)
        run_init_tree(source, root, asked, max_rows, out, options=_options_given(context))
        return
    run_init(source, table, contracts, asked, out, options=_options_given(context))


def _refuse_beside_root(table: str | None, contracts: tuple[Path, ...], entity: str | None) -> None:
    from understudy.pipelines.errors import SpecError

    given = [name for name, value in (("--table", table), ("--contract", contracts), ("--entity", entity)) if value]
    if given:
        raise SpecError(f"{', '.join(given)} is for a draft of one table", "leave it out beside --root")


class Asked:
    """What the person who drafts has said, or is asked where it matters and somebody is there to answer."""

    def __init__(
        self,
        entity: str | None,
        max_rows: int | None,
        epsilon: str | None,
        delta: str | None,
        account: str | None,
        asking: bool,
    ) -> None:
        self.entity, self.max_rows, self.account = entity, max_rows, account
        self.epsilon, self.delta, self.asking = epsilon, delta, asking

    def choices(self, facts: TableFacts, name: str) -> Choices:
        from understudy.pipelines.drafting.draft import rows_of
        from understudy.pipelines.errors import SpecError

        entity = self._entity(facts)
        rows = self.max_rows or rows_of(facts, entity)
        if entity is None and rows != 1:
            raise SpecError("--max-rows is about an entity's rows", "name its column as --entity too")
        if entity is not None and self.max_rows is None and rows > 1 and self.asking:
            rows = click.prompt(
                f"How many rows of one {entity} may count? More are dropped, and noise grows with it",
                default=rows, type=click.IntRange(1, 1_000_000),
            )  # fmt: skip
        return replace(self.budget(name), entity=entity, max_rows=rows)

    def budget(self, name: str) -> Choices:
        """What the release may cost and who pays; everybody has one row."""
        from understudy.cli.ledger import budget_from
        from understudy.pipelines.drafting.draft import Choices
        from understudy.pipelines.privacy.ledger.names import require_account_name

        epsilon = self.epsilon
        if epsilon is None and self.asking:
            epsilon = click.prompt("Epsilon of a release (smaller: more private and noisier)", default="1")
        budget = budget_from(epsilon or "1", self.delta or "1e-6")
        account = self.account or name
        require_account_name(account)
        return Choices(None, 1, budget.epsilon, budget.delta, account)

    def _entity(self, facts: TableFacts) -> str | None:
        from understudy.pipelines.drafting.draft import likely_entities

        names = [column.name for column in facts.columns]
        if self.entity is not None:
            return None if self.entity == NONE and NONE not in names else self.entity
        likely = likely_entities(facts)
        default = likely[0] if likely else NONE
        if not self.asking:
            return likely[0] if likely else None
        question = "Which column says whose row it is? (none: everybody has one row)"
        answer: str = click.prompt(question, default=default, type=click.Choice([*names, NONE]), show_choices=False)
        return None if answer == NONE else answer


def run_init(
    source: str, table: str | None, contracts: tuple[Path, ...], asked: Asked, out: Path | None, options: list[str]
) -> None:
    import datetime as dt

    from understudy.pipelines.drafting.catalogue import spec_name
    from understudy.pipelines.drafting.declared import declared_facts
    from understudy.pipelines.drafting.draft import draft_table
    from understudy.pipelines.drafting.writing import written

    facts = declared_facts(source, table, contracts, beside=out.parent if out else Path())
    name = spec_name(facts, source)
    path = out or Path(f"{name}.yaml")
    if out is None and path == Path(source):  # a contract of that name
        path = Path(f"{name}-release.yaml")
    refuse_to_overwrite(path)
    draft = draft_table(facts, name, asked.choices(facts, name), dt.date.today())
    text = written(draft)
    save(path, text)
    tell(draft, path, text, options)


def run_init_tree(
    source: str, root: str, asked: Asked, max_rows: int | None, out: Path | None, options: list[str]
) -> None:
    """Several tables of one database."""
    import datetime as dt
    import shlex

    from understudy.pipelines.drafting.catalogue import spec_name
    from understudy.pipelines.drafting.trees import draft_tree, tree_facts
    from understudy.pipelines.drafting.writing import amount_text, written_tree

    facts = tree_facts(source, root, beside=out.parent if out else Path())
    name = spec_name(next(iter(facts.values())), source)
    path = out or Path(f"{name}.yaml")
    refuse_to_overwrite(path)
    choices = asked.budget(name)
    draft = draft_tree(facts, name, choices, dt.date.today(), max_rows)
    save(path, written_tree(draft))
    click.echo(f"Wrote {path} from {draft.facts.origin} and what points to it; no row was read.")
    for table in draft.tables:
        copied = sum(column.modelled for column in table.columns)
        below = (
            f" of {table.parent}, at most {table.max_rows} of one" if table.parent else " (protected, with all below)"
        )
        click.echo(f"  {table.name}{below}: {copied} of {len(table.columns)} columns are copied")
    for left in draft.left_out:
        click.echo(f"  left out: {left}")
    click.echo("Check every line marked `guess`; what is marked `open` is bought once, by the first release.\n\nThen:")
    cap = ["--epsilon", amount_text(CAP_FACTOR * choices.epsilon), "--delta", amount_text(choices.delta)]
    open_ = any(column.standing == "open" for table in draft.tables for column in table.columns)
    aside = ["--own-delta", amount_text(choices.delta / 2)] if open_ else []
    opened = ["ledger", "open", choices.account, *cap, *aside, "--entity", draft.tables[0].name]
    for words in (opened, ["plan", str(path)], ["release", str(path)]):
        click.echo(f"  {shlex.join(['understudy', *options, *words])}")


def refuse_to_overwrite(path: Path) -> None:
    from understudy.pipelines.errors import SpecError

    if path.exists():
        raise SpecError(f"{path} exists, and a draft replaces nothing", "move it away, or name another --out")


def save(path: Path, text: str) -> None:
    """The draft, and beside it the schema that its first line names, for editors."""
    import json

    from understudy.pipelines.drafting.schema import ID, shipped_schema
    from understudy.pipelines.drafting.writing import SCHEMA_FILE
    from understudy.pipelines.errors import SpecError

    schema = path.parent / SCHEMA_FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
        try:
            ours = not schema.exists() or json.loads(schema.read_text(encoding="utf-8")).get("$id") == ID
        except (ValueError, AttributeError):
            ours = False
        if ours:
            schema.write_text(shipped_schema(), encoding="utf-8")
    except FileExistsError:
        problem = f"{path} exists, and a draft replaces nothing"
    except OSError as error:
        problem = f"cannot write {path}: {error.strerror}"
    else:
        return
    raise SpecError(problem, "name another --out")


def tell(draft: Draft, path: Path, text: str, options: list[str]) -> None:
    """What was drafted, what a person has to look at, and the commands that follow."""
    from understudy.pipelines.drafting.writing import FILL_IN

    counts = {kind: len(draft.standing(kind)) for kind in ("declared", "guess", "open", "left out")}
    click.echo(f"Wrote {path} from {draft.facts.origin}; no row was read.")
    click.echo(
        f"{len(draft.columns)} columns: {counts['declared']} declared, {counts['guess']} guessed from their names, "
        f"{counts['open']} open, {counts['left out']} left out."
    )
    if counts["guess"]:
        click.echo("Check every line marked `guess`.")
    if counts["open"]:
        share = _epsilon_of_discovery(draft)
        click.echo(
            f"What the open ones hold is bought by the first release, once: epsilon {share} of its "
            f"{draft.choices.epsilon} by itself (docs/discovery.md). Say it in the draft where you know it."
        )
    if not any(column.modelled for column in draft.columns):
        click.echo("No column can be copied: `plan` refuses the spec until you declare one.")
    if not draft.facts.uri:
        click.echo(f"Nobody said where the rows are: write it as source.uri in place of {FILL_IN}.")
    left = len(draft.facts.columns) - len(draft.columns)
    if left:
        click.echo(f"{left} columns have a name that is empty, unprintable or given twice, and are not in the spec.")
    click.echo("\nThen:")
    for command in following(draft, path, options):
        click.echo(f"  {command}")


def _epsilon_of_discovery(draft: Draft) -> str:
    from understudy.pipelines.privacy.accounting import composed_loss
    from understudy.pipelines.privacy.events import Approximate, Gaussian
    from understudy.pipelines.privacy.relation import Budget, Relation
    from understudy.pipelines.spec.protection import DiscoverySpec, split_budget

    split = split_budget(Budget(draft.choices.epsilon, draft.choices.delta), DiscoverySpec())
    event = Approximate(Gaussian(split.noise_multiplier), split.own_delta)
    return f"{composed_loss([event], float(draft.choices.delta), Relation.ADD_REMOVE).epsilon:.2f}"


def following(draft: Draft, path: Path, options: list[str]) -> list[str]:
    """Ready to paste, in order."""
    import shlex

    from understudy.pipelines.drafting.writing import amount_text

    choices = draft.choices
    unit = ["--entity", choices.entity, "--max-rows", str(choices.max_rows)] if choices.entity else []
    cap = ["--epsilon", amount_text(CAP_FACTOR * choices.epsilon), "--delta", amount_text(choices.delta)]
    aside = ["--own-delta", amount_text(choices.delta / 2)] if draft.standing("open") else []
    commands = [
        ["ledger", "open", choices.account, *cap, *aside, *unit],
        ["plan", str(path)],
        ["release", str(path)],
    ]
    lines = [shlex.join(["understudy", *options, *words]) for words in commands]
    return [draft.facts.environment, *lines] if draft.facts.environment else lines


def _options_given(context: click.Context) -> list[str]:
    """`--home` and `--ledger` as they were typed: the commands that follow need them too."""
    parent = context.parent
    if parent is None:
        return []
    given = []
    for name in ("home", "ledger"):
        if parent.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            given += [f"--{name}", str(parent.params[name])]
    return given

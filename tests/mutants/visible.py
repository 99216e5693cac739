"""What may be seen of a table beside what was bought."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant, bug

NOISE, SPEND = "privacy/noise/rounded.py", "privacy/ledger/spend.py"

VISIBLE = (
    bug(
        "the exact number of rows in the facts",
        "methods/privpgd/listed.py",
        "total = int(widest[0].sum()) if _total_is_public(spec) else None",
        "total = int(widest[0].sum())",
        "methods/privpgd/test_method.py::test_of_entities_and_of_rows_that_come_and_go_no_total_is_told",
    ),
    bug(
        "the exact number of rows of entities",
        "methods/privpgd/listed.py",
        "replaced = spec.privacy.relation is Relation.REPLACE_ONE and spec.privacy.unit.entity is None",
        "replaced = spec.privacy.relation is Relation.REPLACE_ONE",
        "methods/privpgd/test_method.py::test_of_entities_and_of_rows_that_come_and_go_no_total_is_told",
    ),
    bug(
        "the exact number of lines that were records",
        "methods/privpgd/listed.py",
        "return replaced and spec.every_row_counts",
        "return replaced",
        "auditing/test_sources.py::test_no_pair_of_neighbours_is_told_apart_by_where_it_lies[csv-privpgd, replaced]",
    ),
    bug(
        "errors of the Python interface quote values",
        "releasing/measuring.py",
        '@discreet("privatize")\n',
        "",
        "releasing/test_no_value_leaves.py::test_whatever_stage_fails",
    ),
    bug(
        "an error keeps what it came from",
        "releasing/discretion.py",
        "error.__cause__ = error.__context__ = None",
        "pass",
        "releasing/test_discretion.py::test_nothing_is_attached_to_what_leaves",
    ),
    bug(
        "a failed draw quotes its values",
        SPEND,
        'reason = f"{_where(error)} between the charge and the stored measurement"',
        'reason = f"{error} between the charge and the stored measurement"',
        "privacy/ledger/test_spend.py::test_an_error_in_the_draw_burns_the_charge_and_quotes_nothing",
    ),
    bug(
        "a mechanism shows its exact numbers",
        "privacy/mechanism.py",
        'return f"Mechanism({self.kind!r}, {self.event!r})"',
        'return f"Mechanism({self.kind!r}, {self.exact!r})"',
        "methods/test_door.py::test_a_mechanism_does_not_show_its_exact_numbers",
    ),
    bug(
        "a target inside its source",
        "releasing/apart.py",
        "if any(is_in(target, place)",
        "if False and any(is_in(target, place)",
        "releasing/test_apart.py::test_a_target_inside_or_around_its_source_is_refused",
    ),
    bug(
        "the address of the source in the manifest",
        "publishing/manifest.py",
        '_WHERE = {"uri", "table", "id", "external"}',
        '_WHERE = {"id", "external"}',
        "publishing/test_manifest.py::test_nothing_says_where_the_table_lies_or_where_it_is_published",
    ),
    bug(
        "rows put in place of the data",
        "releasing/recertifying.py",
        'Finding("publication", same or not published,',
        'Finding("publication", True,',
        "flows/test_publications.py::test_rows_put_in_place_of_the_data_with_hashes_corrected_are_found",
    ),
    bug(
        "a list of values that is the private table",
        "spec/public_files.py",
        "if any(is_in(path.resolve(), private.resolve()) for private in self.private):",
        "if False:",
        "spec/test_format_keys.py::test_the_private_table_is_no_public_file",
    ),
    bug(
        "a spec chooses who computes",
        "releasing/policy.py",
        "if spec.compute.scheduler not in policy.schedulers:",
        "if False:",
        "releasing/test_policy.py::test_a_spec_cannot_choose_who_computes",
    ),
    bug(
        "a view reads any file of the machine",
        "sources/databases/duckdb_table.py",
        'connection.execute("SET enable_external_access = false")',
        "pass",
        "sources/test_duckdb_views.py::test_a_view_that_reads_files_is_refused_unless_allowed",
    ),
    Mutant(
        "a publication is approved by a parameter",
        "tests/flows/test_approval.py::test_yes_is_said_at_a_terminal",
        (Edit("understudy/cli/releasing.py", "return sys.stdin.isatty()", "return True"),),
    ),
)
"""What may be seen of a table beside what was bought."""

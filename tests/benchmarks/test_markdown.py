"""Tables made of printed figures: who is better, in what order, and what a run without a result looks like."""

import json

from benchmarks.support.markdown import main, read_runs, summary, table


def lines(name, ours, theirs, peer="dpmm-MST"):
    metrics = ("tv", "sw1", "covariance", "counting", "threshold", "downstream", "seconds")
    theirs = theirs or [None] * len(metrics)
    return [
        json.dumps({"figure": f"{name}.{metric}", "value": a, "peer": peer, "peer_value": b})
        for metric, a, b in zip(metrics, ours, theirs, strict=True)
    ]


OURS = [0.01234, 0.0005, 0.1, 0.02, 0.003, 0.15, 4.04]
ADULT = lines("privpgd.adult.2.5", OURS, [0.05, 0.0004, 0.2, 0.02, 0.004, 0.16, 120.6])


def test_a_row_shows_both_sides_and_where_the_peer_is_better():
    (row,) = table(read_runs(ADULT)["dpmm-MST"]).splitlines()[2:]
    assert row == (
        "| Adult | 2.5 | 0.0123 / 0.0500 | 0.000500 / **0.000400** | 0.100 / 0.200 | 0.0200 / 0.0200 "
        "| 0.00300 / 0.00400 | 0.1500 / 0.1600 | 4.0 / 121 |"
    )


def test_sets_and_budgets_come_in_the_order_of_the_page_and_a_set_is_named_once():
    mixed = [*lines("privpgd.acs.1", OURS, OURS), *lines("privpgd.adult.0.2", OURS, OURS), *ADULT]
    rows = table(read_runs(mixed)["dpmm-MST"]).splitlines()[2:]
    assert [row.split(" | ")[:2] for row in rows] == [["| Adult", "2.5"], ["| ", "0.2"], ["| ACS", "1"]]


def test_equal_counts_as_at_least_as_good():
    runs = read_runs([*ADULT, *lines("privpgd.acs.1", OURS, OURS)])["dpmm-MST"]
    assert summary(runs) == "2 runs; at least as good in 6 of 6 in 1, 5 of 6 in 1; 1 to 30 times faster."


def test_a_peer_without_a_result_is_no_win():
    runs = read_runs([*ADULT, *lines("privpgd.acs.1", OURS, None)])["dpmm-MST"]
    assert summary(runs).startswith("1 runs; at least as good in 5 of 6 in 1;")
    assert "| ACS | 1 | 0.0123 | 0.000500 |" in table(runs)


def test_other_lines_and_figures_are_passed_over(tmp_path, capsys):
    printed = tmp_path / "printed.txt"
    other = lines("privpgd.adaptive.adult.1", OURS, None, None) + lines("privpgd.slice", OURS, None, None)
    printed.write_text("\n".join(["a word of warning", *other, *ADULT]))
    main([str(printed)])
    said = capsys.readouterr().out
    assert said.startswith("dpmm-MST\n\n| | epsilon |")
    assert said.count("|---") == 9

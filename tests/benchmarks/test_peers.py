"""Peers in processes of their own: the files between them, what goes wrong, and the benchmark beside one.

A stand-in with the interface of dpmm is used where a peer has to run: the real ones need environments of their own.
"""

import json
import math
import shlex
import sys
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.support import peer_worker
from benchmarks.support.peers import Peer, PeerError, Result, Task

# Draws every column by itself from the rows it was fitted to.
STAND_IN = """
import numpy as np

class MSTGM:
    def __init__(self, epsilon, delta, domain, n_jobs):
        assert (epsilon, delta, n_jobs) == (1.0, 1e-5, 1), (epsilon, delta, n_jobs)
        self.domain = domain

    def fit(self, frame):
        assert (frame.max().to_numpy() < list(self.domain.values())).all(), "outside the domain"
        self.frame = frame

    def generate(self, rows):
        rng = np.random.default_rng(0)
        drawn = {name: rng.choice(self.frame[name], rows) for name in reversed(self.frame.columns)}
        return type(self.frame)(drawn)
"""


def a_task(rows=500):
    codes = np.random.default_rng(0).integers(0, [2, 3, 4], size=(200, 3))
    return Task(codes, (2, 3, 4), 1.0, 1e-5, rows)


@pytest.fixture
def stand_in_python(tmp_path):
    """An interpreter that finds the stand-in as dpmm, though it is told to look at no path but its own (-I)."""
    package = tmp_path / "packages" / "dpmm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text(STAND_IN)
    script = tmp_path / "python"
    folder, python = shlex.quote(str(package.parent)), shlex.quote(sys.executable)
    script.write_text(f'#!/bin/sh\n[ "$1" = -I ] || exit 9\nshift\nPYTHONPATH={folder} exec {python} "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_files_hold_what_was_written(tmp_path):
    task, result = a_task(), Result(np.arange(6).reshape(2, 3), 1.5)
    peer_worker.write_task(tmp_path / "task.npz", task)
    peer_worker.write_result(tmp_path / "result.npz", result)
    read = peer_worker.read_task(tmp_path / "task.npz")
    np.testing.assert_array_equal(read.codes, task.codes)
    assert (read.sizes, read.epsilon, read.delta, read.rows) == ((2, 3, 4), 1.0, 1e-5, 500)
    again = peer_worker.read_result(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.codes, result.codes)
    assert again.seconds == 1.5


def test_a_peer_runs_in_its_own_process_and_gives_codes_in_the_order_of_the_columns(stand_in_python):
    result = Peer("dpmm-MST", stand_in_python, 60).run(a_task())
    assert result is not None
    assert result.codes.shape == (500, 3)
    assert result.codes.max(axis=0).tolist() == [1, 2, 3]
    assert 0 < result.seconds < 60


def test_a_peer_that_fails_has_no_result_and_says_why(stand_in_python, capfd):
    assert Peer("dpmm-MST", stand_in_python, 60).run(Task(a_task().codes, (2, 3, 3), 1.0, 1e-5, 10)) is None
    said = capfd.readouterr().err
    assert said.startswith("dpmm-MST ended with status 1:")
    assert "outside the domain" in said


def test_a_peer_that_takes_too_long_has_no_result(capfd):
    assert Peer("dpmm-MST", sys.executable, 0.001).run(a_task()) is None
    assert capfd.readouterr().err == "dpmm-MST did not end within 0.001 seconds\n"


def test_a_peer_that_is_not_installed_names_what_to_install():
    # dpmm needs another numpy than ours, so it is never here.
    with pytest.raises(PeerError, match="No module named 'dpmm'") as refused:
        Peer("dpmm-AIM", sys.executable, 60).check_installed()
    named = next(word for word in str(refused.value).split() if word.endswith(".txt"))
    with open(named) as requirements:
        assert "dpmm==" in requirements.read()


def test_an_interpreter_that_is_not_there_is_named(tmp_path):
    with pytest.raises(PeerError, match="nowhere cannot be started: No such file"):
        Peer("opendp-MST", str(tmp_path / "nowhere"), 60).check_installed()


@pytest.mark.parametrize(("epsilon", "rho"), [(1.0, 0.0305565951976), (0.2, 0.00155883657920), (2.5, 0.161846803015)])
def test_rho_is_that_of_the_conversion_by_its_authors(epsilon, rho):
    """Golden values of cdp_rho in IBM/discrete-gaussian-differential-privacy, delta 1e-5."""
    found = peer_worker.zcdp_within(epsilon, 1e-5)
    assert found == pytest.approx(rho, rel=1e-4)
    assert found <= rho * (1 + 1e-9)


@pytest.mark.parametrize("choices", [13, 18, 22])
def test_the_budget_of_opendp_is_one_whose_parts_add_up_to_it(choices):
    rho = peer_worker.zcdp_within(1.0, 1e-5)
    found = peer_worker.rho_that_splits(rho, choices)
    assert rho * (1 - 1e-6) < found <= rho
    pairs = math.nextafter(math.nextafter(found / 2, 0), 0)
    choosing = math.nextafter(math.nextafter(pairs - 0.9 * pairs, 0), 0)
    total = Fraction(0)
    for _ in range(choices):
        total = next_above(total + Fraction(math.nextafter(choosing / choices, 0)))
    assert total <= Fraction(choosing)


def test_a_budget_that_opendp_refuses_is_made_smaller():
    """Seen: OpenDP 0.16 refuses this one with 23 columns."""
    refused = peer_worker.zcdp_within(0.2, 1e-5)
    assert peer_worker.rho_that_splits(refused, 22) < refused


def next_above(number):
    rounded = float(number)
    return Fraction(rounded if Fraction(rounded) >= number else math.nextafter(rounded, math.inf))


@pytest.fixture
def data(tmp_path):
    """A directory with one small table, under the name of a set that the benchmark knows."""
    folder = tmp_path / "data" / "classics"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 1000)
    rows = np.stack([first, rng.integers(0, 3, 1000), first ^ (rng.random(1000) < 0.1)], axis=1)
    np.savetxt(folder / "nltcs.csv", rows, "%d", ",", header="a,b,c", comments="")
    (folder / "nltcs.json").write_text(json.dumps({n: {"domain": s} for n, s in zip("abc", (2, 3, 2), strict=True)}))
    return str(folder.parent)


def test_one_run_a_side_gives_every_metric_of_both(data, stand_in_python, capsys):
    options = ["--only", "privpgd.nltcs.1.", "--peer", "dpmm-MST", "--peer-python", stand_in_python]
    assert main(["privpgd", "--data", data, *options]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    both = {line["figure"].rpartition(".")[2]: line for line in lines if line["peer"] == "dpmm-MST"}
    assert set(both) == {"tv", "sw1", "covariance", "counting", "threshold", "downstream", "seconds"}
    # Columns drawn one by one lose the relation of the label to the first column; nine in ten rows have it.
    assert both["tv"]["value"] < 0.1 < both["tv"]["peer_value"]
    assert both["downstream"]["value"] < 0.2 < both["downstream"]["peer_value"]


def test_noisy_pairs_targets_and_triples_are_scored_beside_the_table(data, capsys):
    assert main(["privpgd", "--data", data, "--only", "privpgd.nltcs.2.5.", "--epochs", "2", "--redraws", "1"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["figure"].rpartition(".")[2]: line["value"] for line in lines}
    assert all(0.0 < found[metric] < 0.1 for metric in ("projected_tv", "targets_tv", "tv", "three_way_tv"))


def test_adaptive_rounds_give_every_metric(data, capsys):
    assert main(["privpgd", "--data", data, "--only", "privpgd.adaptive.nltcs.1."]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {line["figure"].rpartition(".")[2]: line["value"] for line in lines}
    assert set(found) == {"tv", "sw1", "covariance", "counting", "threshold", "downstream", "seconds"}
    assert found["tv"] < 0.1


def test_a_benchmark_without_its_peer_ends_before_it_starts(data, capsys):
    with pytest.raises(SystemExit, match=r"requirements-dpmm\.txt"):
        main(["privpgd", "--data", data, "--only", "privpgd.nltcs.1.", "--peer", "dpmm-MST"])
    assert capsys.readouterr().out == ""

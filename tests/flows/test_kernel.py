"""Pictures through the whole flow: real digits, a real ledger, and a run killed in the middle of its training."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from click.testing import Result
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from tests.flows.processes import run_command
from understudy.pipelines.privacy.ledger.ledger import Charge, Ledger
from understudy.pipelines.privacy.relation import Relation

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
SPEC = """
name: digits
source: {uri: digits.npz, snapshot: "2026-11"}
privacy: {account: pictures, epsilon: 4, delta: 1e-5}
columns:
  image: {type: tensor, shape: [8, 8], min: 0, max: 16}
  digit: {type: category, values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}
method: {name: kernel, label: digit, rows: 1400, frequencies: 500}
generate: {training_steps: 250, class_mix: equal, device: cpu}
publish: {to: releases, rows: 1000}
"""


class Studio:
    def __init__(self, folder: Path, home: Path) -> None:
        self.folder, self.home = folder, home
        digits = load_digits()
        self.test = np.arange(len(digits.target)) % 5 == 0
        self.images, self.labels = digits.data.astype(np.uint8), digits.target
        np.savez(
            folder / "digits.npz",
            image=self.images[~self.test].reshape(-1, 8, 8),
            digit=self.labels[~self.test],
        )
        self.account = "pictures"
        self.spec = folder / "digits.yaml"
        self.spec.write_text(SPEC)

    @property
    def charges(self) -> list[Charge]:
        return Ledger(f"sqlite:///{self.home / 'ledger.db'}").charges(self.account)

    @property
    def latest(self) -> Path:
        return self.folder / "releases" / "digits" / "latest"


@pytest.fixture
def studio(tmp_path: Path, home: Path, run: Run) -> Studio:
    torch.set_num_threads(1)
    made = Studio(tmp_path, home)
    opened = run("ledger", "open", "pictures", "--epsilon", 10, "--delta", "1e-5")
    assert opened.exit_code == 0, opened.output
    return made


def test_digits_are_planned_released_and_useful(studio: Studio, run: Run) -> None:
    plan = run("plan", studio.spec)
    assert plan.exit_code == 0, plan.output
    assert "schedules" in plan.output
    assert "embed every class with 500 random frequencies" in plan.output
    assert studio.charges == []
    done = run("release", studio.spec)
    assert done.exit_code == 0, done.output
    [charge] = studio.charges
    assert charge.stage == "embedding"
    table = pq.read_table(studio.latest / "data")
    images = np.stack(table["image"].to_numpy(zero_copy_only=False))
    labels = table["digit"].to_numpy()
    assert np.bincount(labels).tolist() == [100] * 10
    neighbours = KNeighborsClassifier(5).fit(images, labels)
    accuracy = neighbours.score(studio.images[studio.test], studio.labels[studio.test])
    assert accuracy > 0.6, accuracy  # far above the 0.1 of chance; 0.8 to 0.9 when trained to the end
    assert "data:image/png" in (studio.latest / "card.html").read_text()
    again = run("release", studio.spec)
    assert "spent      nothing" in again.output


def test_killed_in_the_middle_of_training(studio: Studio, run: Run) -> None:
    code = run_command(studio.folder, studio.home, "release", studio.spec, fault="training_checkpointed")
    assert code == -signal.SIGKILL
    [charged] = studio.charges
    [half] = (studio.home / "generators").iterdir()
    assert 0 < torch.load(half, weights_only=True)["done"] <= 125
    done = run("release", studio.spec)
    assert done.exit_code == 0, done.output
    assert "spent      nothing" in done.output
    assert studio.charges == [charged]  # the very event of an uninterrupted run, once
    assert torch.load(half, weights_only=True)["done"] == 250
    manifest = json.loads((studio.latest / "manifest.json").read_text())
    assert manifest["rows"] == 1000


def test_steps_are_bought_in_chunks_and_kept_when_killed(studio: Studio, run: Run) -> None:
    text = SPEC.replace("frequencies: 500}", "frequencies: 100, release: steps, rate: 0.05, steps: 120}")
    studio.spec.write_text(text)
    refused = run("plan", studio.spec)
    assert refused.exit_code == 2
    assert "--filter renyi --order" in refused.output  # and which order is best for this release
    opened = run("ledger", "open", "sampled", "--epsilon", 10, "--delta", "1e-5", "--filter", "renyi")
    assert opened.exit_code == 0, opened.output
    text, studio.account = text.replace("account: pictures", "account: sampled"), "sampled"
    studio.spec.write_text(text.replace("training_steps: 250", "training_steps: 20"))
    many = studio.folder / "many.yaml"
    many.write_text(text.replace("steps: 120", "steps: 500"))
    assert "... and 2 more charges, up to steps-00009" in run("plan", many).output
    assert run_command(studio.folder, studio.home, "release", studio.spec, fault="after_t2") == -signal.SIGKILL
    first = studio.charges
    assert [charge.stage for charge in first] == ["steps-00000"]
    done = run("release", studio.spec)
    assert done.exit_code == 0, done.output
    charges = studio.charges
    assert charges[0] == first[0]  # not drawn anew
    assert [charge.event.count for charge in charges] == [50, 50, 20]  # type: ignore[union-attr]
    manifest = json.loads((studio.latest / "manifest.json").read_text())
    assert 3.8 < manifest["guarantee"]["epsilon"] <= 4.0
    assert manifest["account"]["spent_epsilon"] > manifest["guarantee"]["epsilon"]  # two numbers, two names
    assert manifest["account"]["filter"].startswith("renyi at order ")
    assert Relation.ADD_REMOVE.value in (studio.latest / "manifest.json").read_text()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("shape: [8, 8]", "shape: [28, 28]", "image"),
        ("label: digit", "label: letter", "no modelled column"),
        ("digits.npz", "nowhere.npz", "nowhere.npz"),
    ],
)
def test_what_is_wrong_with_the_spec_is_said_before_anything_is_charged(
    studio: Studio, run: Run, old: str, new: str, message: str
) -> None:
    studio.spec.write_text(SPEC.replace(old, new))
    failed = run("release", studio.spec)
    assert failed.exit_code != 0
    assert message in failed.output
    assert studio.charges == []

"""The whitened distance: a function of what was released alone, worth what it says, and resumable."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.methods.kernel.test_training import DESIGN, PLAN, SEEN, SHAPE, cosine, embedding, private_rows
from understudy.pipelines.methods.kernel import training as training_module
from understudy.pipelines.methods.kernel import whitening as whitening_module
from understudy.pipelines.methods.kernel.features import LEVELS
from understudy.pipelines.methods.kernel.generated import BlockFeatures
from understudy.pipelines.methods.kernel.generators import Generator
from understudy.pipelines.methods.kernel.judging import ROUNDS, judged
from understudy.pipelines.methods.kernel.training import Trainer, save, train
from understudy.pipelines.methods.kernel.whitening import Whitening

WHITENED = replace(PLAN, metric="whitened", blocks_a_step=1, steps=20)
LIVE = torch.arange(2)


def trained_until_whitened(released, seed=1):
    """The gradient of the first whitened step; until then the targets are the same for all, so the generator is too."""
    trainer = Trainer(replace(released, released=nothing(released).released), SHAPE, WHITENED, seed)
    for _ in range(3):
        trainer.step()
    trainer.embedding = released
    trainer.step()
    assert trainer._whitening.means
    return torch.cat([p.grad.flatten() for p in trainer.generator.parameters()])


def nothing(released):
    return replace(released, released=released.released * np.append(np.zeros(400, int), 1))


@pytest.mark.parametrize("seen", SEEN)
def test_under_enormous_noise_the_whitened_update_has_nothing_to_do_with_the_private_rows(seeded, seen):
    quiet = embedding(1e-3, seeded(0), SEEN[seen])
    baseline = trained_until_whitened(nothing(quiet))
    private = trained_until_whitened(quiet) - baseline
    cosines = []
    for seed in range(8):
        loud = replace(embedding(1e6, seeded(seed), SEEN[seen]), design=quiet.design)
        cosines.append(cosine(trained_until_whitened(loud) - baseline, private))
    assert cosine(trained_until_whitened(embedding(1e-3, seeded(9), SEEN[seen])) - baseline, private) > 0.99
    assert abs(float(np.mean(cosines))) < 0.25
    assert max(map(abs, cosines)) < 0.6


def looked_at(released, seed=0):
    torch.manual_seed(seed)
    generator = Generator("mlp", SHAPE, 2, 10, one_a_class=False).eval()
    features = [BlockFeatures(DESIGN.features, block) for block in range(2)]
    whitening = Whitening(released, LIVE)
    whitening.look(generator, features.__getitem__, 2, 5)
    return whitening, generator, features


def test_the_weights_are_the_inverse_covariance_of_what_is_generated(seeded):
    whitening, generator, features = looked_at(embedding(1.0, seeded(0)))
    labels = LIVE.repeat(4000)
    with torch.no_grad():
        found = features[0](generator(labels)).numpy().astype(np.float64)
    spread = found - np.stack([found[k::2].mean(axis=0) for k in range(2)])[labels.numpy()]
    covariance = spread.T @ spread / len(spread) + whitening.ridge * np.eye(200)
    step = np.random.default_rng(0).normal(size=200)
    wanted = whitening.means[0] + torch.from_numpy(step).float()
    distance = whitening.distance(0, whitening.means[0].clone(), wanted)
    assert distance[0].item() == pytest.approx(step @ np.linalg.solve(covariance, step), rel=0.1)


def test_more_noise_leaves_fewer_directions(seeded):
    quiet, loud = (looked_at(embedding(noise, seeded(0)))[0] for noise in (1e-3, 30.0))
    assert loud.ridge > 100 * quiet.ridge
    step = torch.ones(200)
    far = [w.distance(0, w.means[0].clone(), w.means[0] + step)[0].item() for w in (quiet, loud)]
    assert far[0] > far[1] > 0


def test_gradients_flow_through_the_batch_alone(seeded):
    whitening, _, _ = looked_at(embedding(1.0, seeded(0)))
    before = whitening.means[0].clone()
    found = torch.zeros(2, 200, requires_grad=True)
    whitening.distance(0, found, before + 1).sum().backward()
    assert found.grad is not None
    assert not whitening.means[0].requires_grad
    torch.testing.assert_close(whitening.means[0], whitening_module.KEPT * before)


@pytest.mark.parametrize("stop", [2, 4, 11])
def test_a_stopped_whitened_training_ends_as_an_uninterrupted_one(seeded, tmp_path, stop):
    released = embedding(1.0, seeded(4))
    whole = train(released, SHAPE, WHITENED, 3, lambda *_: None)
    stopped = Trainer(released, SHAPE, WHITENED, 3)
    for _ in range(stop):
        stopped.step()
    save(stopped.state(), tmp_path / "half.pt")
    torch.manual_seed(99)
    steps = []
    resumed = train(released, SHAPE, WHITENED, 3, lambda done, *_: steps.append(done), tmp_path / "half.pt")
    assert steps[0] == stop + 1
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_finished_whitened_training_is_not_repeated(seeded, tmp_path):
    released, steps = embedding(1.0, seeded(4)), []
    made = [
        train(released, SHAPE, WHITENED, 3, lambda done, *_: steps.append(done), tmp_path / "done.pt") for _ in range(2)
    ]
    assert steps == list(range(1, 21))
    for a, b in zip(*(each.state_dict().values() for each in made), strict=True):
        torch.testing.assert_close(a, b)


def test_training_lowers_the_whitened_distance(seeded, monkeypatch):
    """In one and the same metric, that of the first look."""
    monkeypatch.setattr(training_module, "LOOKS", (0.0,))
    trainer = Trainer(embedding(1.0, seeded(2)), SHAPE, replace(WHITENED, steps=400, batch=200), 0)
    distances = [trainer.step() for _ in range(400)]
    assert np.mean(distances[-100:]) < 0.5 * np.mean(distances[:5])


def test_what_is_too_large_to_whiten_is_trained_on_by_plain_distance(seeded, monkeypatch):
    monkeypatch.setattr(whitening_module, "WHITENED_NUMBERS", 1000)
    trainer = Trainer(embedding(1.0, seeded(4)), SHAPE, WHITENED, 3)
    for _ in range(20):
        trainer.step()
    assert trainer._whitening is None
    assert trainer.finished is trainer.generator


def test_nothing_but_noise_still_trains(seeded):
    released = embedding(1e4, seeded(1))
    generator = train(replace(released, released=released.released), SHAPE, WHITENED, 0, lambda *_: None)
    assert torch.isfinite(generator.sample(torch.zeros(5, dtype=torch.int64))).all()


def test_the_judge_tells_classes_apart_by_what_was_released(seeded):
    released = embedding(1.0, seeded(2))
    torch.manual_seed(0)
    judge = judged(released, Generator("mlp", SHAPE, 2, 10, one_a_class=False).eval(), "cpu", 0)
    rows, labels = private_rows()
    found = judge.class_of(torch.from_numpy(rows / LEVELS).float()).numpy()
    assert (found == labels).mean() > 0.95


class Careless(torch.nn.Module):
    """Makes records of either class, whatever it is asked for."""

    def sample(self, labels, batch=1000, source=None):
        made = torch.randint(0, 2, (len(labels), 1), generator=source)
        return torch.rand(len(labels), 16, generator=source) * 0.2 + 0.6 * made


def test_a_judged_generator_draws_again_what_looks_like_another_class(seeded):
    released = embedding(1.0, seeded(2))
    judge = judged(released, train(released, SHAPE, PLAN, 0, lambda *_: None), "cpu", 0)
    judge.generator = Careless()
    labels = LIVE.repeat(500)
    twice = [judge.sample(labels, source=torch.Generator().manual_seed(4)) for _ in range(2)]
    torch.testing.assert_close(*twice)
    right = ((twice[0].mean(dim=1) > 0.4) == labels.bool()).float().mean().item()
    assert right == pytest.approx(1 - 0.5 ** (1 + ROUNDS), abs=0.03)

"""Training sees released numbers alone: its gradients carry the noise, and it goes on from where it was stopped."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.features import LEVELS, FeatureBlocks
from understudy.pipelines.methods.kernel.generators import Generator, Shape
from understudy.pipelines.methods.kernel.mechanism import EMBEDDING, EmbeddingDesign, OnceNoise, exact_embedding
from understudy.pipelines.methods.kernel.training import Trainer, TrainingPlan, save, train
from understudy.pipelines.privacy.relation import Relation

FEATURES = FeatureBlocks("training", 16, 100, (0.5, 1.0))
DESIGN = EmbeddingDesign("once", FEATURES, 2, 2, 1.0, 1e-3, Relation.ADD_REMOVE)
SEEN = {
    "pixels": FEATURES,
    "windows": replace(FEATURES, picture=(4, 4, 1), windows=(1.0,)),
    "edges": replace(FEATURES, picture=(4, 4, 1), windows=(1.0,), edges=(0.4, 0.9)),
}
"""Every way in which a record is looked at."""
PLAN = TrainingPlan("mlp", steps=30, batch=40)
SHAPE = Shape(16)


def private_rows():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    values = rng.random((500, 16)) * 0.2 + 0.6 * labels[:, None]
    return np.rint(values * LEVELS).astype(np.uint16), labels


def embedding(noise_multiplier, words, features=FEATURES):
    design = replace(DESIGN, features=features, noise_multiplier=noise_multiplier)
    exact = exact_embedding([private_rows()], design)
    released = OnceNoise(design).draw(exact, words)[EMBEDDING]
    released[:, -1] = exact[:, -1]  # the same divisor for all, so that directions can be compared
    return ReleasedEmbedding(design, released)


def gradient(released):
    """The first update's gradient; the seed fixes initial weights, latent noise and blocks."""
    trainer = Trainer(released, SHAPE, PLAN, seed=1)
    trainer.step()
    return torch.cat([p.grad.flatten() for p in trainer.generator.parameters()])


def cosine(a, b):
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


@pytest.mark.parametrize("seen", SEEN)
def test_under_enormous_noise_the_update_has_nothing_to_do_with_the_private_rows(seeded, seen):
    quiet = embedding(1e-3, seeded(0), SEEN[seen])
    nothing = gradient(replace(quiet, released=quiet.released * np.append(np.zeros(400, int), 1)))
    private = gradient(quiet) - nothing  # the part of the gradient that depends on the rows
    cosines = []
    for seed in range(8):
        loud = replace(embedding(1e6, seeded(seed), SEEN[seen]), design=quiet.design)
        cosines.append(cosine(gradient(loud) - nothing, private))
    assert cosine(gradient(embedding(1e-3, seeded(9), SEEN[seen])) - nothing, private) > 0.99
    assert abs(float(np.mean(cosines))) < 0.25
    assert max(map(abs, cosines)) < 0.6


def test_that_check_catches_the_papers_scheme():
    """Noise added to the *values* of the witness, drawn without gradient: the direction stays the private one."""
    torch.manual_seed(0)
    rows, labels = private_rows()
    real, kinds = torch.from_numpy(rows[:60] / LEVELS).float(), torch.from_numpy(labels[:60])
    generator = Generator("mlp", SHAPE, 2, 10, one_a_class=False)

    def papers_gradient(scale):
        torch.manual_seed(1)
        made = generator(kinds)
        gram = torch.exp(-torch.cdist(made, real).square() / 2)
        values = -gram.mean(dim=1)
        noisy = values + scale * torch.randn(len(values))
        generator.zero_grad()
        noisy.mean().backward()
        return torch.cat([p.grad.flatten() for p in generator.parameters()])

    assert cosine(papers_gradient(0.0), papers_gradient(1e6)) > 0.9999


def test_the_loss_falls_and_is_the_distance_to_what_was_released(seeded):
    trainer = Trainer(embedding(1.0, seeded(2)), SHAPE, replace(PLAN, steps=150), seed=0)
    losses = [trainer.step() for _ in range(150)]
    assert np.mean(losses[-20:]) < 0.3 * np.mean(losses[:5])
    assert np.mean(losses[-20:]) > 0  # an unbiased estimate of a squared distance


def test_generated_classes_look_like_theirs(seeded):
    generator = train(embedding(1.0, seeded(2)), SHAPE, replace(PLAN, steps=200), 0, lambda *_: None)
    made = generator.sample(torch.tensor([0, 1]).repeat(200)).numpy()
    means = [made[k::2].mean() for k in range(2)]
    assert means[0] == pytest.approx(0.1, abs=0.12)
    assert means[1] == pytest.approx(0.7, abs=0.12)


@pytest.mark.parametrize("one_a_class", [False, True])
def test_a_stopped_training_ends_as_an_uninterrupted_one(seeded, tmp_path, one_a_class):
    released, plan = embedding(1.0, seeded(4)), replace(PLAN, one_a_class=one_a_class)
    whole = train(released, SHAPE, plan, 3, lambda *_: None)
    stopped = Trainer(released, SHAPE, plan, 3)
    for _ in range(11):
        stopped.step()
    save(stopped.state(), tmp_path / "half.pt")
    torch.manual_seed(99)
    steps = []
    resumed = train(released, SHAPE, plan, 3, lambda done, *_: steps.append(done), tmp_path / "half.pt")
    assert steps[0] == 12
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_a_damaged_checkpoint_costs_time_only(seeded, tmp_path):
    (tmp_path / "half.pt").write_bytes(b"not a checkpoint")
    steps = []
    train(embedding(1.0, seeded(4)), SHAPE, PLAN, 3, lambda done, *_: steps.append(done), tmp_path / "half.pt")
    assert steps == list(range(1, 31))


def test_a_finished_training_is_not_repeated(seeded, tmp_path):
    released, steps = embedding(1.0, seeded(4)), []
    for _ in range(2):
        train(released, SHAPE, PLAN, 3, lambda done, *_: steps.append(done), tmp_path / "done.pt")
    assert steps == list(range(1, 31))
    assert [path.name for path in tmp_path.iterdir()] == ["done.pt"]


@pytest.mark.parametrize("network", ["conv", "wide", "dcgan"])
@pytest.mark.parametrize("picture", [(28, 28, 1), (32, 32, 1), (32, 32, 3), (28, 28, 3)])
def test_pictures_of_every_size_are_made(network, picture):
    generator = Generator(network, Shape(math.prod(picture), picture), 3, 10, one_a_class=False)
    made = generator.sample(torch.tensor([0, 1, 2, 0]))
    assert made.shape == (4, math.prod(picture))
    assert 0 <= float(made.min()) <= float(made.max()) <= 1


def test_other_pictures_are_refused_by_convolutions():
    with pytest.raises(ValueError, match="28 or 32"):
        Generator("conv", Shape(100, (10, 10, 1)), 3, 10, one_a_class=False)


def test_one_generator_a_class_keeps_the_order_of_the_labels():
    generator = Generator("mlp", SHAPE, 3, 10, one_a_class=True)
    with torch.no_grad():
        for k, network in enumerate(generator.networks):
            for parameter in network.parameters():
                parameter.zero_()
            list(network.children())[-2].bias.fill_(float(k))
    made = generator.sample(torch.tensor([2, 0, 1, 2, 0]))
    np.testing.assert_allclose(made[:, 0], 1 / (1 + np.exp(-np.array([2.0, 0, 1, 2, 0]))), rtol=1e-5)


def test_an_empty_class_is_not_trained_on(seeded):
    design = replace(DESIGN, noise_multiplier=1.0, classes=3)
    released = OnceNoise(design).draw(exact_embedding([private_rows()], design), seeded(1))[EMBEDDING]
    trainer = Trainer(ReleasedEmbedding(design, released), SHAPE, PLAN, 0)
    assert trainer._live.tolist() == [0, 1]
    assert math.isfinite(trainer.step())


def test_nothing_but_noise_still_trains(seeded):
    design = replace(DESIGN, noise_multiplier=1e4)
    empty = np.zeros((2, design.numbers), dtype=np.int64)
    released = OnceNoise(design).draw(empty, seeded(1))[EMBEDDING]
    generator = train(ReleasedEmbedding(design, released), SHAPE, PLAN, 0, lambda *_: None)
    made = generator.sample(torch.zeros(5, dtype=torch.int64))
    assert torch.isfinite(made).all()

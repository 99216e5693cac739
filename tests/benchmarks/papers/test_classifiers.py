"""The paper's CNN is the one of its Table 1, and both classifiers learn what can be learnt."""

import numpy as np

from benchmarks.papers.classifiers import (
    Training,
    cnn_accuracy,
    paper_cnn,
    tabular_accuracy,
    train_cnn,
)
from understudy.pipelines.methods.mixing.trial import discriminant_accuracy


def test_layers_of_table_1():
    model = paper_cnn(28, 28, 10)
    parameters = sum(p.numel() for p in model.parameters())
    convolutions = (5 * 5 * 32 + 32) + (3 * 3 * 32 * 64 + 64) + 2 * 32 + 2 * 64
    linear = (3136 * 100 + 100) + (100 * 100 + 100) + (100 * 10 + 10)
    assert parameters == convolutions + linear


def test_the_cnn_learns_two_easy_classes():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    images = rng.normal(0, 0.1, (400, 8, 8)).astype(np.float32)
    images[labels == 1, :4] += 1.0
    model = train_cnn(images[:300], labels[:300], 2, 0, Training(epochs=3, batch=32, threads=1))
    assert cnn_accuracy(model, images[300:], labels[300:]) > 0.9


def test_the_tabular_classifier_learns_and_takes_a_single_class():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(600, 3))
    labels = (features[:, 0] + features[:, 1] > 0).astype(int)
    assert tabular_accuracy(features[:400], labels[:400], features[400:], labels[400:], 0) > 0.85
    assert tabular_accuracy(features[:5], np.zeros(5, int), features, labels, 0) == (labels == 0).mean()


def test_the_discriminant_tells_classes_of_one_mean_and_different_spread():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 3000)
    features = rng.normal(size=(3000, 4)) * np.where(labels == 1, 3.0, 1.0)[:, None]
    accuracy = discriminant_accuracy(features[:2000], labels[:2000], features[2000:], labels[2000:], ridge=0.01)
    assert accuracy > 0.85

"""Mixing: accuracy of the paper's CNN trained on released records, and the speed of releasing them.

`mixing.{mnist,fashion}.{eps}.accuracy` at delta 1e-5 under ADD_REMOVE, everything charged (class statistics
and mixtures), order chosen by predicted signal-to-noise; `.l{order}.accuracy` for single orders (--orders);
`.inf.l{order}.accuracy` without noise, as in the paper's Table 2; `.local_perturbation` and
`.random_projection` for its baselines, soundly accounted too. Peers are the paper's own figures: Table 2, best
l. `mixing.records_per_second` and `mixing.release.*` are for 60,000 mixtures of 784 features at l = 4;
`mixing.long.*` is what releases of up to two million records need.

Nothing is tuned on the set that is tested: orders come from the planner, norm bounds are the median norms of the
*other* set, which stands in as public data. --test discriminant scores with one Gaussian a class instead of the
CNN (`.discriminant_accuracy`): seconds instead of minutes, for comparing orders.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import understudy
from benchmarks.papers.classifiers import Training, cnn_accuracy, train_cnn
from benchmarks.papers.mixing_figure import plot_epsilon_against_noise
from benchmarks.support.figures import Cost, Figures, measured
from benchmarks.support.pictures import FOLDERS, Pictures, held_out, load_pictures
from understudy.pipelines.methods.mixing.design import MixingDesign, decide
from understudy.pipelines.methods.mixing.mechanism import ClassRecords, MixtureDesign, SliceNoise, release_mixtures
from understudy.pipelines.methods.mixing.options import MixingOptions
from understudy.pipelines.methods.mixing.release import (
    Frame,
    bought_frame,
    class_rows,
    class_statistics,
    mixture_records,
    records_per_class,
    to_records,
)
from understudy.pipelines.methods.mixing.restore import SumReader
from understudy.pipelines.methods.mixing.trial import discriminant_accuracy
from understudy.pipelines.privacy.accounting import calibrate_gaussian
from understudy.pipelines.privacy.noise.rounded import discrete_gaussian, operating_system_randomness, rounded_gaussian
from understudy.pipelines.privacy.relation import Budget

DELTA = Decimal("1e-5")
SIDE, CLASSES = 28, 10
EPSILONS = ("10", "20", "1", "3")
GREY = 0.2  # a public constant near the middle of any picture, subtracted before class means are bought
# Norm bounds of a picture and of its residual: medians in the other set, so that none is looked up in its own.
CLIPS = {"mnist": (9.7, 6.0), "fashion": (8.7, 6.4)}
PAPER = {
    ("mnist", "10"): 0.7808,
    ("mnist", "20"): 0.7807,
    ("fashion", "10"): 0.6748,
    ("fashion", "20"): 0.6791,
}
PAPER_WITHOUT_NOISE = {
    "mnist": {1: 0.9885, 4: 0.9462, 32: 0.8237},
    "fashion": {1: 0.9064, 4: 0.8454, 32: 0.6970},
}
HELD_OUT = 2000
LONG_RECORDS, LONG_WIDTH = (250_000, 1_000_000, 2_000_000), 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1, help="releases and trainings averaged in a figure")
    parser.add_argument("--epochs", type=int, default=5, help="passes over the released records")
    parser.add_argument("--batch", type=int, default=128, help="records in one step of training")
    parser.add_argument("--records", type=int, default=60_000, help="records released")
    parser.add_argument("--baseline-records", type=int, default=60_000, help="pictures the baselines are trained on")
    parser.add_argument("--test", choices=("cnn", "discriminant"), default="cnn", help="what is trained and scored")
    parser.add_argument("--orders", type=int, nargs="*", default=[], help="also these orders, one figure each")
    parser.add_argument("--smoothing", type=float, default=0.0, help="of labels, while the CNN is trained")
    parser.add_argument("--held-out", action="store_true", help="score on 10,000 training pictures that are left out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plot", type=Path, help="write the paper's Figure 3 here and stop")


def run(args: argparse.Namespace) -> None:
    if args.plot is not None:
        plot_epsilon_against_noise(args.plot)
        return
    figures = Figures(args.only)
    if figures.wants("mixing.records_per_second") or figures.wants("mixing.release."):
        _speed(figures)
    if figures.wants("mixing.long."):
        _long(figures)
    for name, folder in FOLDERS.items():
        if not figures.wants(f"mixing.{name}.") or not (args.data / folder).is_dir():
            continue
        pictures = _load(args.data / folder)
        if args.held_out:
            pictures = held_out(pictures)
        for epsilon in EPSILONS:
            _private(figures, name, pictures, epsilon, args)
        if args.test == "cnn":
            _without_noise(figures, name, pictures, args)


def _private(figures: Figures, name: str, pictures: Pictures, epsilon: str, args: argparse.Namespace) -> None:
    for order in ("auto", *args.orders):
        figure = f"mixing.{name}.{epsilon}" + ("" if order == "auto" else f".l{order}")
        accuracy = f"{figure}.accuracy" if args.test == "cnn" else f"{figure}.discriminant_accuracy"
        if not figures.wants(accuracy):
            continue
        options = _options(name, len(pictures.labels), order, args.records)
        design = decide(options, CLASSES, SIDE * SIDE, Budget(Decimal(epsilon), DELTA)).design
        scores, seconds = [], []
        for seed in range(args.runs):
            with measured() as cost:
                images, labels = released_pictures(pictures, options, design)
            seconds.append(cost.seconds)
            scores.append(_score(images, labels, pictures, seed, args))
        figures.show(accuracy, float(np.mean(scores)), "DP-CDA", PAPER.get((name, epsilon)))
        figures.show(f"{accuracy}_std", float(np.std(scores)))
        figures.show(f"{figure}.order", design.mixtures.order)
        figures.show(f"{figure}.seconds", float(np.mean(seconds)))
    for baseline in (_local_perturbation, _random_projection):
        tested = "" if args.test == "cnn" else ".discriminant_accuracy"
        figure = f"mixing.{name}.{epsilon}.{baseline.__name__.strip('_')}{tested}"
        if figures.wants(figure):
            images = baseline(pictures.images[: args.baseline_records], CLIPS[name][0], epsilon)
            figures.show(figure, _score(images, pictures.labels[: args.baseline_records], pictures, 0, args))


def _options(name: str, rows: int, order: int | str, records: int) -> MixingOptions:
    clip_picture, clip_residual = CLIPS[name]
    return MixingOptions.model_validate(
        {
            "label": "label",
            "rows": rows,
            "records": records,
            "order": order,
            "clip": clip_residual,
            "statistics_clip": clip_picture,
        }
    )


def released_pictures(
    pictures: Pictures, options: MixingOptions, design: MixingDesign
) -> tuple[np.ndarray, np.ndarray]:
    """One release of a labelled set of pictures, as the method makes it, and the records restored from it."""
    randomness = operating_system_randomness()
    constants = Frame(np.full((CLASSES, SIDE * SIDE), GREY), np.ones(SIDE * SIDE), np.ones(CLASSES))
    assert design.statistics is not None
    exact = class_statistics(pictures.images, pictures.labels, CLASSES, design.statistics, constants)
    noisy = design.statistics.draw(exact, randomness)["statistics"]
    frame = bought_frame(constants, noisy, design, options)
    mixed = mixture_records(pictures.images, pictures.labels, design, frame)
    rows = class_rows(pictures.labels, CLASSES)
    counts = records_per_class(options, design, [], frame.sizes)
    arrays = {}
    for number, (start, stop) in enumerate(design.slices):
        wanted = [min(max(count - start, 0), stop - start) for count in counts]
        noise = SliceNoise(design.mixtures, stop - start)
        arrays[f"sums_{number:05d}"] = noise.draw(ClassRecords(mixed, rows, wanted), randomness)["sums"]
    reader = SumReader(design, frame, counts, arrays, "spectral", (SIDE, SIDE), (0.0, 1.0))
    blocks = [(np.clip(units, 0.0, 1.0).astype(np.float32), labels) for units, labels in reader.blocks()]
    return np.concatenate([units for units, _ in blocks]), np.concatenate([labels for _, labels in blocks])


def _score(images: np.ndarray, labels: np.ndarray, pictures: Pictures, seed: int, args: argparse.Namespace) -> float:
    if args.test == "discriminant":
        return discriminant_accuracy(images, labels, pictures.test_images, pictures.test_labels)
    training = Training(epochs=args.epochs, batch=args.batch, smoothing=args.smoothing, threads=args.threads)
    model = train_cnn(images.reshape(-1, SIDE, SIDE), labels, CLASSES, seed, training)
    return cnn_accuracy(model, pictures.test_images.reshape(-1, SIDE, SIDE), pictures.test_labels)


def _without_noise(figures: Figures, name: str, pictures: Pictures, args: argparse.Namespace) -> None:
    """The paper's epsilon = infinity: Algorithm 1 with its z-scores and norm 1. Not private; its generator is numpy's.

    The z-scores matter: a network trained on means of raw pictures, whose contrast falls with l, misreads the sharp
    ones it is tested on (0.57 instead of 0.8 at l = 32). So does when to stop, which the paper leaves open: a network
    that trains longer on mixtures does worse on single pictures. Weights are chosen on held-out training pictures.
    """
    orders = [order for order in PAPER_WITHOUT_NOISE[name] if figures.wants(f"mixing.{name}.inf.l{order}.accuracy")]
    if not orders:
        return
    mean, std = pictures.images.mean(axis=0), pictures.images.std(axis=0)
    images, test_images = (_unit_z_scores(part, mean, std) for part in (pictures.images, pictures.test_images))
    known = Pictures(images[HELD_OUT:], pictures.labels[HELD_OUT:], test_images, pictures.test_labels)
    apart, answers = images[:HELD_OUT], pictures.labels[:HELD_OUT]
    for order in orders:
        scores = []
        for seed in range(args.runs):
            means, labels = _means_of(known, order, args.records, np.random.default_rng(seed))
            training = Training(epochs=args.epochs, batch=args.batch, threads=args.threads)
            shape = (-1, SIDE, SIDE)
            model = train_cnn(means.reshape(shape), labels, CLASSES, seed, training, (apart.reshape(shape), answers))
            scores.append(cnn_accuracy(model, known.test_images.reshape(shape), known.test_labels))
        figure = f"mixing.{name}.inf.l{order}"
        figures.show(f"{figure}.accuracy", float(np.mean(scores)), "DP-CDA", PAPER_WITHOUT_NOISE[name][order])
        figures.show(f"{figure}.accuracy_std", float(np.std(scores)))


def _unit_z_scores(images: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    # The paper does not say what it does with pixels that never vary; here nearly constant ones stay small.
    scores = (images - mean) / (std + np.float32(0.1))
    scores /= np.maximum(1.0, np.linalg.norm(scores, axis=1, keepdims=True))
    return scores


def _means_of(pictures: Pictures, order: int, records: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    count = records // CLASSES
    means = np.zeros((CLASSES * count, SIDE * SIDE), dtype=np.float32)
    for k in range(CLASSES):
        rows = np.flatnonzero(pictures.labels == k)
        mine = means[k * count : (k + 1) * count]
        for t in range(count):
            chosen = rng.choice(rows, order, replace=False)
            mine[t] = pictures.images[chosen].mean(axis=0)
    return means, np.repeat(np.arange(CLASSES), count)


def _local_perturbation(images: np.ndarray, clip: float, epsilon: str) -> np.ndarray:
    """Every picture clipped and noised by itself: a record replaced moves it by at most 2c."""
    rng = np.random.default_rng(0)
    centred = images - np.float32(GREY)
    centred /= np.maximum(1.0, np.linalg.norm(centred, axis=1, keepdims=True) / clip)
    std = 2 * clip * calibrate_gaussian(Budget(Decimal(epsilon), DELTA))
    return np.clip(centred + GREY + rng.normal(0, std, images.shape), 0, 1).astype(np.float32)


def _random_projection(images: np.ndarray, clip: float, epsilon: str, width: int = 64) -> np.ndarray:
    """The same in a random subspace of public directions, projected back."""
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(images.shape[1], width)))
    low = (images - np.float32(GREY)) @ basis.astype(np.float32)
    low /= np.maximum(1.0, np.linalg.norm(low, axis=1, keepdims=True) / clip)
    std = 2 * clip * calibrate_gaussian(Budget(Decimal(epsilon), DELTA))
    noisy = low + rng.normal(0, std, low.shape)
    return np.clip(noisy @ basis.T + GREY, 0, 1).astype(np.float32)


def _speed(figures: Figures) -> None:
    """60,000 mixtures of 784 features at l = 4, against plain loops over the lines of Algorithm 1, best of three each.

    `numpy_loop`: numpy vectors and numpy's floating-point noise, a record at a time. Not private: float noise leaks.
    `exact_loop`: the same loop on the integer grid with the reference sampler of our own noise: what we release.
    `opendp_loop`: the same with OpenDP's discrete Gaussian, the sampler to trust if one has no other.
    `python_loop`: no numpy, a number at a time, with `random.gauss`.
    """
    design = MixtureDesign("poisson", 4 / 6000, 4, 6000, 0.5)
    images = np.random.default_rng(0).random((60_000, SIDE * SIDE), dtype=np.float32)
    labels = np.arange(60_000) % CLASSES
    rows = class_rows(labels, CLASSES)
    frame = Frame(np.zeros((CLASSES, SIDE * SIDE)), np.ones(SIDE * SIDE), np.ones(CLASSES))
    randomness = operating_system_randomness()
    unit, rng = 10 / design.norm_bound, np.random.default_rng(0)
    small = to_records(images[:100], labels[:100], frame, unit, design.norm_bound)
    release_mixtures(small, [np.arange(10)] * CLASSES, [5] * CLASSES, design, randomness)  # compile
    with measured() as placing:
        records = to_records(images, labels, frame, unit, design.norm_bound)
    ours = _best(lambda: release_mixtures(records, rows, [6000] * CLASSES, design, randomness))
    lists = [images[chosen].tolist() for chosen in (part[:200] for part in rows)]
    loops: dict[str, tuple[int, Callable[[int], object]]] = {
        "numpy_loop": (1000, lambda n: _algorithm_1(images, rows, n, 4, lambda width: rng.normal(0, 0.25, width))),
        "exact_loop": (
            500,
            lambda n: _algorithm_1(records, rows, n, 4, lambda w: rounded_gaussian(w, design.sigma, randomness)),
        ),
        "opendp_loop": (
            10,
            lambda n: _algorithm_1(records, rows, n, 4, lambda w: discrete_gaussian(w, design.sigma, randomness)),
        ),
        "python_loop": (100, lambda n: _algorithm_1_without_numpy(lists, n, 4, 0.25)),
    }
    for name, (count, loop) in loops.items():
        theirs = _best(partial(loop, count))
        figure = "mixing.records_per_second" if name == "numpy_loop" else f"mixing.records_per_second.{name}"
        figures.show(figure, 60_000 / ours.seconds, name, count / theirs.seconds)
        times = (theirs.cpu_seconds / count) / (ours.cpu_seconds / 60_000)
        figures.show(f"mixing.release.cpu_times_less_than_{name}", times)
    figures.show("mixing.release.seconds", ours.seconds)
    figures.show("mixing.release.cpu_seconds", ours.cpu_seconds)
    figures.show("mixing.release.peak_mb", ours.peak_mb)
    figures.show("mixing.release.placing_cpu_seconds", placing.cpu_seconds)


def _best(work: Callable[[], object]) -> Cost:
    """The least of three runs in wall and in CPU seconds: other work on the machine only ever adds to them."""
    costs = []
    for _ in range(3):
        with measured() as cost:
            work()
        costs.append(cost)
    return Cost(min(c.seconds for c in costs), min(c.cpu_seconds for c in costs), max(c.peak_mb for c in costs))


def _long(figures: Figures) -> None:
    """Releases of growing length through the real ledger and store: memory must not grow with them."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(LONG_WIDTH)]
    columns = {name: pa.array(rng.normal(0, 0.3, 20_000)) for name in names}
    table = pa.table({**columns, "kind": pa.array([str(k) for k in range(CLASSES)] * (20_000 // CLASSES))})
    for records in LONG_RECORDS:
        if not figures.wants(f"mixing.long.{records}"):
            continue
        spec = {
            "name": "long",
            "snapshot": "1",
            "privacy": {"account": "long", "epsilon": 5, "delta": 1e-6},
            "columns": {
                **{name: {"type": "number", "min": -1, "max": 1} for name in names},
                "kind": {"type": "category", "values": [str(k) for k in range(CLASSES)]},
            },
            "method": {"name": "mixing", "label": "kind", "rows": 20_000, "records": records, "order": 16},
        }
        with tempfile.TemporaryDirectory() as home, measured() as cost:
            made = understudy.Synthesizer(spec, cap=(10, 1e-5), home=home).fit(table).sample()
        figures.show(f"mixing.long.{records}.output_mb", made.nbytes / 2**20)
        figures.show(f"mixing.long.{records}.peak_mb", cost.peak_mb)
        figures.show(f"mixing.long.{records}.cpu_seconds", cost.cpu_seconds)


def _algorithm_1(
    images: np.ndarray, rows: list[np.ndarray], count: int, order: int, noise: Callable[[int], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The paper's Algorithm 1, steps 8 to 16, line by line, a record at a time."""
    rng = np.random.default_rng(0)
    records, labels = [], []
    for k in range(len(rows)):
        for _ in range(count // len(rows)):
            chosen = rng.choice(rows[k], order, replace=False)
            one_hot = np.zeros(len(rows))
            total = np.zeros(images.shape[1])
            for i in chosen:
                total = total + images[i]
                one_hot[k] += 1
            records.append((total + noise(len(total))) / order)
            labels.append(int(np.argmax((one_hot + noise(len(one_hot))) / order)))
    return np.array(records), np.array(labels)


def _algorithm_1_without_numpy(
    classes: list[list[list[float]]], count: int, order: int, sigma: float
) -> tuple[list[list[float]], list[int]]:
    """The same steps in plain Python, a number at a time."""
    rng = random.Random(0)
    records, labels = [], []
    for k, members in enumerate(classes):
        for _ in range(count // len(classes)):
            chosen = rng.sample(members, order)
            mixed = []
            for j in range(len(members[0])):
                total = 0.0
                for record in chosen:
                    total += record[j]
                mixed.append(total / order + rng.gauss(0, sigma))
            records.append(mixed)
            one_hot = [float(c == k) + rng.gauss(0, sigma) for c in range(len(classes))]
            labels.append(one_hot.index(max(one_hot)))
    return records, labels


def _load(folder: Path) -> Pictures:
    """Pictures as rows of numbers in [0, 1]."""
    pictures = load_pictures(folder)
    images, test_images = (
        part.reshape(-1, SIDE * SIDE) / np.float32(255) for part in (pictures.images, pictures.test_images)
    )
    return Pictures(images, pictures.labels, test_images, pictures.test_labels)

"""Kernel: accuracy of a CNN trained on generated pictures and tested on real ones, and steps a second.

`kernel.{mnist,fashion}.{eps}.accuracy` at delta 1e-5 under ADD_REMOVE, class sizes bought too: mean over --seeds of
(release, training, classifier), each with noise and initialisation of its own; `.spread` is their standard
deviation, `.release_seconds` and `.training_seconds` what one takes. With --frechet also `.frechet`, `.precision` and
`.recall` in the features of a CNN of our own, beside those of as many training pictures (`.real_frechet`, ...). Peers:
the best sound kernel baseline in the literature, DP-MERF (Harder et al. 2021), and at eps 0.2 too.
`kernel.{set}.{eps}.steps.accuracy` is the same with `release: steps` (fresh samples and kernels), for comparison.

`kernel.steps_per_second` is training at the paper's batch of 60 pictures of 32 pixels; the peer is the paper's
scheme in the same process: its DCGAN, RMSprop, the sum of five Gaussian kernels, and noise drawn jointly on 120
points each step. `.same_network` is ours with the paper's network. `kernel.features_per_second` are exact features
of pictures (2 numbers each) on this machine.

`.accuracy` is that of the paper's CNN on 20,000 generated pictures after five epochs. With --classifiers the same is
shown for `judged` (the same CNN on 20,000 pictures of `generate: {judged: true}`), `cnn_60000` (on 55,000 pictures,
its weights chosen on 5,000 more of them: DPImageBench's rule, no real picture has a say), `residual` (a small residual
network) and `logistic` (logistic regression), both on the 20,000.

Nothing is tuned on what is tested: windows, edges, metric and network were chosen on 10,000 training pictures
held out of either set, with noise as of 60,000; bandwidths and smoothing are older, see docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
import torch

from benchmarks.papers.classifiers import Training, cnn_accuracy, train_cnn
from benchmarks.papers.frechet import Extractor, frechet_distance, trained_extractor
from benchmarks.papers.precision_recall import precision_recall
from benchmarks.support.figures import Figures, measured
from benchmarks.support.pictures import FOLDERS, Pictures, held_out, load_pictures
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.features import FeatureBlocks
from understudy.pipelines.methods.kernel.generators import Generator, Shape
from understudy.pipelines.methods.kernel.judging import JudgedGenerator, judged
from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign
from understudy.pipelines.methods.kernel.method import KernelMethod, released_embedding, training_plan
from understudy.pipelines.methods.kernel.options import kernel_options
from understudy.pipelines.methods.kernel.training import Trainer, TrainingPlan, train
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

EPSILONS = ("1", "0.2", "10")
BASELINES = {("mnist", "1"): 0.805, ("mnist", "0.2"): 0.752, ("fashion", "1"): 0.731, ("fashion", "0.2"): 0.674}
SAMPLES = 20_000
HELD_OUT = 5_000
COMPARED = 5_000
SHAPE = Shape(784, (28, 28, 1))
ROUNDS, STEPS_A_TURN = 5, 4
PAPER_BANDWIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
SPEC = """
name: pictures
source: {{uri: pictures.parquet, snapshot: "1"}}
privacy: {{account: benchmark, epsilon: {epsilon}, delta: 1e-5}}
columns:
  label: {{type: category, values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}}
  image: {{type: tensor, shape: [28, 28], min: 0, max: 255}}
method: {{name: kernel, label: label, rows: 60000{options}}}
publish: {{to: releases/}}
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=3, help="releases and trainings averaged in a figure")
    parser.add_argument("--first-seed", type=int, default=0, help="of these seeds; those of before can run elsewhere")
    parser.add_argument("--steps", type=int, help="training steps; default: the method's")
    parser.add_argument("--frechet", action="store_true", help="also the Frechet distance, for which a CNN is trained")
    parser.add_argument(
        "--classifiers",
        nargs="*",
        default=[],
        choices=("judged", "cnn_60000", "residual", "logistic"),
        help="also scored with these; see above",
    )
    parser.add_argument("--held-out", action="store_true", help="score on 10,000 training pictures that are left out")
    parser.add_argument("--options", default="", help="further method options, as `edges: false`")
    parser.add_argument("--threads", type=int, default=2, help="of torch")


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(args.threads)
    figures = Figures(args.only)
    if figures.wants("kernel.steps_per_second"):
        _speed(figures)
    if figures.wants("kernel.features_per_second"):
        _feature_speed(figures)
    with tempfile.TemporaryDirectory() as home:
        os.environ["UNDERSTUDY_HOME"] = home
        for name, folder in FOLDERS.items():
            if figures.wants(f"kernel.{name}.") and (args.data / folder).is_dir():
                pictures = load_pictures(args.data / folder)
                if args.held_out:
                    pictures = held_out(pictures)
                for epsilon in EPSILONS:
                    if figures.wants(f"kernel.{name}.{epsilon}."):
                        _accuracy(figures, pictures, name, epsilon, args)


def _accuracy(figures: Figures, pictures: Pictures, name: str, epsilon: str, args: argparse.Namespace) -> None:
    prefix = f"kernel.{name}.{epsilon}"
    baseline = BASELINES.get((name, epsilon))
    peer = "DP-MERF" if baseline else None
    if figures.wants(f"{prefix}.steps") and figures.only.startswith(f"{prefix}.steps"):
        accuracy, _ = _once(pictures, epsilon, ", release: steps, rate: 0.01, steps: 1500, frequencies: 1000", 0, args)
        figures.show(f"{prefix}.steps.accuracy", accuracy, peer, baseline)
        return
    extractor = None
    if args.frechet:
        extractor = trained_extractor(pictures.images / np.float32(255), pictures.labels, 10)
    options = f", {args.options}" if args.options else ""
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = [_once(pictures, epsilon, options, seed, args, extractor) for seed in seeds]
    accuracies = [accuracy for accuracy, _ in runs]
    for seed, accuracy in zip(seeds, accuracies, strict=True):
        figures.show(f"{prefix}.seed{seed}.accuracy", accuracy)
    figures.show(f"{prefix}.accuracy", float(np.mean(accuracies)), peer, baseline)
    figures.show(f"{prefix}.spread", float(np.std(accuracies, ddof=1)) if len(runs) > 1 else None)
    for key in runs[0][1]:
        figures.show(f"{prefix}.{key}", float(np.mean([costs[key] for _, costs in runs])))


def _once(
    pictures: Pictures,
    epsilon: str,
    options: str,
    seed: int,
    args: argparse.Namespace,
    extractor: Extractor | None = None,
) -> tuple[float, dict[str, float]]:
    """One release, one training, one classifier: its accuracy on real test pictures, and what it took."""
    spec = parse_spec(SPEC.format(epsilon=epsilon, options=options))
    domain, method = TableDomain.of(spec), KernelMethod()
    plan = method.plan(spec, domain)
    with measured() as release:
        embedding = _released(pictures, spec, domain, plan)
    usual = training_plan(spec.generate, SHAPE, embedding.design.features)
    with measured() as training:
        generator = train(
            embedding,
            SHAPE,
            replace(usual, steps=args.steps or usual.steps),
            seed,
            lambda *_: None,
        )
    made = sampled(generator, SAMPLES)
    scores = {
        name: _scored(name, made, generator, embedding, pictures, seed, args)
        for name in dict.fromkeys(["cnn", *args.classifiers])
    }
    costs = {"release_seconds": release.seconds, "training_seconds": training.seconds, "peak_mb": training.peak_mb}
    costs |= {f"accuracy_{name}": score for name, score in scores.items() if name != "cnn"}
    if extractor is not None:
        real = extractor(pictures.test_images[..., None] / np.float32(255))
        for whose, others in (("", made[: len(real)]), ("real_", pictures.images[: len(real)] / np.float32(255))):
            found = extractor(others[..., None])
            costs[f"{whose}frechet"] = frechet_distance(real, found)
            supports = precision_recall(real[:COMPARED], found[:COMPARED])
            costs |= {f"{whose}precision": supports.precision, f"{whose}recall": supports.recall}
    return scores["cnn"], costs


def sampled(generator: Generator | JudgedGenerator, count: int) -> np.ndarray:
    """Pictures, a tenth of each class, the classes in turn."""
    return generator.sample(torch.arange(count) % 10).numpy().reshape(-1, 28, 28)


def _scored(
    name: str,
    made: np.ndarray,
    generator: Generator,
    embedding: ReleasedEmbedding,
    pictures: Pictures,
    seed: int,
    args: argparse.Namespace,
) -> float:
    """Accuracy on the real test pictures of a classifier that saw generated ones only, also to choose its weights."""
    network: Literal["paper", "residual", "logistic"] = "paper"
    if name in ("residual", "logistic"):
        network = name  # type: ignore[assignment]
    training = Training(epochs=5, threads=args.threads, network=network)
    apart = None
    if name == "judged":
        made = sampled(judged(embedding, generator, "cpu", seed), SAMPLES)
    if name == "cnn_60000":
        made = sampled(generator, 3 * SAMPLES)
        last = made[-HELD_OUT:]
        apart = last, np.arange(len(made))[-HELD_OUT:] % 10
        made = made[:-HELD_OUT]
    classifier = train_cnn(made, np.arange(len(made)) % 10, 10, seed, training, apart)
    return cnn_accuracy(classifier, pictures.test_images / np.float32(255), pictures.test_labels)


def _released(pictures: Pictures, spec: ReleaseSpec, domain: TableDomain, plan: MethodPlan) -> ReleasedEmbedding:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(pictures.images.reshape(-1)), 784)
    table = _InMemory(domain, pa.record_batch({"label": pictures.labels, "image": flat}))
    bought = KernelMethod().measure(table, spec, plan, lambda _, sold: sold.draw(operating_system_randomness()))
    return released_embedding(bought, kernel_options(spec, domain), domain)


class _InMemory:
    def __init__(self, domain: TableDomain, batch: pa.RecordBatch) -> None:
        self.domain, self._batch = domain, batch

    def record_batches(self):  # type: ignore[no-untyped-def]
        for start in range(0, self._batch.num_rows, 4096):
            yield self._batch.slice(start, 4096)

    def counts(self, cliques):  # type: ignore[no-untyped-def]
        raise NotImplementedError


def _speed(figures: Figures) -> None:
    """Ours and the paper's scheme in turns, so that a busy moment meets both."""
    shape, batch = Shape(1024, (32, 32, 1)), 60
    ours = {
        name: Trainer(_invented(), shape, TrainingPlan(network, steps=10_000, batch=batch), 0)
        for name, network in (("", "conv"), (".same_network", "dcgan"))
    }
    paper = _PaperScheme(batch)
    spent = dict.fromkeys([*ours, "paper"], 0.0)
    turns = {**{name: trainer.step for name, trainer in ours.items()}, "paper": paper.step}
    for warm_up in (True, *[False] * ROUNDS):
        for name, step in turns.items():
            start = time.perf_counter()
            for _ in range(STEPS_A_TURN):
                step()
            spent[name] += 0.0 if warm_up else time.perf_counter() - start
    rates = {name: ROUNDS * STEPS_A_TURN / seconds for name, seconds in spent.items()}
    for name in ours:
        figures.show(f"kernel.steps_per_second{name}", rates[name], "paper's scheme", rates["paper"])


def _invented() -> ReleasedEmbedding:
    features = FeatureBlocks("speed", 1024, 500, (5.8, 11.5))
    design = EmbeddingDesign("once", features, 8, 10, 1.0, 3.73, Relation.ADD_REMOVE)
    numbers = np.random.default_rng(0).normal(0, design.sigma, (10, design.numbers))
    numbers[:, -1] = 6000 * design.count_weight
    return ReleasedEmbedding(design, np.rint(numbers).astype(np.int64))


class _PaperScheme:
    """A step as the paper describes it: 60 real and 60 generated points, their joint noise from the Gram matrix."""

    def __init__(self, batch: int) -> None:
        torch.manual_seed(0)
        self.batch = batch
        self.generator = Generator("dcgan", Shape(1024, (32, 32, 1)), 10, 10, one_a_class=False)
        self.optimiser = torch.optim.RMSprop(self.generator.parameters(), lr=5e-5)
        self.real = torch.rand(6000, 1024)
        self.labels = torch.arange(6000) % 10

    def step(self) -> None:
        chosen = torch.randperm(len(self.real))[: self.batch]
        real, labels = self.real[chosen], self.labels[chosen]
        made = self.generator(labels)
        both, all_labels = torch.cat([real, made]), torch.cat([labels, labels])
        gram = _summed_kernel(both) * (all_labels[:, None] == all_labels[None, :])
        jitter = 1e-3 * torch.eye(len(both))
        with torch.no_grad():
            noise = torch.linalg.cholesky(gram + jitter) @ torch.randn(len(both))
        witness = gram[:, : self.batch].mean(dim=1) - gram[:, self.batch :].mean(dim=1) + noise / self.batch
        loss = witness[: self.batch].mean() - witness[self.batch :].mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


def _summed_kernel(points: torch.Tensor) -> torch.Tensor:
    squares = points.square().sum(dim=1)
    distances = (squares[:, None] + squares[None, :] - 2 * points @ points.T).clamp_min(0)
    return sum((torch.exp(-distances / (2 * b * b)) for b in PAPER_BANDWIDTHS), torch.zeros_like(distances))


def _feature_speed(figures: Figures) -> None:
    features = FeatureBlocks("speed", 784, 500, (5.0, 10.0))
    records = np.random.default_rng(0).integers(0, 4097, (8192, 784)).astype(np.uint16)
    labels, totals = np.arange(8192) % 10, np.zeros((10, 1000), dtype=np.int64)
    features.add(0, records[:64], labels[:64], totals)  # compile
    with measured() as cost:
        features.add(0, records, labels, totals)
    figures.show("kernel.features_per_second", len(records) * features.frequencies / cost.seconds)

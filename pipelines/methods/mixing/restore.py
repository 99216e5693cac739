"""Reads a release back as records, block by block: what `denoise` needs, laid over the stored slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import numpy as np

from understudy.pipelines.methods.mixing.denoise import (
    ClassMoments,
    Restoration,
    image_basis,
    merged,
    moments,
    restorations,
    restored,
)
from understudy.pipelines.methods.mixing.design import MixingDesign
from understudy.pipelines.methods.mixing.pictures import RestoredPictures, restored_pictures
from understudy.pipelines.methods.mixing.release import Frame
from understudy.pipelines.methods.mixing.slices import slice_key

BLOCK_ROWS = 8192


class SumReader:
    """Released sums as records in unit coordinates. Holds no private number and draws nothing."""

    def __init__(
        self,
        design: MixingDesign,
        frame: Frame,
        counts: list[int],
        arrays: Mapping[str, np.ndarray],
        denoise: Literal["none", "spectral"],
        image: tuple[int, int] | None,
        bounds: tuple[float, float] = (-1.0, 1.0),
    ) -> None:
        self.design = design
        self.frame = frame
        self.counts = counts
        self.arrays = arrays
        self.records = sum(counts)
        # Less than one record a mixture cannot be told from noise; dividing by it would only blow the noise up.
        self.orders = np.array([max(design.mixtures.expected_order(float(size)), 1.0) for size in frame.sizes])
        self._basis: np.ndarray | None = None
        self._maps: list[Restoration] | None = None
        self._pictures: list[RestoredPictures] | None = None
        if denoise == "spectral" and image is not None:
            self._basis = image_basis(*image)
            self._pictures = self._restored_pictures(image, bounds)
        elif denoise == "spectral":
            self._maps = self._restorations(self._moments())

    def blocks(self, start_at: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(unit features, class codes) of successive blocks, classes in turn so that any prefix is balanced; without
        the first `start_at` records."""
        step = max(1, BLOCK_ROWS // self.design.classes)
        skip = start_at
        for number, parts in self._slices():
            records = sum(stop - start for start, stop in parts)
            if skip >= records:
                skip -= records
                continue
            noisy_labels = self.arrays.get(slice_key("labels", number))
            longest = max((stop - start for start, stop in parts), default=0)
            sums = self.arrays[slice_key("sums", number)]
            for first in range(0, longest, step):
                size = sum(max(0, min(stop - start - first, step)) for start, stop in parts)
                if skip >= size:
                    skip -= size
                    continue
                pieces, ranks, labels = [], [], []
                for k, (start, stop) in enumerate(parts):
                    span = slice(start + first, min(start + first + step, stop))
                    part = sums[span]
                    if not len(part):
                        continue
                    pieces.append(self._units(k, part, self.design.slices[number][0] + first))
                    ranks.append(np.arange(len(part)))
                    labels.append(np.full(len(part), k) if noisy_labels is None else noisy_labels[span])
                order = np.argsort(np.concatenate(ranks), kind="stable")
                yield np.concatenate(pieces)[order[skip:]], np.concatenate(labels)[order[skip:]]
                skip = 0

    def class_means(self) -> np.ndarray:
        """Mean of each class in unit coordinates, from the released sums."""
        means = np.zeros_like(self.frame.centres)
        for number, parts in self._slices():
            sums = self.arrays[slice_key("sums", number)]
            for k, (start, stop) in enumerate(parts):
                means[k] += sums[start:stop].sum(axis=0, dtype=np.float64)
        per_record = self.design.unit / (np.maximum(self.counts, 1) * self.orders)
        shifted: np.ndarray = self.frame.centres + self.frame.scales * means * per_record[:, None]
        return shifted

    def spread_of_a_record(self, k: int) -> float:
        """How far clipping to the range may move a class's mean: the noise of one record, at most the whole range.

        Of a restored record, which has the wider spread; how records were made is not part of the measurement.
        """
        noise = self.design.mixtures.sigma * self.design.unit * float(self.frame.scales.mean())
        return min(2.0, 0.1 + float(noise / np.sqrt(self.orders[k])))

    def _units(self, k: int, sums: np.ndarray, number: int) -> np.ndarray:
        """Of successive sums of class k, the first of which is its `number`th."""
        scaled = sums * np.float32(self.design.unit)
        if self._pictures is not None:
            features = self._pictures[k].records(scaled, number)
        elif self._maps is not None:
            features = restored(self._maps[k], scaled)
        else:
            features = scaled / np.float32(self.orders[k])
        units: np.ndarray = self.frame.centres[k] + self.frame.scales * features
        return units

    def _slices(self) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """For each slice the row ranges of its classes."""
        for number, (start, stop) in enumerate(self.design.slices):
            sizes = [min(max(count - start, 0), stop - start) for count in self.counts]
            ends = np.cumsum(sizes).tolist()
            yield number, [(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def _moments(self) -> list[ClassMoments]:
        found = [ClassMoments.empty(self.design.width, self._basis) for _ in range(self.design.classes)]
        for number, parts in self._slices():
            sums = self.arrays[slice_key("sums", number)]
            for k, (start, stop) in enumerate(parts):
                found[k] = merged(found[k], moments(sums[start:stop], self.design.unit, self._basis))
        return found

    def _restorations(self, found: list[ClassMoments]) -> list[Restoration]:
        poisson = self.design.mixtures.sampler == "poisson"
        return restorations(found, self._sigma, self.orders, self._basis, poisson=poisson)

    def _restored_pictures(self, image: tuple[int, int], bounds: tuple[float, float]) -> list[RestoredPictures]:
        found = self._moments()
        (low, high), scales = bounds, self.frame.scales
        ranges = [((low - centre) / scales, (high - centre) / scales) for centre in self.frame.centres]
        bases = self._restorations(found)
        return restored_pictures(bases, found, self._sigma, self.orders, image, self.design.clip, ranges)

    @property
    def _sigma(self) -> float:
        """Noise of a sum, in feature units."""
        return self.design.mixtures.sigma * self.design.unit

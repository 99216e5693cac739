"""Where words come from: nothing but the operating system, whatever is seeded, forked, snapshotted or injected.

Long streams and a hundred million draws are in test_sampler_battery.py (slow)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import opendp.prelude  # noqa: F401 (imported while it is not watched: loading modules makes temporary names)
import pytest

from tests.methods import test_door
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.replay import measured
from understudy.pipelines.auditing.words import with_words
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise import rounded
from understudy.pipelines.privacy.noise.bulk import _WINDOW, gaussian_table
from understudy.pipelines.privacy.noise.rounded import _certified_magnitudes, operating_system_randomness
from understudy.pipelines.releasing.planning import plan_release

SEEDABLE = ("random", "numpy.random", "torch.random", "torch._C", "mtrand", "_generator", "_pcg64", "bit_generator")


PUBLIC = ("understudy.pipelines.methods.kernel.features",)
"""Frequencies of random features are public: they follow from a seed that the measurement tells."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    test_door.shrink(monkeypatch.setattr)


@contextmanager
def watched(found: list[str]) -> Iterator[None]:
    """Every call, of Python and of C, into something that can be seeded."""

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            owner = getattr(argument, "__self__", None)
            module = getattr(argument, "__module__", None) or type(owner).__module__
        elif event == "call":
            module = str(frame.f_globals.get("__name__", ""))
        else:
            return
        if any(str(module).startswith(name) or str(module).endswith(name) for name in SEEDABLE):
            found.append(f"{module}.{getattr(argument, '__name__', frame.f_code.co_name)}")

    # numpy's generators are compiled so that no profile sees them: whoever asks for one, by any name, is noted.
    def noted(name: str) -> Any:
        true = getattr(np.random, name)

        def asked(*arguments: Any, **named: Any) -> Any:
            if sys._getframe(1).f_globals["__name__"] not in PUBLIC:
                found.append(f"numpy.random.{name}")
            return true(*arguments, **named)

        return asked

    names = ("default_rng", "seed", "normal", "standard_normal", "random", "randint")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(np.random, name, noted(name))
        sys.setprofile(look)
        try:
            yield
        finally:
            sys.setprofile(None)


class Watching:
    """Sells as the door does, from the operating system's words, and looks at what is called while noise is drawn."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.draws = 0

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        randomness = operating_system_randomness()
        self.draws += 1
        with watched(self.called):
            return mechanism.draw(randomness)


@pytest.mark.parametrize("case", test_door.CASES)
def test_while_noise_is_drawn_nothing_is_called_that_can_be_seeded(case: str) -> None:
    planned, door = plan_release(test_door.spec_of(case)), Watching()
    ended = measured(planned, made_pair(planned.spec, random.Random(1)).table, door)  # type: ignore[arg-type]
    assert not isinstance(ended, str), ended
    assert door.draws
    assert door.called == []


def test_the_watch_sees_what_can_be_seeded() -> None:
    for seeded in (lambda: np.random.default_rng(7).integers(9), lambda: random.Random(7).random()):
        found: list[str] = []
        with watched(found):
            seeded()
        assert found


SEED_EVERYTHING = """
import os, random
import numpy as np
random.seed(0); np.random.seed(0)
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness, rounded_gaussian
source = operating_system_randomness()
print(rounded_gaussian(8, 1e9, source).tolist(), source.words(2000)[:2].tolist())
"""
SNAPSHOTTED = """
import os, sys
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
source = operating_system_randomness()
source.words(3), source.words(1000)  # whatever state there is, it is made by now
for _ in range(4):
    if os.fork() == 0:  # a copy of all memory, as a snapshot that is resumed
        os.write(1, (source.words(4).tobytes() + source.words(700)[:4].tobytes()).hex().encode() + b"\\n")
        os._exit(0)
for _ in range(4):
    os.wait()
os.write(1, (source.words(4).tobytes() + source.words(700)[:4].tobytes()).hex().encode() + b"\\n")
"""


def printed(program: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split("\n")[:-1]


def test_seeding_everything_that_can_be_seeded_changes_nothing() -> None:
    runs = [printed(SEED_EVERYTHING, PYTHONHASHSEED="0") for _ in range(2)]
    assert runs[0] != runs[1]


def test_copies_of_a_process_never_share_words() -> None:
    lines = printed(SNAPSHOTTED)
    assert len(lines) == 5
    halves = {line[place : place + 64] for line in lines for place in (0, 64)}
    assert len(halves) == 10


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.73, 60.0, 1024.0])
def test_table_and_inversion_agree_around_every_threshold(sigma: float) -> None:
    """Every word within three of every threshold, with the lowest and the highest continuation of its bits."""
    table = gaussian_table(sigma)
    near = (table.cut.astype(np.int64)[:, None] + np.arange(-_WINDOW - 2, _WINDOW + 3)).ravel()
    w = np.unique(near[(near >= 0) & (near < 2**31)])
    w = np.append(w, w[-1]) if len(w) % 2 else w
    flat = np.zeros(len(w), dtype=np.int32)
    unsure = table.add(flat, w.astype(np.uint32).view(np.uint64))
    decided = np.setdiff1d(np.arange(len(w)), unsure)
    assert len(decided) >= 2 * len(table.cut[table.cut > 8])
    ends = [(w[decided].astype(np.uint64) << np.uint64(32)) | np.uint64(ending) for ending in (0, 2**32 - 1)]
    for tails in ends:
        magnitude, certain = _certified_magnitudes(tails, sigma)
        np.testing.assert_array_equal(flat[decided][certain], magnitude[certain])
        for place in np.flatnonzero(~certain)[:20]:
            assert flat[decided][place] == rounded._exact_magnitude(int(tails[place]), sigma, Zeros())


class Zeros:
    def words(self, count: int) -> np.ndarray:
        return np.full(count, 2**63, np.uint64)


def test_injected_words_reach_no_sampler_of_another_library() -> None:
    noise = test_door.spec_of("privpgd opendp")
    planned = plan_release(noise)
    [charge] = planned.plan.charges

    class Injecting:
        def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
            with pytest.raises(TypeError, match="operating system"):
                mechanism.draw(Zeros())
            assert with_words(mechanism.noise) != mechanism.noise
            return mechanism.draw(operating_system_randomness())

    ended = measured(planned, made_pair(planned.spec, random.Random(1)).table, Injecting())  # type: ignore[arg-type]
    assert not isinstance(ended, str), ended
    assert charge.event

"""The rounded Gaussian, drawn exactly: Z = round(N(0, sigma^2)) from uniform random words.

Theorem. For an integer query x, x + Z = round(x + N(0, sigma^2)): post-processing of the Gaussian mechanism, so its
  analytic and PLD accounting hold exactly, in every dimension and under subsampling.
Relation, sensitivity. Those of the query; nothing here depends on them.
Noise unit. `sigma` is a standard deviation in the units of the integer query.
Proof. docs/proofs/rounded-gaussian.md, with what is assumed of scipy and mpmath.
Exactness. A 64-bit word gives a sign and the leading bits of the tail probability p = P(|N| > t)/2; t is found by
  inverting p in floating point, and the rounded value is accepted only when every real number that the word's interval
  and the inversion's error (bounded a thousandfold) allow rounds to the same integer. The rest, about one word in 10^8
  at sigma 10, is decided with further random bits against probabilities computed by mpmath with 96 guard bits, of
  which the decision leaves 64 to mpmath's own error. Nothing is truncated and no probability is approximated, so no
  term is owed to delta.
Randomness. Words of the operating system's generator. A request of 4 KiB or more is its key stretched by AES-256 in
  counter mode, as the operating system itself stretches a key (with ChaCha20) for one long read. Every request has
  a fresh 256-bit key of the operating system, counts from zero once, and keeps nothing: there is no state that a
  fork, a snapshot or a retry could use twice, and no seed. Assumes, as any generator does, that its cipher cannot
  be told from chance; one request of 2^n blocks of AES differs by less than 2^(2n - 129).
Reference. Inverse-CDF sampling with lazy bits (Knuth & Yao 1976); why not floats: Mironov 2012; counter mode: Bellare
  et al. 1997, NIST SP 800-90A section 10.2.
"""

from __future__ import annotations

import os
from typing import Protocol

import mpmath
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.special import ndtri

_STRETCHED_FROM = 512  # words: below this the operating system's own are as fast
_ZEROS = memoryview(bytes(1 << 20))
_NDTRI_ERROR = 1e-12  # scipy documents a few ulp (relative 1e-15); a test compares with mpmath over the whole range
_EXTRA_BITS = 64
GUARD_BITS = 96
MPMATH_SLACK = 2.0**-32  # in units of the last drawn bit: 64 of the guard bits may be wrong before a decision could be
MAX_SIGMA = 2.0**40  # keeps x + Z far inside int64


class RandomSource(Protocol):
    """Uniform 64-bit words. Production has one factory, `operating_system_randomness`; tests inject their own."""

    def words(self, count: int) -> np.ndarray: ...


class _OperatingSystem:
    def words(self, count: int) -> np.ndarray:
        if count < _STRETCHED_FROM:
            return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)
        return _stretched(os.urandom(32), count)


def _stretched(key: bytes, count: int) -> np.ndarray:
    """The key stream of AES-256 in counter mode from zero; the key must serve this one call."""
    stream = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
    buffer = np.empty(8 * count + 15, dtype=np.uint8)  # `update_into` asks for room for one block more
    for start in range(0, 8 * count, len(_ZEROS)):
        stream.update_into(_ZEROS[: 8 * count - start], buffer.data[start:])
    return buffer[: 8 * count].view(np.uint64)


def operating_system_randomness() -> RandomSource:
    """The only production source of randomness on the privacy path. It takes no seed."""
    return _OperatingSystem()


def rounded_gaussian(shape: int | tuple[int, ...], sigma: float, randomness: RandomSource) -> np.ndarray:
    """Independent draws of round(N(0, sigma^2)) as int64."""
    if not 0 < sigma <= MAX_SIGMA:
        raise ValueError(f"sigma must lie in (0, {MAX_SIGMA:g}]")
    count = int(np.prod(shape))
    words = randomness.words(count)
    negative = (words >> np.uint64(63)).astype(bool)
    tail_words = words & np.uint64(2**63 - 1)
    magnitude, certain = _certified_magnitudes(tail_words, sigma)
    for index in np.flatnonzero(~certain):
        magnitude[index] = _exact_magnitude(int(tail_words[index]), sigma, randomness)
    return np.where(negative, -magnitude, magnitude).reshape(shape)


def _certified_magnitudes(tail_words: np.ndarray, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """round(sigma t) for p in [w, w+1)/2^64, and whether the whole interval is known to round there.

    d t = d p / phi(t) and p / phi(t) <= 1.2534 (Mills' ratio falls from sqrt(pi/2)), so a relative error r in p moves t
    by at most 1.2534 r. Here r <= 1/w from the interval plus 2^-52 from the conversion to a double.
    """
    w = tail_words.astype(np.float64)
    positive = w > 0
    safe = np.where(positive, w, 1.0)
    t = -ndtri(safe * 2.0**-64)
    position = sigma * t
    rounded = np.floor(position + 0.5)
    margin = sigma * (1.2534 * (1.0 / safe + 2.0**-52) + _NDTRI_ERROR * (1.0 + t)) + np.spacing(position + 1.0)
    distance = 0.5 - np.abs(position - rounded)
    # A magnitude of 0 has no boundary below: -0.5 mirrors to +0.5 under the sign bit.
    return np.maximum(rounded, 0).astype(np.int64), positive & (distance > margin)


def _exact_magnitude(tail_word: int, sigma: float, randomness: RandomSource) -> int:
    """The same rounding decided in exact arithmetic, drawing more bits until one integer is left."""
    bits, value = 64, tail_word
    with mpmath.workdps(60):
        while True:
            value = (value << _EXTRA_BITS) | int(randomness.words(1)[0])
            bits += _EXTRA_BITS
            with mpmath.workprec(bits + GUARD_BITS):
                low, high = (
                    (value - mpmath.mpf(MPMATH_SLACK)) / mpmath.mpf(2) ** bits,
                    (value + 1 + mpmath.mpf(MPMATH_SLACK)) / mpmath.mpf(2) ** bits,
                )
                largest = _magnitude_at(low, sigma) if value else None
                smallest = _magnitude_at(high, sigma)
            if largest is not None and largest == smallest:
                return largest


def _magnitude_at(tail: mpmath.mpf, sigma: float) -> int:
    """The integer k with Q((k + 1/2)/sigma) <= tail < Q((k - 1/2)/sigma), Q the upper tail of the normal."""
    guess = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail) if tail > 1e-3 else _tail_inverse(tail)
    k = max(0, int(mpmath.floor(mpmath.mpf(sigma) * guess + mpmath.mpf("0.5"))))
    while _upper_tail((k + mpmath.mpf("0.5")) / sigma) > tail:
        k += 1
    while k > 0 and _upper_tail((k - mpmath.mpf("0.5")) / sigma) <= tail:
        k -= 1
    return k


def _tail_inverse(tail: mpmath.mpf) -> mpmath.mpf:
    """Solve Q(t) = tail by Newton steps on log Q from the asymptotic start."""
    t = mpmath.sqrt(-2 * mpmath.log(tail))
    for _ in range(60):
        q = _upper_tail(t)
        step = (mpmath.log(q) - mpmath.log(tail)) * q / (mpmath.exp(-t * t / 2) / mpmath.sqrt(2 * mpmath.pi))
        t += step
        if abs(step) < mpmath.mpf(10) ** (-30):
            break
    return t


def _upper_tail(t: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(t / mpmath.sqrt(2)) / 2


def discrete_gaussian(shape: int | tuple[int, ...], sigma: float, randomness: RandomSource) -> np.ndarray:
    """OpenDP's discrete Gaussian (`noise: opendp`), which draws from its own operating-system source.

    `randomness` is accepted so that both samplers have one signature; OpenDP cannot be given another source, and a
    source other than the operating system's is refused rather than ignored.
    """
    if not isinstance(randomness, _OperatingSystem):
        raise TypeError("OpenDP draws from the operating system; inject randomness only into the rounded Gaussian")
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measure = dp.m.make_gaussian(*space, scale=float(sigma))
    zeros = [0] * int(np.prod(shape))
    return np.array(measure(zeros), dtype=np.int64).reshape(shape)

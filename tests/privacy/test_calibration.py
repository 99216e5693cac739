"""The search for the least noise that will do, on losses whose answer is known."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.privacy.noise.calibration import MIN_MULTIPLIER, smallest_multiplier


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 5), st.floats(0.2, 300), st.sampled_from([0.001, 0.01, 0.05]), st.sampled_from([0.5, 1, 2]))
def test_it_ends_just_above_the_root_from_wherever_it_starts(
    target: float, start: float, tolerance: float, power: float
) -> None:
    def loss(z: float) -> float:
        assert z > 0
        return float(z**-power)

    found, root = smallest_multiplier(loss, target, tolerance, start), target ** (-1 / power)
    assert loss(found) <= target
    assert found <= max(root * (1 + tolerance), 1.3 * MIN_MULTIPLIER) * (1 + 1e-9)  # none is looked for below it

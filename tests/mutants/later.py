"""What came later: people counted by weight, triples that are chosen, values that are discovered."""

from __future__ import annotations

from tests.mutants.mutant import bug

WEIGHTS, TRIPLES = "counting/weights.py", "counting/triples.py"
THRESHOLDS, DISCOVERY = "discovery/thresholds.py", "discovery/mechanism.py"

WEIGHED = (
    bug(
        "weights: the ticks of an entity's rows are rounded up",
        WEIGHTS,
        "return self.ticks // rows",
        "return -(-self.ticks // rows)",
        "counting/test_weights.py::test_an_entity_has_at_most_its_ticks_and_hardly_fewer",
    ),
    bug(
        "weights: an entity taken for one tick",
        WEIGHTS,
        "return replace(unit, max_rows=weights.ticks)",
        "return replace(unit, max_rows=1)",
        "counting/test_weights.py::test_neighbour_replay",
    ),
)
"""Entities counted instead of their rows."""

CHOSEN = (
    bug(
        "triples: noise that was not charged",
        TRIPLES,
        "if noise.event != event_at(multiplier, self.first.sampler):",
        "if False:",
        "counting/test_triples.py::test_noise_that_was_not_charged_is_never_drawn",
    ),
    bug(
        "triples: the last release costs more the more is chosen",
        TRIPLES,
        "return self._again(self.further_multiplier, FURTHER_PART - choice.part, shapes, shares)",
        "return self._again(self.further_multiplier / (1 + len(shapes)), FURTHER_PART - choice.part, shapes, shares)",
        "counting/test_triples.py::test_whatever_is_chosen_costs_the_same_to_the_last_bit",
    ),
)
"""Triples that are chosen by what was released before."""

DISCOVERED = (
    bug(
        "discovery: noise a fifth too small",
        DISCOVERY,
        "rounded_gaussian(sums.weights.shape, std, randomness)",
        "rounded_gaussian(sums.weights.shape, 0.8 * std, randomness)",
        "discovery/test_mechanism.py::test_the_noise_has_the_declared_scale_and_no_other",
    ),
    bug(
        "discovery: noise a quarter too large",
        DISCOVERY,
        "rounded_gaussian(sums.weights.shape, std, randomness)",
        "rounded_gaussian(sums.weights.shape, 1.25 * std, randomness)",
        "discovery/test_mechanism.py::test_the_noise_has_the_declared_scale_and_no_other",
    ),
    bug(
        "discovery: every value of a unit counts in full",
        THRESHOLDS,
        "math.isqrt(square // t)",
        "math.isqrt(square)",
        "discovery/test_mechanism.py::test_what_a_unit_gives_is_bounded_and_nearly_all",
    ),
    bug(
        "discovery: a threshold one too low",
        THRESHOLDS,
        "if spill(middle, std, unit) > delta else (low, middle)\n    return high",
        "if spill(middle, std, unit) > delta else (low, middle)\n    return low",
        "discovery/test_mechanism.py::test_the_threshold_spills_no_more_than_delta_and_one_less_would",
    ),
    bug(
        "discovery: only the first of a unit's values spills",
        THRESHOLDS,
        "tails = several * ndtr(",
        "tails = ndtr(",
        "discovery/test_mechanism.py::test_the_threshold_spills_no_more_than_delta_and_one_less_would",
    ),
    bug(
        "discovery: what spills is not charged",
        DISCOVERY,
        "return Approximate(gaussian, up(own))",
        "return gaussian",
        "discovery/test_mechanism.py::test_the_event_is_the_plan_and_costs_what_was_set_aside",
    ),
    bug(
        "discovery: values in the order of rows",
        DISCOVERY,
        "found = found.take(order).slice(0, question.most)",
        "found = found.slice(0, question.most)",
        "discovery/test_mechanism.py::test_what_is_not_shown_leaves_no_trace_and_order_is_not_that_of_rows",
    ),
)
"""Values that nobody listed."""

"""Noise: of another scale than is charged, not what is said to be drawn, or for less than a unit can move."""

from __future__ import annotations

from tests.mutants.mutant import bug

COUNTS, RESIDUALS = "counting/mechanism.py", "counting/residuals.py"
MOMENTS, PAIRS = "methods/gaussian/mechanism.py", "methods/gaussian/pairs.py"
KERNEL, MIXTURES = "methods/kernel/mechanism.py", "methods/mixing/mechanism.py"
STATISTICS, GRID = "methods/mixing/statistics.py", "methods/mixing/grid.py"
NOISE, SPEND = "privacy/noise/rounded.py", "privacy/ledger/spend.py"

SCALES = (
    bug(
        "counts: noise a fifth too small",
        COUNTS,
        "sample(counts.shape, std, randomness)",
        "sample(counts.shape, 0.8 * std, randomness)",
        "counting/test_mechanism.py::test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught",
    ),
    bug(
        "counts: noise a quarter too large",
        COUNTS,
        "sample(counts.shape, std, randomness)",
        "sample(counts.shape, 1.25 * std, randomness)",
        "counting/test_mechanism.py::test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught",
    ),
    bug(
        "residuals: noise a fifth too small",
        RESIDUALS,
        "sample(shape, std, randomness)",
        "sample(shape, 0.8 * std, randomness)",
        "counting/test_residuals.py::test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught",
    ),
    bug(
        "residuals: noise a quarter too large",
        RESIDUALS,
        "sample(shape, std, randomness)",
        "sample(shape, 1.25 * std, randomness)",
        "counting/test_residuals.py::test_the_noise_has_the_declared_scale_and_a_wrong_one_is_caught",
    ),
    bug(
        "residuals: released before differences are taken",
        RESIDUALS,
        "drawn[name] = differences(noisy).reshape(-1)",
        "drawn[name] = noisy.reshape(-1)",
        "counting/test_residuals.py::test_only_differences_leave_the_mechanism",
    ),
    bug(
        "moments: noise a fifth too small",
        MOMENTS,
        "rounded_gaussian(exact.shape, block.std, randomness)",
        "rounded_gaussian(exact.shape, 0.8 * block.std, randomness)",
        "methods/gaussian/test_mechanism.py::test_noise_scale_is_the_declared_one",
    ),
    bug(
        "moments: noise a quarter too large",
        MOMENTS,
        "rounded_gaussian(exact.shape, block.std, randomness)",
        "rounded_gaussian(exact.shape, 1.25 * block.std, randomness)",
        "methods/gaussian/test_mechanism.py::test_noise_scale_is_the_declared_one",
    ),
    bug(
        "products: noise a fifth too small",
        PAIRS,
        "return noisy_blocks(exact, self.blocks, randomness)",
        "return noisy_blocks(exact, tuple(__import__('dataclasses').replace(block, std=0.8 * block.std)"
        " for block in self.blocks), randomness)",
        "methods/gaussian/test_pairs.py::test_noise_added_is_the_noise_charged",
    ),
    bug(
        "products: noise a quarter too large",
        PAIRS,
        "return noisy_blocks(exact, self.blocks, randomness)",
        "return noisy_blocks(exact, tuple(__import__('dataclasses').replace(block, std=1.25 * block.std)"
        " for block in self.blocks), randomness)",
        "methods/gaussian/test_pairs.py::test_noise_added_is_the_noise_charged",
    ),
    bug(
        "embeddings: frequencies in windows count half in the bound",
        "methods/kernel/features.py",
        "return self.frequencies * int((",
        "return self.frequencies * (3 if self.windows else 4) // 4 * int((",
        "methods/kernel/test_looking.py::test_no_record_exceeds_the_bound",
    ),
    bug(
        "embeddings: frequencies of edges are not in the bound",
        "methods/kernel/features.py",
        "return self.frequencies * int((",
        "return self.frequencies_of_pixels * int((",
        "methods/kernel/test_looking.py::test_no_record_exceeds_the_bound",
    ),
    bug(
        "embeddings: edges are measured against the steepest picture of the block",
        "methods/kernel/edges.py",
        "return edges",
        "return edges * 4096 // max(1, int(edges.max()))",
        "methods/kernel/test_looking.py::test_a_records_features_do_not_depend_on_its_neighbours",
    ),
    bug(
        "embeddings: noise a fifth too small",
        KERNEL,
        "exact + rounded_gaussian(exact.shape, self.design.sigma, randomness)",
        "exact + rounded_gaussian(exact.shape, 0.8 * self.design.sigma, randomness)",
        "methods/kernel/test_mechanism.py::test_noise_of_another_scale_is_rejected",
    ),
    bug(
        "embeddings: noise a quarter too large",
        KERNEL,
        "exact + rounded_gaussian(exact.shape, self.design.sigma, randomness)",
        "exact + rounded_gaussian(exact.shape, 1.25 * self.design.sigma, randomness)",
        "methods/kernel/test_mechanism.py::test_noise_of_another_scale_is_rejected",
    ),
    bug(
        "mixtures: noise a fifth too small",
        MIXTURES,
        "table = gaussian_table(design.sigma)",
        "table = gaussian_table(0.8 * design.sigma)",
        "methods/mixing/test_mechanism.py::test_the_noise_drawn_is_the_noise_charged",
    ),
    bug(
        "mixtures: noise a quarter too large",
        MIXTURES,
        "table = gaussian_table(design.sigma)",
        "table = gaussian_table(1.25 * design.sigma)",
        "methods/mixing/test_mechanism.py::test_the_noise_drawn_is_the_noise_charged",
    ),
    bug(
        "class statistics: noise a fifth too small",
        STATISTICS,
        "exact + rounded_gaussian(exact.shape, self.sigma, randomness)",
        "exact + rounded_gaussian(exact.shape, 0.8 * self.sigma, randomness)",
        "methods/mixing/test_mechanism.py::test_statistics_have_the_noise_that_is_charged",
    ),
    bug(
        "class statistics: noise a quarter too large",
        STATISTICS,
        "exact + rounded_gaussian(exact.shape, self.sigma, randomness)",
        "exact + rounded_gaussian(exact.shape, 1.25 * self.sigma, randomness)",
        "methods/mixing/test_mechanism.py::test_statistics_have_the_noise_that_is_charged",
    ),
    bug(
        "sampler: a fiftieth too wide",
        NOISE,
        "position = sigma * t",
        "position = 1.02 * sigma * t",
        "privacy/test_noise.py::test_every_certified_draw_equals_the_exact_one",
    ),
    bug(
        "rounding: half a deviation lost in the sampler",
        NOISE,
        "position = sigma * t",
        "position = 0.98 * sigma * t",
        "privacy/test_noise.py::test_variance_is_that_of_a_rounded_gaussian",
    ),
    bug(
        "sampler: the tail is cut",
        NOISE,
        "t = -ndtri(safe * 2.0**-64)",
        "t = np.minimum(-ndtri(safe * 2.0**-64), 4.0)",
        "privacy/test_noise.py::test_every_certified_draw_equals_the_exact_one",
    ),
    bug(
        "a variance taken for a standard deviation",
        "privacy/rounding.py",
        "return up(Fraction(noise_multiplier) * Fraction(sensitivity))",
        "return up(Fraction(noise_multiplier) ** 2 * Fraction(sensitivity))",
        "privacy/test_rounding.py::test_what_is_claimed_of_a_planned_std_is_the_plan_to_the_last_bit",
    ),
)
"""Noise of another scale than is charged, in either direction."""

SENSITIVITIES = (
    bug(
        "counts: the square root of 2 of a replaced row is lost",
        "privacy/relation.py",
        "root_up((2 if relation is Relation.REPLACE_ONE else 1) * max_rows**2)",
        "root_up(max_rows**2)",
        "counting/test_mechanism.py::test_the_sensitivity_is_reached_so_it_is_not_slack",
    ),
    bug(
        "counts: the rows of an entity are forgotten",
        "privacy/relation.py",
        "root_up((2 if relation is Relation.REPLACE_ONE else 1) * max_rows**2)",
        "root_up(2 if relation is Relation.REPLACE_ONE else 1)",
        "counting/test_mechanism.py::test_neighbour_replay",
    ),
    bug(
        "residuals: replacing taken for adding",
        RESIDUALS,
        "if relation is Relation.REPLACE_ONE:",
        "if False:",
        "counting/test_residuals.py::test_neighbour_replay_of_replaced_rows",
    ),
    bug(
        "residuals: the rows of an entity are forgotten",
        RESIDUALS,
        "return unit.max_rows**2 * worst",
        "return worst",
        "counting/test_residuals.py::test_neighbour_replay",
    ),
    bug(
        "residuals: shares that sum to 2",
        RESIDUALS,
        "square = Fraction(noise_multiplier) ** 2 * total",
        "square = Fraction(noise_multiplier) ** 2 * total / 2",
        "counting/test_residuals.py::test_the_budget_is_used_up_and_not_exceeded",
    ),
    bug(
        "moments: replacing taken for adding",
        MOMENTS,
        "if shape.relation is Relation.ADD_REMOVE:",
        "if True:",
        "methods/gaussian/test_mechanism.py::test_neighbours_differ_by_at_most_the_declared_sensitivity",
    ),
    bug(
        "moments: the rows of an entity are forgotten",
        MOMENTS,
        "return shape.max_rows**2 * row",
        "return row",
        "methods/gaussian/test_mechanism.py::test_neighbours_differ_by_at_most_the_declared_sensitivity",
    ),
    bug(
        "moments: another class is nearer than it is",
        MOMENTS,
        "worst = max(worst, 2 * row)",
        "pass",
        "methods/gaussian/test_mechanism.py::test_neighbours_differ_by_at_most_the_declared_sensitivity",
    ),
    bug(
        "moments: the exact count where rows come and go",
        MOMENTS,
        "return self.relation is Relation.REPLACE_ONE and not self.size_may_change and self.classes == 1",
        "return self.classes == 1",
        "methods/gaussian/test_method.py::test_the_count_is_exact_only_where_it_is_public",
    ),
    bug(
        "products: the square root of 2 instead of 2",
        PAIRS,
        "Fraction(radius) * (2 if self.relation is Relation.REPLACE_ONE else 1)",
        "Fraction(radius) * (Fraction(1.4143) if self.relation is Relation.REPLACE_ONE else 1)",
        "methods/gaussian/test_pairs.py::test_products_of_neighbours_differ_by_at_most_the_radius_allows",
    ),
    bug(
        "products: rows are not clipped",
        PAIRS,
        "factor = np.sqrt(target / np.maximum(norms, target))",
        "factor = np.ones_like(norms)",
        "methods/gaussian/test_pairs.py::test_products_of_neighbours_differ_by_at_most_the_radius_allows",
    ),
    bug(
        "embeddings: replacing does not double",
        KERNEL,
        "* (2 if self.relation is Relation.REPLACE_ONE else 1))",
        ")",
        "methods/kernel/test_mechanism.py::test_replacing_doubles_and_units_multiply_the_sensitivity",
    ),
    bug(
        "embeddings: the records of a unit are forgotten",
        KERNEL,
        "up(Fraction(self.record_norm) * self.rows_a_unit *",
        "up(Fraction(self.record_norm) *",
        "methods/kernel/test_mechanism.py::test_replacing_doubles_and_units_multiply_the_sensitivity",
    ),
    bug(
        "embeddings: the class size costs nothing",
        KERNEL,
        "square = self.blocks_a_release * self.features.largest_square + self.count_weight**2",
        "square = self.blocks_a_release * self.features.largest_square",
        "methods/kernel/test_mechanism.py::test_neighbours_differ_by_at_most_the_sensitivity",
    ),
    bug(
        "class statistics: squares cost nothing",
        STATISTICS,
        "root_up((self.sums + self.squares) * NORM_BOUND**2",
        "root_up(self.sums * NORM_BOUND**2",
        "methods/mixing/test_mechanism.py::test_statistics_move_by_at_most_their_sensitivity",
    ),
    bug(
        "mixtures: norms are not bounded",
        GRID,
        "if square <= limit:\n            continue",
        "if True:\n            continue",
        "methods/mixing/test_mechanism.py::test_the_norm_bound_is_exact",
    ),
    bug(
        "mixtures: clipped after the sum",
        MIXTURES,
        "_sum_one(records, rows, members[starts[t] : starts[t + 1]], out[t])",
        "_sum_one(records, rows, members[starts[t] : starts[t + 1]], out[t])\n"
        "        for j in range(width):\n            out[t, j] = min(max(8 * out[t, j], -9000), 9000)",
        "methods/mixing/test_mechanism.py::test_neighbour_replay",
    ),
    bug(
        "mixtures: charged at the rate l/N of the table, drawn at that of the class",
        MIXTURES,
        "return SelfComposed(PoissonSampled(self.inclusion, Gaussian(multiplier)), mixtures)",
        "return SelfComposed(PoissonSampled(self.inclusion / 10, Gaussian(multiplier)), mixtures)",
        "methods/mixing/test_mechanism.py::test_events_name_the_right_rate_and_multiplier",
    ),
    bug(
        "mixtures of a fixed size: the rate l/N of the table",
        MIXTURES,
        "up(Fraction(self.order, self.minimum))",
        "up(Fraction(self.order, 10 * self.minimum))",
        "methods/mixing/test_mechanism.py::test_neighbour_replay_in_small_classes",
    ),
    bug(
        "mixtures: more of a class than was charged",
        MIXTURES,
        "wanted = [min(count, self.mixtures) for count in exact.wanted]",
        "wanted = list(exact.wanted)",
        "methods/mixing/test_mechanism.py::test_a_slice_never_holds_more_than_it_charges",
    ),
    bug(
        "choices: the sensitivity of a replaced row",
        "counting/adaptive.py",
        "* (2 if self.counts.relation is Relation.REPLACE_ONE else 1)",
        "* 1",
        "counting/test_adaptive.py::test_neighbour_replay_of_the_scores",
    ),
    bug(
        "choices: one factor of 2 too many in the exponent",
        "privacy/noise/selection.py",
        "* epsilon / (2 * sensitivity)",
        "* epsilon / sensitivity",
        "privacy/test_selection.py::test_candidates_are_chosen_with_exponential_weights_and_a_wrong_epsilon_is_caught",
    ),
    bug(
        "choices: one factor of 2 too few in the exponent",
        "privacy/noise/selection.py",
        "* epsilon / (2 * sensitivity)",
        "* epsilon / (4 * sensitivity)",
        "privacy/test_selection.py::test_candidates_are_chosen_with_exponential_weights_and_a_wrong_epsilon_is_caught",
    ),
    bug(
        "pseudo-records: fewer in the fit than in the proof",
        "methods/gaussian/sampling_noise.py",
        "fitted_normal(products, layout, self.pseudo)",
        "fitted_normal(products, layout, self.pseudo // 4)",
        "methods/gaussian/test_sampling_noise.py::test_the_fit_has_the_pseudo_records_that_its_event_counts_on",
    ),
)
"""What one unit can move, understated."""

DRAWS = (
    bug(
        "noise in floats",
        COUNTS,
        "counts.astype(np.int64) + sample(counts.shape, std, randomness)",
        "counts + np.random.default_rng().normal(0, std, counts.shape)",
        "counting/test_mechanism.py::test_neighbour_replay",
    ),
    bug(
        "a seed on the privacy path",
        NOISE,
        "return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)",
        "return np.random.default_rng(7).integers(0, 2**64, count, dtype=np.uint64)",
        "privacy/test_noise.py::test_production_randomness_takes_no_seed_and_repeats_nothing",
    ),
    bug(
        "one key for every long request",
        NOISE,
        "return _stretched(os.urandom(32), count)",
        "return _stretched(bytes(32), count)",
        "privacy/test_noise.py::test_every_long_request_has_a_key_of_its_own_and_keeps_nothing",
    ),
    bug(
        "steps: the realised batch is the divisor",
        KERNEL,
        "design.features.add(self.first + step, records[chosen], labels[chosen], totals[step])",
        "design.features.add(self.first + step, records[chosen], labels[chosen], totals[step])\n"
        "            totals[step] = 64 * totals[step] // max(1, len(chosen))",
        "methods/kernel/test_mechanism.py::test_neighbours_of_steps_differ_by_at_most_the_sensitivity_a_step",
    ),
    bug(
        "steps: a gradient without noise",
        KERNEL,
        "totals + rounded_gaussian(totals.shape, design.sigma, randomness)",
        "totals + 0 * rounded_gaussian(totals.shape, design.sigma, randomness)",
        "methods/kernel/test_mechanism.py::test_a_step_with_nobody_in_it_is_pure_noise",
    ),
    bug(
        "steps: everybody is always in the sample",
        KERNEL,
        "poisson_draw(len(records), self.steps, design.rate, randomness)",
        "poisson_draw(len(records), self.steps, 1.0, randomness)",
        "methods/kernel/test_mechanism.py::test_a_record_is_in_a_step_as_often_as_is_charged",
    ),
    bug(
        "coins that fall too often",
        "privacy/noise/sampling.py",
        "quotient = (np.log(safe) - 64 * np.log(2.0)) / np.log1p(-rate)",
        "quotient = (np.log(safe) - 64 * np.log(2.0)) / np.log1p(-min(0.999, 1.3 * rate))",
        "privacy/test_sampling.py::test_every_coin_falls_at_the_rate",
    ),
    bug(
        "fixed-size draws of a class that is not filled up",
        "privacy/noise/sampling.py",
        "population = max(records, minimum)",
        "population = max(records, order)",
        "privacy/test_sampling.py::test_a_small_class_is_filled_up_to_the_minimum",
    ),
)
"""What is drawn is not what is said to be drawn."""

"""Charges: events that say less than is lost, and ways past an account's cap."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant, bug

COUNTS, RESIDUALS = "counting/mechanism.py", "counting/residuals.py"
KERNEL, MIXTURES = "methods/kernel/mechanism.py", "methods/mixing/mechanism.py"
NOISE, SPEND = "privacy/noise/rounded.py", "privacy/ledger/spend.py"
LEDGER, ROWS = "privacy/ledger/ledger.py", "privacy/ledger/rows.py"

EVENTS = (
    bug(
        "counts: an event that understates",
        COUNTS,
        "square = self.stacked * sum_of_squares(",
        "square = sum_of_squares(",
        "counting/test_mechanism.py::test_stacked_marginals_are_counted_one_by_one",
    ),
    bug(
        "embeddings: an event of half the loss",
        KERNEL,
        "return Gaussian(claimed(self.sigma, self.sensitivity))",
        "return Gaussian(2 * claimed(self.sigma, self.sensitivity))",
        "methods/kernel/test_mechanism.py::test_the_event_is_that_of_the_noise_drawn",
    ),
    bug(
        "fixed-size draws charged as Poisson samples",
        MIXTURES,
        "return SelfComposed(fixed_size_curve(self.inclusion, multiplier), mixtures)",
        "return SelfComposed(PoissonSampled(self.inclusion, Gaussian(multiplier)), mixtures)",
        "methods/mixing/test_fixed_size.py::"
        "test_fixed_size_draws_are_charged_by_the_curve_and_cost_more_than_a_dominating_pair_would",
    ),
    bug(
        "the door does not compare events",
        SPEND,
        "if mechanism.event == charge.event == request.event:",
        "if True:",
        "methods/test_door.py::test_a_difference_in_the_last_bit_is_refused_before_the_charge",
    ),
    bug(
        "a claimed multiplier rounded up",
        "privacy/rounding.py",
        "return down(Fraction(std) / Fraction(sensitivity), CLAIMED_BITS)",
        "return up(Fraction(std) / Fraction(sensitivity), CLAIMED_BITS)",
        "privacy/test_rounding.py::test_what_is_claimed_of_a_planned_std_is_the_plan_to_the_last_bit",
    ),
    bug(
        "epsilon told to the nearest digit",
        "privacy/stating.py",
        "return _significant(value, digits, ROUND_CEILING)",
        'return _significant(value, digits, "ROUND_HALF_EVEN")',
        "privacy/test_stating.py::test_what_is_told_bounds_what_holds",
    ),
    bug(
        "a large multiplier is free",
        "privacy/curves.py",
        "return math.inf if z < _LEAST else max(2 / z / z, math.ulp(0.0))",
        "return math.inf if z < _LEAST else 0.0",
        "privacy/test_filters.py::test_events_of_any_size_are_counted_none_for_free_and_none_raises",
    ),
    bug(
        "parallel parts under replacement",
        "privacy/curves.py",
        "if relation is Relation.REPLACE_ONE and any(",
        "if False and any(",
        "privacy/test_accounting.py::test_parallel_counts_the_worst_branch",
    ),
)
"""What is charged is less than what is lost."""

CAP = (
    bug(
        "the natural filter of privacy loss distributions",
        "privacy/filters.py",
        "return gaussian_epsilon(math.sqrt(counted), delta)",
        "return gaussian_epsilon(math.sqrt(counted), delta) / 1.2",
        "privacy/test_filters.py::test_gdp_counts_any_sequence_alike_in_any_order_and_exactly_as_fixed_events_cost",
    ),
    Mutant(
        "an account whose releases compose as if they were fixed",
        "tests/privacy/test_adaptive_analyst.py::"
        "test_whatever_a_real_account_accepts_after_any_first_output_stays_within_the_cap",
        (
            Edit(
                "pipelines/privacy/filters.py",
                "    counted = rule.counted(events, relation)\n    if own_delta_of",
                "    from understudy.pipelines.privacy.accounting import composed_loss\n"
                "    fixed = [event for event, times in events for _ in range(times)]\n"
                "    return composed_loss(fixed, float(cap.delta), relation)\n"
                "    counted = rule.counted(events, relation)\n    if own_delta_of",
            ),
        ),
    ),
    bug(
        "own deltas paid out of what noise leaves",
        "privacy/filters.py",
        "if own_delta_of(events) > rule.own_delta:",
        "if False:",
        "privacy/test_filters.py::test_deltas_of_their_own_are_held_by_what_was_set_aside_and_by_nothing_else",
    ),
    bug(
        "the cap is not asked in the transaction",
        LEDGER,
        "rows.affordable(account, rows.event_counts(connection, account.name), [request.event], request.release)",
        "rows.affordable(account, (), [request.event], request.release)",
        "privacy/ledger/test_charging.py::test_remaining_is_exactly_what_the_ledger_then_accepts",
    ),
    Mutant(
        "what is spent is read before the transaction",
        "tests/faults/test_races.py::test_a_race_never_overspends",
        (
            Edit(
                "pipelines/privacy/ledger/ledger.py",
                "        known = self._checkpoints.load(request.account)\n\n"
                "        def work(connection: Connection) -> tuple[Charge, Checked]:\n"
                "            account = rows.get_account(connection, request.account, lock=True)\n"
                "            found = rows.find_charge",
                "        known = self._checkpoints.load(request.account)\n"
                "        spent = self._database.read(lambda each: rows.event_counts(each, request.account))\n\n"
                "        def work(connection: Connection) -> tuple[Charge, Checked]:\n"
                "            account = rows.get_account(connection, request.account, lock=True)\n"
                "            found = rows.find_charge",
            ),
            Edit(
                "pipelines/privacy/ledger/ledger.py",
                "rows.affordable(account, rows.event_counts(connection, account.name), [request.event]",
                "rows.affordable(account, spent, [request.event]",
            ),
        ),
    ),
    bug(
        "the account is not locked while it is asked",
        LEDGER,
        "account = rows.get_account(connection, request.account, lock=True)\n            found = rows.find_charge",
        "account = rows.get_account(connection, request.account)\n            found = rows.find_charge",
        "faults/test_races.py::test_a_race_never_overspends",
    ),
    bug(
        "a cap raised by hand is believed",
        "privacy/ledger/checking.py",
        "if {key: getattr(row, key) for key in _TERMS} != dict(checked.terms):",
        "if False:",
        "privacy/ledger/test_checking.py::test_each_edit_by_hand_stops_the_next_charge",
    ),
    bug(
        "an event softened by hand is believed",
        "privacy/ledger/checking.py",
        "    _require_charges(connection, account, checked)\n    return checked",
        "    return checked",
        "privacy/ledger/test_checking.py::test_each_edit_by_hand_stops_the_next_charge",
    ),
    bug(
        "a history cut short is believed",
        "privacy/ledger/checking.py",
        "    _require_line(connection, account, known)\n",
        "",
        "privacy/ledger/test_checking.py::"
        "test_a_history_cut_without_a_trace_is_missed_by_verify_and_found_by_what_was_checked",
    ),
    bug(
        "another relation or unit than the account's",
        ROWS,
        "if (request.relation, request.unit) != (account.relation, account.unit):",
        "if False:",
        "privacy/ledger/test_charging.py::test_other_relation_or_unit_than_the_account",
    ),
    bug(
        "burnt charges are refunded",
        ROWS,
        "def event_counts(connection: Connection, account: str) -> EventCounts:",
        "def event_counts(connection: Connection, account: str) -> EventCounts:\n"
        "    return _unburnt(connection, account)\n\n\n"
        "def _unburnt(connection: Connection, account: str) -> EventCounts:\n"
        "    from sqlalchemy import select\n"
        "    found = connection.execute(select(charges.c.event).where(charges.c.account == account,"
        " charges.c.state != 'BURNT')).scalars()\n"
        "    return tuple((_event(text), 1) for text in found)\n\n\n"
        "def _all_event_counts(connection: Connection, account: str) -> EventCounts:",
        "privacy/ledger/test_charging.py::test_a_burnt_charge_takes_no_measurement_and_is_never_refunded",
    ),
    bug(
        "the row-count fence of T2 is gone",
        LEDGER,
        "update(charges).where(charges.c.mid == mid, charges.c.state == State.CHARGED.value)\n            if holder",
        "update(charges).where(charges.c.mid == mid)\n            if holder",
        "privacy/ledger/test_charging.py::test_a_burnt_charge_takes_no_measurement_and_is_never_refunded",
    ),
    bug(
        "redrawn on retry",
        SPEND,
        "return self._reuse(self._settled(found))",
        "return mechanism.draw(self._randomness)",
        "privacy/ledger/test_spend.py::test_buying_again_spends_nothing_and_draws_nothing",
    ),
    bug(
        "drawn again after the first draw failed",
        SPEND,
        "measurement = mechanism.draw(self._randomness)",
        "try:\n                measurement = mechanism.draw(self._randomness)\n            except Exception:\n"
        "                measurement = mechanism.draw(self._randomness)",
        "privacy/ledger/test_spend.py::test_an_error_in_the_draw_burns_the_charge_and_quotes_nothing",
    ),
    bug(
        "a ledger that forgot is charged",
        "privacy/ledger/memory.py",
        "if not forgotten:",
        "if True:",
        "privacy/ledger/test_spend.py::test_a_ledger_older_than_its_measurements_is_refused",
    ),
    bug(
        "a home restored beside its releases is charged",
        "releasing/recording.py",
        "if not unknown:",
        "if True:",
        "flows/test_forgetting.py::test_a_home_restored_whole_pays_for_nothing_beside_a_release_that_knows_more",
    ),
    bug(
        "a measurement of another source is used",
        ROWS,
        "if found.state is State.BURNT or not known or not request.source or known == request.source:",
        "if True:",
        "releasing/test_source_identity.py::"
        "test_the_same_spec_beside_another_file_does_not_find_the_first_ones_measurement",
    ),
    bug(
        "a period for every snapshot text",
        "releasing/rolling.py",
        "    return period_named(spec.rolling.period, spec.source.snapshot)\n\n\ndef event_of",
        "    try:\n        return period_named(spec.rolling.period, spec.source.snapshot)\n    except SpecError:\n"
        "        with __import__('contextlib').suppress(ValueError):\n"
        "            day = __import__('datetime').date.fromisoformat(spec.source.snapshot)\n"
        "            return Period('day', day, day)\n        raise\n\n\ndef event_of",
        "releasing/test_period_entries.py::test_days_are_no_months",
    ),
    bug(
        "a period's rows by what the spec says, not by their dates",
        "sources/period.py",
        "return wanted if stays.all() else wanted.take(pa.array(np.flatnonzero(stays)))",
        "return wanted",
        "sources/test_period.py::test_a_row_belongs_to_a_period_by_its_own_value_alone",
    ),
)
"""How an account's cap was or could be passed."""

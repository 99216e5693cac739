"""A table of taxi trips that nobody rode: public, made by this generator, with the habits of such tables.

Trips crowd the rush hours of weekdays and the nights before Saturday and Sunday. Fares grow with the time driven. Cash
leaves no tip on record, so that more than a third of the tips are exactly 0; nine of ten trips pay no toll, and the
tolls that are paid are a few tariffs. The total is the sum of its parts to the cent. A few rows are wrong, as they are
in such tables: ended before they began, or days later.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

ROWS = 81_000
WEEKS = 13
TARIFFS = (2.80, 6.55, 6.94, 12.00, 16.00)


def taxi_trips(rows: int = ROWS, seed: int = 18) -> pa.Table:
    rng = np.random.default_rng(seed)
    weekday = rng.choice(7, rows, p=[0.12, 0.13, 0.14, 0.15, 0.17, 0.16, 0.13])
    week = rng.choice(WEEKS, rows, p=np.linspace(1.3, 0.7, WEEKS) / WEEKS)
    workday = np.array([3, 2, 1.5, 1, 1, 1.5, 3, 6, 8, 7, 6, 6, 6.5, 6.5, 7, 7, 7, 8.5, 9.5, 9.5, 8.5, 8, 7, 5])
    weekend = np.array([9, 8, 7, 5.5, 3.5, 1.5, 1, 1.5, 2.5, 4, 5.5, 6.5, 7, 7, 7, 7, 7, 7, 8, 8.5, 8, 8, 8.5, 9])
    hours = np.where(
        (weekday < 5)[:, None], (workday / workday.sum()).cumsum()[None, :], (weekend / weekend.sum()).cumsum()[None, :]
    )
    hour = (rng.random(rows)[:, None] > hours).sum(axis=1).clip(0, 23)
    day = np.datetime64("2026-01-05") + (week * 7 + weekday).astype("timedelta64[D]")
    second = (hour * 3600 + rng.integers(0, 3600, rows)).astype("timedelta64[s]")
    pickup = day.astype("datetime64[us]") + second
    slow = 1.0 + 0.35 * ((hour >= 7) & (hour <= 19))
    seconds = np.clip(np.round(rng.lognormal(6.35, 0.62, rows) * slow), 20, 14_000)
    fare = np.round(2.5 + np.maximum(seconds, 60) / 60 * rng.lognormal(-0.25, 0.28, rows) * 2, 1)
    tolls = np.where(rng.random(rows) < 0.098, rng.choice(TARIFFS, rows, p=[0.1, 0.25, 0.45, 0.15, 0.05]), 0.0)
    card = rng.random(rows) < 0.68
    tip = np.where(
        card & (rng.random(rows) < 0.94), np.round(fare * rng.choice([0.1, 0.18, 0.2, 0.25, 0.3], rows), 2), 0
    )
    wrong = rng.random(rows)
    lapse = np.where(wrong < 0.001, -seconds, np.where(wrong > 0.999, 400_000, seconds))
    return pa.table(
        {
            "pickup": pickup,
            "dropoff": pickup + lapse.astype("timedelta64[s]"),
            "payment": np.where(card, "card", "cash"),
            "fare": fare,
            "tip": tip,
            "tolls": tolls,
            "total": np.round(fare + tip + tolls, 2),
        }
    )


def incomes(rows: int = 210_000, seed: int = 19) -> pa.Table:
    """Yearly incomes of grown-ups: a tenth have none, a few have losses, the others are log-normal by age."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.gamma(6, 8, rows)), 16, 94).astype(np.int64)
    middle = 10.1 + 0.02 * np.minimum(age, 55)
    income = np.round(rng.lognormal(middle, 0.75))
    kind = rng.random(rows)
    income = np.where(kind < 0.1, 0, np.where(kind < 0.1035, -np.round(rng.lognormal(8, 0.9, rows)), income))
    sex = np.where(rng.random(rows) < 0.51, "F", "M")
    return pa.table({"age": age, "sex": sex, "income": np.clip(income, -19_998, 2_000_000).astype(np.int64)})

"""A sliced release through the real ledger and store: bought once, read back slice by slice, free ever after."""

import numpy as np
import pandas as pd

import understudy
from understudy.pipelines.methods.mixing import design as design_module
from understudy.pipelines.methods.mixing import slices
from understudy.pipelines.methods.mixing.slices import SlicedArrays
from understudy.pipelines.privacy.ledger.ledger import Ledger

SPEC = {
    "name": "flowers",
    "snapshot": "2026-10",
    "privacy": {"account": "garden", "epsilon": 2, "delta": 1e-6},
    "columns": {
        "length": {"type": "number", "min": 0, "max": 10},
        "width": {"type": "number", "min": 0, "max": 5},
        "kind": {"type": "category", "values": ["rose", "daisy"]},
    },
    "method": {"name": "mixing", "label": "kind", "rows": 400, "order": 8},
}


def flowers():
    rng = np.random.default_rng(0)
    kind = rng.choice(["rose", "daisy"], 400)
    length = np.where(kind == "rose", 7.0, 3.0) + rng.normal(0, 0.5, 400)
    return pd.DataFrame({"length": length, "width": rng.normal(2, 0.4, 400), "kind": kind})


def test_slices_are_paid_for_once_and_read_back_from_the_store(monkeypatch, tmp_path):
    monkeypatch.setattr(design_module, "SLICE_NUMBERS", 2 * 2 * 90)
    monkeypatch.setattr(slices, "TABLE_BYTES", 1000)
    first = understudy.Synthesizer(SPEC, cap=(3, 1e-5), home=tmp_path).fit(flowers())
    assert isinstance(first._fitted.measured.arrays, SlicedArrays)
    table = first.sample()
    assert table.num_rows == 400
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    stages = [charge.stage for charge in ledger.charges("garden")]
    assert sorted(stages) == ["class-statistics", *(f"mixtures-{n:05d}" for n in range(3))]
    again = understudy.Synthesizer(SPEC, home=tmp_path).fit(flowers().iloc[:0])
    assert again.sample().equals(table)  # the same stored slices, whatever rows are passed
    plain = understudy.Synthesizer({**SPEC, "generate": {"denoise": "none"}}, home=tmp_path).fit(flowers().iloc[:0])
    assert not plain.sample().equals(table)
    assert len(ledger.charges("garden")) == len(stages)


def test_a_release_of_one_charge_is_found_again(tmp_path):
    """Public class sizes and centres: nothing is bought but the mixtures, and what is stored must be all of it."""
    public = {"centre": "bounds", "class_sizes": {"rose": 200, "daisy": 200}, "records": 100}
    spec = {**SPEC, "method": {**SPEC["method"], **public}}
    first = understudy.Synthesizer(spec, cap=(3, 1e-5), home=tmp_path).fit(flowers())
    again = understudy.Synthesizer(spec, home=tmp_path).fit(flowers().iloc[:0])
    assert again.reused
    assert again.sample().equals(first.sample())
    assert [charge.stage for charge in Ledger(f"sqlite:///{tmp_path / 'ledger.db'}").charges("garden")] == ["mixtures"]

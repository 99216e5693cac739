from __future__ import annotations

import json
import os
import resource

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger import shelves
from understudy.pipelines.privacy.ledger import store as measurement_store
from understudy.pipelines.privacy.ledger.fault_points import FaultInjected
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement

MID = "0123456789abcdef" * 4
CHARGE = {"holder": "me", "attempt": 0}
ARRAYS = {
    "0,1": np.arange(12, dtype=np.int64).reshape(3, 4) - 5,
    "empty": np.zeros((0, 3), dtype=np.float32),
    "scalar": np.array(2.5),
    "flags": np.array([True, False]),
    "extreme": np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]),
    "special": np.array([np.nan, np.inf, -0.0, 5e-324]),
}


@pytest.fixture
def store(tmp_path):
    return MeasurementStore(tmp_path / "measurements")


@pytest.fixture
def stored(store):
    return store.save(MID, Measurement("counts", {"std": 0.1, "names": ["a", "ü"]}, ARRAYS), CHARGE)


def test_what_is_stored_comes_back_bit_for_bit(store, stored):
    loaded = store.load(MID, stored)
    assert (loaded.kind, loaded.facts) == ("counts", {"std": 0.1, "names": ["a", "ü"]})
    assert list(loaded.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert (loaded.arrays[name].dtype, loaded.arrays[name].shape) == (array.dtype, array.shape)
        assert loaded.arrays[name].tobytes() == array.tobytes()
        assert not loaded.arrays[name].flags.writeable


@given(
    array=st.sampled_from(["bool", "int8", "int32", "int64", "uint8", "uint32", "float32", "float64"]).flatmap(
        lambda dtype: npst.arrays(dtype, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    )
)
@settings(max_examples=60, deadline=None)
def test_any_array_round_trips(array):
    back = measurement_store._from_parquet(measurement_store._to_parquet({"x": array}))["x"]
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([{}], dtype=object), np.array([1j])])
def test_nothing_executable_or_private_looking_can_be_stored(store, array):
    with pytest.raises(TypeError, match="cannot hold"):
        store.save(MID, Measurement("x", {}, {"a": array}), CHARGE)
    assert not store.holds(MID)


def test_a_measurement_is_never_overwritten(store, stored):
    with pytest.raises(OSError):
        store.save(MID, Measurement("counts", {}, {}), CHARGE)
    assert store.load(MID, stored).kind == "counts"
    assert [path.name for path in store.root.iterdir()] == [MID]


@given(data=st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_flipped_bit_or_lost_tail_is_refused(store, data):
    mid = data.draw(st.text("0123456789abcdef", min_size=64, max_size=64))
    if not store.holds(mid):
        store.save(mid, Measurement("counts", {"std": 0.1}, ARRAYS), CHARGE)
    sha256 = store._document(mid)[1]
    path = store.path(mid) / data.draw(st.sampled_from(["measurement.json", "arrays.parquet"]))
    whole = path.read_bytes()
    torn = bytearray(whole)
    if data.draw(st.booleans()):
        torn = torn[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        torn[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(torn)
    with pytest.raises(LedgerError, match=r"damaged|version|cannot be read") as refused:
        store.load(mid, sha256)
    assert refused.value.fix
    assert path.name != "arrays.parquet" or store.recover(mid, CHARGE) is None
    path.write_bytes(whole)
    store.load(mid, sha256)


@pytest.mark.parametrize("name", ["measurement.json", "arrays.parquet"])
def test_a_missing_file_is_refused_and_not_recovered(store, stored, name):
    (store.path(MID) / name).unlink()
    with pytest.raises(LedgerError, match="cannot be read") as refused:
        store.load(MID, stored)
    assert "never drawn again" in refused.value.fix
    assert store.recover(MID, CHARGE) is None


def test_a_measurement_moved_to_another_charge_is_refused(store, stored):
    other = MID[::-1]
    store.path(MID).rename(store.path(other))
    with pytest.raises(LedgerError, match="something else"):
        store.load(other, stored)


def test_a_newer_format_is_refused(store, stored):
    path = store.path(MID) / "measurement.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 2}))
    with pytest.raises(LedgerError, match="format version 2"):
        store.load(MID, stored)


def test_only_the_attempt_that_drew_it_can_be_recovered(store, stored):
    assert store.recover(MID, CHARGE) == stored
    assert store.recover(MID, {**CHARGE, "holder": "somebody else"}) is None
    assert store.recover(MID[::-1], CHARGE) is None


def test_mids_cannot_leave_the_directory(store):
    for wrong in ("../" + MID, "", MID[:-1], MID.upper()):
        with pytest.raises(ValueError, match="hexadecimal"):
            store.path(wrong)


def test_a_failed_write_leaves_nothing_behind(store, monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_FAULT", "measurement_staged:raise")
    with pytest.raises(FaultInjected):
        store.save(MID, Measurement("counts", {}, ARRAYS), CHARGE)
    assert list(store.root.iterdir()) == []


def test_ready_finds_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="Nothing was charged"):
        MeasurementStore(tmp_path / "file").ready()


def test_ready_finds_a_disk_without_room(store, monkeypatch):
    monkeypatch.setattr(shelves, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(LedgerError, match="free in"):
        store.ready()
    assert list(store.root.iterdir()) == []


def test_ready_finds_a_quota(store):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(LedgerError, match="Nothing was charged"):
            store.ready()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(store.root) == []

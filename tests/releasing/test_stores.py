"""One contract for every place that measurements are kept in: a directory, the ledger's PostgreSQL, an object store."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.postgres import new_database
from tests.privacy.ledger.conftest import UNIT, Bench
from understudy.pipelines.errors import ChargeBurnt, LedgerError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import FaultInjected
from understudy.pipelines.privacy.ledger.ledger import Holder, Ledger, State
from understudy.pipelines.privacy.ledger.shelves import DirectoryShelf, Shelf, StoreAway
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.releasing.backing_up import back_up, restore
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace

MID = "0123456789abcdef" * 4
CHARGE = {"holder": "me", "attempt": 0}
ARRAYS = {"counts": np.arange(12).reshape(3, 4) - 5, "empty": np.zeros((0, 3), dtype=np.float32)}
MEASUREMENT = Measurement("counts", {"std": 0.1, "names": ["a", "ü"]}, ARRAYS)
FILES = ["measurement.json", "arrays.parquet"]


@dataclass(frozen=True)
class Place:
    """A shelf as configured, opened anew by every `open` as another process would, and a way to change it by hand."""

    workspace: Workspace
    change: Callable[[str, str, Callable[[bytes], bytes]], None]

    def open(self) -> MeasurementStore:
        return store_of(self.workspace)


@pytest.fixture(params=["directory", "ledger", "s3", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    home, sqlite = tmp_path / "home", f"sqlite:///{tmp_path}/home/ledger.db"
    if request.param == "directory":
        return Place(
            Workspace(home, sqlite), lambda mid, name, edit: _edit_file(home / "measurements" / mid / name, edit)
        )
    if request.param == "ledger":
        url = new_database()
        return Place(Workspace(home, url, store="ledger"), lambda mid, name, edit: _edit_row(url, mid, name, edit))
    bucket = request.getfixturevalue("bucket") if request.param == "s3" else tmp_path.name
    uri = f"{request.param}://{bucket}/kept"
    return Place(Workspace(home, sqlite, store=uri), lambda mid, name, edit: _edit_object(uri, mid, name, edit))


def _edit_file(path: Path, edit: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit(path.read_bytes()))


def _edit_row(url: str, mid: str, name: str, edit: Callable[[bytes], bytes]) -> None:
    column = "document" if name == FILES[0] else "arrays"
    with psycopg.connect(url.replace("+psycopg", "", 1)) as connection:
        found = connection.execute(f"SELECT {column} FROM understudy_measurements WHERE mid = %s", (mid,)).fetchone()
        assert found is not None
        connection.execute(f"UPDATE understudy_measurements SET {column} = %s WHERE mid = %s", (edit(found[0]), mid))


def _edit_object(uri: str, mid: str, name: str, edit: Callable[[bytes], bytes]) -> None:
    import fsspec

    path = f"{uri}/{mid}.zip"
    files = fsspec.filesystem(uri.partition(":")[0])
    with zipfile.ZipFile(io.BytesIO(files.cat_file(path))) as packed:
        parts = {each: packed.read(each) for each in packed.namelist()}
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as packed:
        for each, content in {**parts, name: edit(parts[name])}.items():
            packed.writestr(each, content)
    files.pipe_file(path, sink.getvalue())


def test_what_is_stored_comes_back_bit_for_bit(place: Place) -> None:
    store = place.open()
    assert (store.mids(), store.holds(MID), store.recover(MID, CHARGE)) == ([], False, None)
    store.ready()
    assert store.mids() == []
    sha256 = store.save(MID, MEASUREMENT, CHARGE)
    other = place.open()
    loaded = other.load(MID, sha256)
    assert (loaded.kind, loaded.facts) == ("counts", MEASUREMENT.facts)
    for name, array in ARRAYS.items():
        assert (loaded.arrays[name].dtype, loaded.arrays[name].shape) == (array.dtype, array.shape)
        assert loaded.arrays[name].tobytes() == array.tobytes()
    assert loaded.shelved().read().arrays["counts"].tolist() == ARRAYS["counts"].tolist()
    assert (other.mids(), other.holds(MID), other.charge_facts(MID)) == ([MID], True, CHARGE)


def test_a_measurement_is_never_replaced(place: Place) -> None:
    store = place.open()
    sha256 = store.save(MID, MEASUREMENT, CHARGE)
    with pytest.raises((OSError, LedgerError)):
        place.open().save(MID, Measurement("counts", {"std": 0.2}, ARRAYS), CHARGE)
    assert store.load(MID, sha256).facts["std"] == 0.1
    assert store.mids() == [MID]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("edit", [lambda b: b[:-1], lambda b: bytes([b[0] ^ 1]) + b[1:], lambda b: b""])
def test_what_was_changed_is_refused_and_not_recovered(place: Place, name: str, edit: Callable[[bytes], bytes]) -> None:
    store = place.open()
    sha256 = store.save(MID, MEASUREMENT, CHARGE)
    assert store.recover(MID, CHARGE) == sha256
    place.change(MID, name, edit)
    with pytest.raises(LedgerError, match=r"damaged|cannot be read") as refused:
        place.open().load(MID, sha256)
    assert "never drawn again" in refused.value.fix
    assert place.open().recover(MID, CHARGE) is None


def test_only_the_attempt_that_drew_it_can_be_recovered(place: Place) -> None:
    store = place.open()
    sha256 = store.save(MID, MEASUREMENT, CHARGE)
    assert store.recover(MID, CHARGE) == sha256
    assert store.recover(MID, {**CHARGE, "holder": "somebody else"}) is None
    with pytest.raises(LedgerError, match="not the file the ledger recorded"):
        store.load(MID, "0" * 64)


def test_a_failed_put_leaves_nothing_to_be_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.open()
    monkeypatch.setenv("UNDERSTUDY_FAULT", "measurement_staged:raise")
    with pytest.raises(FaultInjected):
        store.save(MID, MEASUREMENT, CHARGE)
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    assert (store.mids(), store.holds(MID)) == ([], False)
    store.save(MID, MEASUREMENT, CHARGE)
    assert store.mids() == [MID]


def test_what_is_discarded_is_gone_and_gone_twice_is_gone(place: Place) -> None:
    store = place.open()
    store.discard(MID)
    sha256 = store.save(MID, MEASUREMENT, CHARGE)
    store.discard(MID)
    store.discard(MID)
    assert (store.mids(), store.holds(MID)) == ([], False)
    with pytest.raises(LedgerError, match="cannot be read"):
        store.load(MID, sha256)


def test_mids_are_names_and_nothing_else(place: Place) -> None:
    store = place.open()
    for wrong in ("../" + MID, "", MID[:-1], MID.upper()):
        for use in (store.holds, store.discard, store.charge_facts):
            with pytest.raises(ValueError, match="hexadecimal"):
                use(wrong)


def bench_at(place: Place, ledger: Ledger | None = None) -> Bench:
    ledger = ledger or Ledger(place.workspace.ledger_url)
    account = ledger.open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"))
    return Bench(place.workspace.ledger_url, ledger, place.open(), account)


def test_spending_once_holds_in_every_place(place: Place) -> None:
    bench = bench_at(place)
    first = bench.buy("2026-01")
    again = bench_at(place)
    assert again.buy("2026-01").arrays["0,1"].tolist() == first.arrays["0,1"].tolist()
    assert (again.draws, again.events) == ([], ["reused"])
    bench.ledger.charge(bench.request("2026-02"), Holder.here())
    with pytest.raises(ChargeBurnt):
        again.buy("2026-02")
    assert again.draws == []


def test_a_measurement_whose_recording_was_cut_off_is_finished_elsewhere(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_at(place)
    with monkeypatch.context() as cut:
        cut.setattr(bench.ledger, "record_measurement", lambda *_: pytest.fail("killed before T2"))
        with pytest.raises(pytest.fail.Exception):
            bench.buy("2026-01")
    other = bench_at(place)
    other.buy("2026-01")
    assert (other.draws, other.events) == ([], ["measured", "reused"])
    assert [charge.state for charge in other.ledger.charges("clinic")] == [State.MEASURED]


def test_a_backup_of_any_place_restores_into_any(place: Place, tmp_path: Path) -> None:
    """Also how measurements move: back up, name the new place in UNDERSTUDY_STORE, restore."""
    bench = bench_at(place)
    bench.buy("2026-01")
    back_up(place.workspace, place.open(), tmp_path / "backup")
    url = new_database()
    moved = Workspace(tmp_path / "new", url, store="ledger")
    assert restore(moved, store_of(moved), tmp_path / "backup").measurements == 1
    lost = Workspace(place.workspace.home, place.workspace.ledger_url, store=str(tmp_path / "elsewhere"))
    assert restore(lost, store_of(lost), tmp_path / "backup").measurements == 1
    assert store_of(moved).mids() == store_of(lost).mids() == place.open().mids()


class Away(DirectoryShelf):
    def read(self, mid: str, name: str) -> bytes:
        raise StoreAway("The network is down.", "Wait.")


def test_a_charge_is_not_burnt_because_the_store_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    bench = bench_at(Place(Workspace(tmp_path, url), lambda *_: None))
    with monkeypatch.context() as cut:
        cut.setattr(bench.ledger, "record_measurement", lambda *_: pytest.fail("killed before T2"))
        with pytest.raises(pytest.fail.Exception):
            bench.buy("2026-01")
    shelf: Shelf = Away(tmp_path / "measurements")
    away = Bench(url, Ledger(url), MeasurementStore(shelf), bench.account)
    with pytest.raises(StoreAway):
        away.buy("2026-01")
    assert [charge.state for charge in away.ledger.charges("clinic")] == [State.CHARGED]
    back = Bench(url, Ledger(url), MeasurementStore(tmp_path / "measurements"), bench.account)
    back.buy("2026-01")
    assert back.draws == []


@pytest.mark.parametrize("where", ["ledger", "relative/path", "ftp://host/path", "s3://key:hunter2@host/path"])
def test_a_place_that_cannot_be_is_refused_in_words(tmp_path: Path, where: str) -> None:
    with pytest.raises(SpecError) as refused:
        store_of(Workspace(tmp_path, f"sqlite:///{tmp_path}/ledger.db", store=where))
    assert refused.value.fix
    assert "hunter2" not in str(refused.value)


def test_a_bucket_that_is_away_is_told_before_anything_is_charged(tmp_path: Path, bucket: str) -> None:
    store = store_of(Workspace(tmp_path, f"sqlite:///{tmp_path}/ledger.db", store=f"s3://no-{bucket}/kept"))
    with pytest.raises(StoreAway):
        store.ready()


def test_a_store_that_goes_away_while_it_is_asked_whose_a_measurement_is_lets_nothing_be_charged(
    tmp_path: Path,
) -> None:
    """It could be of the account: a ledger that has forgotten it must not pay because the network was down."""

    class Away(DirectoryShelf):
        def read(self, mid: str, name: str) -> bytes:
            raise StoreAway("the store cannot be reached", "run again")

    bench = bench_at(Place(Workspace(tmp_path, f"sqlite:///{tmp_path}/ledger.db"), lambda *_: None))
    bench.buy("2026-01")
    Ledger(f"sqlite:///{tmp_path}/fresh.db").open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"))
    fresh = Ledger(f"sqlite:///{tmp_path}/fresh.db")
    away = Bench("", fresh, MeasurementStore(Away(tmp_path / "measurements")), bench.account)
    with pytest.raises(StoreAway):
        away.buy("2026-02")
    assert (away.draws, fresh.balance("clinic").charges) == ([], 0)

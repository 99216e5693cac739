"""What was bought travels with a release: whole, hashed, signed, small, and read back to the last number."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tests.cli.test_verifying import said
from tests.warehouse import Warehouse
from understudy import Synthesizer, open_release, synthesize
from understudy.pipelines.counting.lifted import centred_counts
from understudy.pipelines.counting.released import RESIDUALS, released_marginals, released_residuals
from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.measured import DESCRIPTION, NUMBERS, measured_files, read_measured
from understudy.pipelines.publishing.targets.published_tables import FILES, RELEASES
from understudy.pipelines.publishing.verifying import stored_release
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.domain import TableDomain

SPEC: dict[str, Any] = {
    "name": "visits",
    "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11, "spikes": [0], "nullable": True},
        "ward": {"type": "category", "values": ["A", "B", "C"], "other": True},
        "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "quarter"},
    },
    "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
}
PRIVATE = pa.table(
    {
        "age": np.arange(900) % 100,
        "ward": np.array(["A", "B", "C", "Z"])[np.arange(900) % 4],
        "seen": np.datetime64("2026-01-01", "D") + np.arange(900) % 365,
    }
)


def fitted(home: Path, **changes: Any) -> Synthesizer:
    return Synthesizer({**SPEC, "snapshot": "2026-10", **changes}, cap=(9, 1e-6), home=home).fit(PRIVATE)


def bought(synthesizer: Synthesizer) -> Measurement:
    return synthesizer._require_fit().measured


@pytest.mark.parametrize("method", [{"name": "privpgd"}, {"name": "privpgd", "marginals": "adaptive"}])
def test_a_release_carries_what_was_bought_and_it_reads_back_to_the_last_number(
    home: Path, tmp_path: Path, method: dict[str, Any]
) -> None:
    synthesizer = fitted(home, method=method)
    place = synthesizer.release().save(tmp_path / "out")
    found = stored_release(place)
    carried = read_measured(found.trusted)
    assert carried is not None
    measured = bought(synthesizer)
    assert carried.measurement.kind == measured.kind
    for name, array in carried.measurement.arrays.items():
        np.testing.assert_array_equal(array.ravel(), np.asarray(measured.arrays[name]).ravel())
    for (clique, counts, std), (same, ours, noise) in zip(
        released_marginals(carried.measurement), released_marginals(measured), strict=True
    ):
        assert (clique, std) == (same, noise)
        np.testing.assert_array_equal(counts, ours)
    ours = TableDomain.of(synthesizer.spec).columns
    for column, declared in zip(carried.columns, ours, strict=True):
        assert column.code_labels() == declared.code_labels()
        if column.edges:
            np.testing.assert_array_equal(column.intervals(), declared.intervals())
    assert found.manifest.measured is not None
    assert found.manifest.measured.sets == len(measured.facts["cliques"])


def test_tables_over_groups_of_neighbours_travel_too(home: Path, tmp_path: Path) -> None:
    """A wide ordered column is measured in groups as well (counting/groups.py)."""
    columns = {**SPEC["columns"], "age": {"type": "integer", "min": 0, "max": 109, "bins": 110}}
    synthesizer = fitted(home, columns=columns)
    found = stored_release(synthesizer.release().save(tmp_path / "out"))
    carried, measured = read_measured(found.trusted), bought(synthesizer)
    assert carried is not None
    ours, theirs = released_residuals(carried.measurement), released_residuals(measured)
    assert theirs.grouped
    assert list(ours.grouped) == list(theirs.grouped)
    for one, other in zip(ours.grouped.values(), theirs.grouped.values(), strict=True):
        assert one.std == other.std
        np.testing.assert_array_equal(one.counts, other.counts)
    assert found.manifest.measured is not None
    assert found.manifest.measured.sets == len(ours.by_clique) + len(ours.grouped)
    assert open_release(tmp_path / "out" / "visits").estimate("mean(age) by ward").source == "measurements"


def test_the_description_is_enough_to_combine_the_numbers_without_this_program(home: Path, tmp_path: Path) -> None:
    """Its own words, followed in a few lines of numpy, give the estimates and their noise."""
    synthesizer = fitted(home)
    place = Path(synthesizer.release().save(tmp_path / "out"))
    told = json.loads((place / DESCRIPTION).read_text())
    sizes = [column["size"] for column in told["columns"]]
    numbers = duckdb.sql(f"SELECT set, number FROM '{place / NUMBERS}'").fetchnumpy()
    residuals, stds = {}, {}
    for index, each in enumerate(told["sets"]):
        shape = [sizes[column] for column in each["columns"]]
        flat = numbers["number"][numbers["set"] == index]
        table = np.asarray(flat).reshape([size - 1 for size in shape])
        for axis in range(table.ndim):
            table = np.cumsum(np.insert(table, 0, 0, axis=axis), axis=axis)
        centred = table / np.prod(shape)
        for axis in range(centred.ndim):
            centred = centred - centred.mean(axis=axis, keepdims=True)
        residuals[tuple(each["columns"])], stds[tuple(each["columns"])] = centred, each["std"] / np.prod(shape)
    for clique, counts, std in released_marginals(bought(synthesizer)):
        subsets = [s for order in range(len(clique) + 1) for s in combinations(clique, order)]
        estimate, variance = np.zeros([sizes[column] for column in clique]), 0.0
        for subset in subsets:
            lacked = np.prod([sizes[column] for column in clique if column not in subset])
            estimate = estimate + residuals[subset].reshape([sizes[c] if c in subset else 1 for c in clique]) / lacked
            kept = np.prod([1 - 1 / sizes[column] for column in subset])
            variance += stds[subset] ** 2 * kept / lacked**2
        np.testing.assert_allclose(estimate, counts)
        assert np.sqrt(variance) == pytest.approx(std)


def test_only_what_a_reader_needs_is_told_and_no_address(home: Path, tmp_path: Path) -> None:
    synthesizer = fitted(home)
    text = (Path(synthesizer.release().save(tmp_path / "out")) / DESCRIPTION).read_text()
    told = json.loads(text)
    assert "spec" in bought(synthesizer).facts
    expected = {"format", "kind", "how", "columns", "sets", "rows_of_a_unit", "sampler", "public_total", "asked"}
    assert set(told) == expected
    assert str(tmp_path) not in text


@pytest.mark.parametrize("path", [DESCRIPTION, NUMBERS])
def test_a_changed_measurement_is_found_and_never_read(home: Path, tmp_path: Path, path: str) -> None:
    place = Path(fitted(home).release().save(tmp_path / "out"))
    assert said("verify", place)[0] == 0
    content = bytearray((place / path).read_bytes())
    content[len(content) // 2] ^= 1
    (place / path).write_bytes(content)
    code, text = said("verify", place)
    assert (code, f"NO   {path}" in text) == (5, True), text
    with pytest.raises(ValidationFailed):
        read_measured(stored_release(str(place)).trusted)


@pytest.mark.parametrize("database", ["duckdb", "postgresql"])
def test_a_database_keeps_the_measurements_of_every_release(
    home: Path, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
    file = tmp_path / "out.duckdb"
    to = "postgresql+env://WAREHOUSE_URL" if database == "postgresql" else f"duckdb:///{file}"
    table = f"{warehouse.schema}.copies" if database == "postgresql" else "copies"

    def execute(query: str) -> Any:
        if database == "postgresql":
            warehouse.execute(query)
            return None
        with duckdb.connect(file) as connection:
            return connection.execute(query).fetchall()

    for snapshot in ("2026-08", "2026-09"):
        spec = {**SPEC, "publish": {"to": to, "table": table}, "snapshot": snapshot}
        synthesizer = Synthesizer(spec, cap=(9, 1e-6), home=home).fit(PRIVATE)
        synthesizer.release().save(to)
    address = f"{to}#{table}"
    assert said("verify", address)[0] == 0
    found = stored_release(address)
    carried = read_measured(found.trusted)
    assert carried is not None
    measured = bought(synthesizer)
    for name, array in carried.measurement.arrays.items():
        np.testing.assert_array_equal(array.ravel(), np.asarray(measured.arrays[name]).ravel())
    assert found.table().num_rows == found.manifest.rows
    places = warehouse.rows if database == "postgresql" else execute
    query = f"SELECT count(DISTINCT release_id), count(*) FROM {FILES}"
    assert places(query if database == "duckdb" else query.replace(FILES, f"{warehouse.schema}.{FILES}")) == [(2, 8)]
    execute(f"UPDATE {FILES} SET content = 'x' WHERE path = '{NUMBERS}' AND release_id LIKE '2026-09%'")
    code, text = said("verify", address)
    assert (code, f"NO   {NUMBERS}" in text, "yes  table" in text) == (5, True, True), text
    execute(f"DROP TABLE {FILES}")
    assert said("verify", address)[0] == 5


def test_an_object_store_carries_them_and_keeps_them_when_rows_are_retired(home: Path, bucket: str) -> None:
    from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget

    for snapshot in ("2026-08", "2026-09"):
        release = synthesize(PRIVATE, {**SPEC, "snapshot": snapshot}, cap=(9, 1e-6), home=home)
        place = release.save(f"s3://{bucket}/out")
    assert said("verify", place)[0] == 0
    assert stored_release(place).table().num_rows == release.manifest.rows
    [old] = ObjectStoreTarget(f"s3://{bucket}/out").retire_old("visits", 1) or ["none"]
    retired = f"s3://{bucket}/out/visits/{old}"
    assert said("verify", retired)[0] == 0 or "latest" in said("verify", retired)[1]
    assert read_measured(stored_release(retired).trusted) is not None


def test_a_release_of_an_earlier_version_has_none_and_is_as_good_as_it_was(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Published without `measured/`, into a directory and into a table that has no files beside it."""
    import understudy.pipelines.releasing.preparing as preparing

    monkeypatch.setattr(preparing, "measured_files", lambda *given: ())
    release = fitted(home, publish={"to": "out", "table": "copies"}).release()
    for place in (release.save(tmp_path / "out"), f"duckdb:///{tmp_path}/out.duckdb"):
        if place.startswith("duckdb"):
            release.save(place)
            place += "#copies"
        found = stored_release(place)
        assert said("verify", place)[0] == 0
        assert "measured" not in json.loads(found.text)
        assert read_measured(found.trusted) is None
        assert found.table().num_rows == release.manifest.rows


def test_a_table_of_releases_from_before_is_published_into_and_verified(home: Path, tmp_path: Path) -> None:
    to = f"duckdb:///{tmp_path}/out.duckdb"
    fitted(home, publish={"to": to, "table": "copies"}).release().save(to)
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        connection.execute(f"DROP TABLE {FILES}")
        connection.execute(f"UPDATE {RELEASES} SET current = current")
    spec = {**SPEC, "publish": {"to": to, "table": "copies"}, "snapshot": "2026-11"}
    synthesize(PRIVATE, spec, cap=(9, 1e-6), home=home).save(to)
    assert said("verify", f"{to}#copies")[0] == 0


def test_seventy_eight_marginals_of_thirty_two_values_take_less_than_two_megabytes() -> None:
    columns = {f"c{i:02d}": {"type": "integer", "min": 0, "max": 31, "bins": 32} for i in range(13)}
    domain = TableDomain.of(
        spec_of(
            {
                **SPEC,
                "columns": columns,
                "source": {"uri": "memory", "snapshot": "x"},
                "publish": {"to": "out"},
            }
        )
    )
    rng = np.random.default_rng(3)
    sets = [(), *((i,) for i in range(13)), *combinations(range(13), 2)]
    arrays, stds = {}, []
    for place, clique in enumerate(sets):
        shape, scale = [32] * len(clique), 32 ** len(clique)
        noise = rng.normal(0, 60 * scale, shape)  # as at epsilon 1: some 60 rows a cell
        for axis in range(len(shape)):
            noise = np.diff(noise, axis=axis)
        arrays[f"residual_{place}"] = np.rint(noise).astype(np.int64)
        stds.append(60.0 * scale)
    facts = {
        "cliques": [list(clique) for clique in sets], "columns": list(domain.names), "sizes": list(domain.sizes),
        "stds": stds, "sampler": "rounded", "public_total": None, "asked": [list(clique) for clique in sets[1:]],
    }  # fmt: skip
    files = measured_files(Measurement(RESIDUALS, facts, arrays), domain, 1)
    assert sum(len(file.content) for file in files) < 2_000_000
    contents = {file.path: file.content for file in files}
    carried = read_measured(contents.get)
    assert carried is not None
    np.testing.assert_array_equal(
        centred_counts(carried.measurement.arrays["residual_20"], [32, 32]),
        centred_counts(arrays["residual_20"], [32, 32]),
    )

"""Lineage: what events and contracts say, that OpenLineage would take them, and that no failure to send is ours."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.publishing.openlineage import check_event
from tests.publishing.openlineage_spec import folder_of_the_schema, require_official
from understudy.pipelines.drafting.contracts import dbt as dbt_reader
from understudy.pipelines.drafting.contracts import odcs as odcs_reader
from understudy.pipelines.publishing.lineage.contracts import CONTRACT, SOURCES, contract_files
from understudy.pipelines.publishing.lineage.datasets import Dataset, dataset_of, lineage_tags, qualified
from understudy.pipelines.publishing.lineage.events import GUARANTEE, complete_event, fail_event, start_event
from understudy.pipelines.publishing.lineage.sending import send
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.domain import TableDomain
from understudy.testing.targets import TargetContract

TREE: dict[str, Any] = {
    "name": "visits",
    "source": {"uri": "iceberg://lake", "table": "clinic.visits", "snapshot": "2026-10"},
    "privacy": {"account": "clinic", "epsilon": 1, "delta": 1e-6, "unit": {"entity": "patient", "max_rows": 3}},
    "columns": {
        "patient": {"type": "identifier", "action": "drop"},
        "number": {"type": "identifier", "action": "surrogate"},
        "ward": {"type": "category", "values": ["A", "B"], "nullable": True},
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "min": 0, "max": 110},
        "fare": {"type": "number", "min": 0, "max": 100},
        "tip": {"type": "number", "min": 0, "max": 10},
        "total": {"type": "derived", "derive": "fare + tip"},
        "twice": {"type": "derived", "derive": "2 * total"},
        "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31"},
    },
    "publish": {"to": "postgresql://me@db.example:5433/marts", "table": "open.visits"},
}
RUN = str(uuid.UUID(int=7))


@pytest.fixture
def spec() -> ReleaseSpec:
    return spec_of(TREE)


@pytest.fixture
def manifest(spec: ReleaseSpec) -> Manifest:
    names = tuple(name for name in spec.columns if name != "patient")
    made = TargetContract.release(None, 1).manifest  # type: ignore[arg-type]
    return made.model_copy(update={"columns": names, "name": spec.name})


def test_openlineage_takes_every_event(spec: ReleaseSpec, manifest: Manifest, tmp_path: Path) -> None:
    for event in (
        start_event(spec, tmp_path, RUN),
        complete_event(spec, tmp_path, RUN, manifest, "0" * 64),
        fail_event(spec.name, RUN, "SourceError"),
    ):
        made = check_event(event)
        assert made.run.runId == RUN
        assert made.job.name == "visits"


def test_the_official_schema_takes_every_event_where_it_is_at_hand(
    spec: ReleaseSpec, manifest: Manifest, tmp_path: Path
) -> None:
    folder = folder_of_the_schema()
    if folder is None:
        pytest.skip("UNDERSTUDY_OPENLINEAGE_SPEC does not name the folder `spec` of a checkout of OpenLineage")
    for event in (
        start_event(spec, tmp_path, RUN),
        complete_event(spec, tmp_path, RUN, manifest, "0" * 64),
        fail_event(spec.name, RUN, "SourceError"),
    ):
        assert require_official(event, folder) > 0


def test_what_a_schema_of_openlineage_forbids_is_found(tmp_path: Path) -> None:
    """On a schema of the same make: a core that facets refer to by another version's address."""
    core, facets = "https://openlineage.io/spec/2-0-2/OpenLineage.json", "https://openlineage.io/spec/facets/1-0-1"
    dated = {"eventTime": {"type": "string", "format": "date-time"}}
    based = {"type": "object", "required": ["_producer", "_schemaURL"]}
    told = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    error = {"allOf": [{"$ref": f"{core.replace('2-0-2', '1-0-2')}#/$defs/RunFacet"}, told]}
    written = {
        "OpenLineage.json": {"$id": core, "$defs": {"RunEvent": {"properties": dated}, "RunFacet": based}},
        "facets/ErrorMessageRunFacet.json": {
            "$id": f"{facets}/ErrorMessageRunFacet.json",
            "$defs": {"ErrorMessageRunFacet": error},
        },
    }
    (tmp_path / "facets").mkdir()
    for name, schema in written.items():
        meta = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        (tmp_path / name).write_text(json.dumps(meta | schema))
    assert require_official(fail_event("visits", RUN, "ValueError"), tmp_path) == 1
    for broken in ("message", "_producer", "eventTime"):
        event = fail_event("visits", RUN, "ValueError")
        if broken == "eventTime":
            event[broken] = 7
        else:
            del event["run"]["facets"]["errorMessage"][broken]
        with pytest.raises(AssertionError, match=broken):
            require_official(event, tmp_path)


def test_what_openlineage_would_not_take_is_found(spec: ReleaseSpec, tmp_path: Path) -> None:
    for broken in ("unknown", "missing", "version"):
        event = start_event(spec, tmp_path, RUN)
        schema = event["inputs"][0]["facets"]["schema"]
        if broken == "unknown":
            schema["fields"][0]["colour"] = "red"
        elif broken == "missing":
            del schema["fields"][0]["name"]
        else:
            schema["_schemaURL"] = schema["_schemaURL"].replace("1-2-0", "9-9-9")
        with pytest.raises((TypeError, AssertionError, KeyError)):
            check_event(event)


def test_a_published_column_tells_what_it_was_made_from(spec: ReleaseSpec, manifest: Manifest, tmp_path: Path) -> None:
    [output] = complete_event(spec, tmp_path, RUN, manifest, "0" * 64)["outputs"]
    lineage = output["facets"]["columnLineage"]
    origins = {name: [field["field"] for field in said["inputFields"]] for name, said in lineage["fields"].items()}
    assert origins["ward"] == ["ward"]
    assert origins["twice"] == ["fare", "tip"]
    assert origins["number"] == []
    assert "patient" not in origins
    assert [field["field"] for field in lineage["dataset"]] == ["patient"]
    assert all(
        one["transformations"][0]["masking"] for said in lineage["fields"].values() for one in said["inputFields"]
    )
    promised = output["facets"][GUARANTEE]
    assert (promised["epsilon"], promised["delta"]) == (manifest.guarantee.epsilon, manifest.guarantee.delta)
    assert promised["releaseId"] == manifest.release_id


def test_a_failure_tells_its_kind_and_nothing_else() -> None:
    event = fail_event("visits", RUN, "ValueError")
    assert event["run"]["facets"]["errorMessage"]["message"] == "ValueError"
    assert "stackTrace" not in json.dumps(event)


@pytest.mark.parametrize(
    ("address", "table", "expected", "key", "name"),
    [
        ("postgresql://me@Host/db?sslmode=require", "s.t", Dataset("postgres://host:5432", "db.s.t"),
         "postgres://host-5432/db.s.t", "db.s.t"),
        ("postgresql://me@h:5433/db", "t", Dataset("postgres://h:5433", "db.t"), None, "db.public.t"),
        ("postgresql+env://WAREHOUSE_URL", "t", Dataset("postgresql+env://WAREHOUSE_URL", "t"), None, None),
        ("mysql://me@h/shop", "t", Dataset("mysql://h:3306", "shop.t"), None, "default.shop.t"),
        ("iceberg://lake", "n.t", Dataset("iceberg://lake", "n.t"), "iceberg://lake/n.t", "lake.n.t"),
        ("s3://bucket/a/b", None, Dataset("s3://bucket", "a/b"), "s3://bucket/a/b", None),
        ("sqlite:///x.db", "t", Dataset("file", "/base/x.db/t"), "file://base/x.db/t", None),
        ("t.parquet", None, Dataset("file", "/base/t.parquet"), "file://base/t.parquet", None),
    ],
)  # fmt: skip
def test_places_are_named_as_the_tools_expect(
    address: str, table: str | None, expected: Dataset, key: str | None, name: str | None
) -> None:
    from prefect.assets import Asset

    place = Address.parse(address, "source.uri", table)
    found = dataset_of(place, Path("/base"))
    assert found == expected
    assert "me@" not in found.namespace
    Asset(key=found.asset_key)
    assert qualified(place) == name
    if key is not None:
        assert found.asset_key == key


def test_tags_name_both_ends_where_they_are_known(spec: ReleaseSpec) -> None:
    found = lineage_tags(spec.source.address, spec.publish.address)
    assert found == ["om-source:lake.clinic.visits", "om-destination:marts.open.visits"]
    assert lineage_tags(Address.of("t.csv"), Address.of("releases")) == []


class Keeper(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.kept.append((self.path, self.headers.get("Authorization"), json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Keeper) as running:
        running.kept = []  # type: ignore[attr-defined]
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_events_go_to_a_server_a_file_or_nowhere(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = fail_event("visits", RUN, "ValueError")
    for name in ("UNDERSTUDY_LINEAGE", "OPENLINEAGE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert send(event) is None
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_address[1]}/")
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "hunter2")
    assert send(event) is None
    assert server.kept == [("/api/v1/lineage", "Bearer hunter2", event)]
    monkeypatch.setenv("UNDERSTUDY_LINEAGE", str(tmp_path / "new" / "events.jsonl"))
    assert send(event) is None
    assert send(event) is None
    assert [json.loads(line) for line in (tmp_path / "new" / "events.jsonl").read_text().splitlines()] == [event] * 2
    assert len(server.kept) == 1


def test_what_cannot_be_delivered_is_told_and_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    event = fail_event("visits", RUN, "ValueError")
    (tmp_path / "file").write_text("")
    for where in ("http://127.0.0.1:1/hunter2", "https://[bad", str(tmp_path / "file" / "below"), str(tmp_path)):
        monkeypatch.setenv("UNDERSTUDY_LINEAGE", where)
        problem = send(event)
        assert problem
        assert "hunter2" not in problem


def test_contracts_say_what_was_declared_and_are_read_back(spec: ReleaseSpec, manifest: Manifest) -> None:
    written = {file.path: yaml.safe_load(file.content) for file in contract_files(manifest, spec, TableDomain.of(spec))}
    contract, sources = written[CONTRACT], written[SOURCES]
    assert odcs_reader.is_one(contract)
    assert dbt_reader.is_one(sources)
    [(table, facts)] = odcs_reader.tables(contract).items()
    found = {column.name: column for column in facts.columns}
    assert table == "visits"
    assert list(found) == list(manifest.columns)
    assert (found["age"].low, found["age"].high, found["age"].nullable) == (0, 110, False)
    assert found["sex"].values == ("F", "M")
    assert found["ward"].nullable is not False
    assert found["seen"].kind == "date"
    [(table, facts)] = dbt_reader.tables(sources).items()
    assert table == "visits"
    assert {column.name: column.values for column in facts.columns}["sex"] == ("F", "M")
    assert sources["sources"][0]["schema"] == "open"
    promised = {one["property"]: one["value"] for one in contract["customProperties"]}
    assert promised["epsilon"] == manifest.guarantee.epsilon
    assert contract["servers"] == [
        {
            "server": "published",
            "type": "postgres",
            "host": "db.example",
            "database": "marts",
            "port": 5433,
            "schema": "open",
        }
    ]

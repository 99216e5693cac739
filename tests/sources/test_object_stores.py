"""Object stores, over a real S3 protocol: the same rows, pinned objects, data first and the pointer last."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.examples import SPEC
from tests.publishing.test_targets import prepared
from tests.sources.bounded import kept
from tests.sources.bounded import rows_of as rows
from understudy.pipelines.errors import PublishError, SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.publishing.targets.base import open_target
from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.releasing.recertifying import recertify_release
from understudy.pipelines.sources.catalogue import source_types
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.spec.source import SourceSpec

ROWS = pa.table(
    {
        "who": pa.array(["ann", "bob", "ann", None, "cy", "ann", "bob", "ann"]),
        "n": pa.array([1, 2, 3, 4, 5, 6, None, 6]),
    }
)


def client() -> Any:
    import boto3

    return boto3.client("s3")


def put(bucket: str, path: str, table: pa.Table) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=2)
    client().put_object(Bucket=bucket, Key=path, Body=sink.getvalue())


def keys(bucket: str) -> list[str]:
    return [item["Key"] for item in client().list_objects_v2(Bucket=bucket).get("Contents", [])]


def opened(uri: str) -> Any:
    return open_source(SourceSpec(uri=uri, snapshot="s"), Path())


@pytest.fixture(params=["parquet", "csv", "csv.gz", "one"])
def source(request: pytest.FixtureRequest, bucket: str) -> Any:
    if request.param == "parquet":
        put(bucket, "visits/year=2025/a.parquet", ROWS.slice(0, 5))
        put(bucket, "visits/year=2026/b.parquet", ROWS.slice(5))
        put(bucket, "visits/_temporary/c.parquet", ROWS)
        client().put_object(Bucket=bucket, Key="visits/_SUCCESS", Body=b"")
        return opened(f"s3://{bucket}/visits/")
    if request.param == "one":
        put(bucket, "visits.parquet", ROWS)
        return opened(f"s3://{bucket}/visits.parquet")
    lines = [",".join("" if v is None else str(v) for v in row.values()) for row in ROWS.to_pylist()]
    text = ("who,n\n" + "\n".join(lines) + "\n").encode()
    body = gzip.compress(text) if request.param.endswith("gz") else text
    client().put_object(Bucket=bucket, Key=f"visits.{request.param}", Body=body)
    return opened(f"s3://{bucket}/visits.{request.param}")


def test_the_same_rows_as_from_any_other_source(source: Any) -> None:
    assert source.schema().names in (["who", "n"], ["who", "n", "year"])  # a folder year=2025 is a column, too
    assert rows(source, ["who", "n"]) == sorted((str(r["who"]), str(r["n"])) for r in ROWS.to_pylist())
    for cap in (1, 3):
        assert Counter(who for who, _ in kept(source, ["who", "n"], Unit("who", cap))) == {
            "ann": min(4, cap),
            "bob": min(2, cap),
            "cy": 1,
        }
    assert rows(pickle.loads(pickle.dumps(source)), ["n"]) == rows(source, ["n"])
    assert source.row_estimate() in (8, None)


def test_an_object_that_changes_under_the_reader_is_an_error(bucket: str) -> None:
    put(bucket, "v/a.parquet", ROWS)
    source = opened(f"s3://{bucket}/v")
    source.schema()
    put(bucket, "v/a.parquet", ROWS.slice(1))
    with pytest.raises(SourceError, match="changed while it was read"):
        rows(source, ["n"])


@pytest.mark.parametrize("path", ["nothing", "nothing.parquet"])
def test_what_is_not_there_is_a_source_error(bucket: str, path: str) -> None:
    with pytest.raises(SourceError):
        opened(f"s3://{bucket}/{path}").schema()
    with pytest.raises(SourceError) as caught:
        opened("s3://no-such-bucket-here/x.parquet").schema()
    assert "canary" not in str(caught.value)


def test_damaged_and_disagreeing_objects(bucket: str) -> None:
    client().put_object(Bucket=bucket, Key="bad/a.parquet", Body=b"PAR1 canary-row")
    with pytest.raises(SourceError, match="not a complete Parquet file") as caught:
        opened(f"s3://{bucket}/bad").schema()
    assert "canary" not in str(caught.value)
    sink = io.BytesIO()
    pq.write_table(ROWS, sink, compression="none")
    content = sink.getvalue()
    client().put_object(Bucket=bucket, Key="bad/a.parquet", Body=content[:4] + bytes(60) + content[64:])
    broken = opened(f"s3://{bucket}/bad")
    assert broken.schema().names == ROWS.column_names  # the footer is sound, the first page is not
    with pytest.raises(SourceError, match="not a complete Parquet file") as caught:
        list(broken.read(["who"]))
    assert caught.value.__context__ is None
    put(bucket, "two/a.parquet", ROWS)
    put(bucket, "two/b.parquet", ROWS.select(["n"]))
    with pytest.raises(SourceError, match="other columns"):
        opened(f"s3://{bucket}/two").schema()


@pytest.mark.parametrize("uri", ["s3://", "s3://b/../c", "s3://key:secret@b/c", "s3://b/c?token=x", "s3://b/*", "http://b/c",
                                 "ftp://b/c", "simplecache::s3://b/c", "zip://b"])  # fmt: skip
def test_addresses_that_are_refused(uri: str) -> None:
    with pytest.raises(SpecError) as caught:
        opened(uri).schema()
    assert "secret@" not in str(caught.value)
    with pytest.raises(SpecError):
        open_target(parse_spec(SPEC.replace("releases/", f'"{uri}"')), Path())


def test_publishing_and_recovering(bucket: str) -> None:
    target = ObjectStoreTarget(f"s3://{bucket}/releases/")
    published = target.publish(prepared())
    assert target.publish(prepared(rows=9)) == published == target.recover("clinic-visits", "2026-10-abc")
    pointer = json.loads(client().get_object(Bucket=bucket, Key="releases/clinic-visits/latest.json")["Body"].read())
    assert pointer["release_id"] == "2026-10-abc"
    [data] = [file for file in published.manifest.files if file.path.endswith(".parquet")]
    key = f"releases/clinic-visits/2026-10-abc/{data.path}"
    body = client().get_object(Bucket=bucket, Key=key)["Body"].read()
    assert pq.read_table(io.BytesIO(body)).num_rows == 5
    client().put_object(Bucket=bucket, Key=key, Body=body[:-1])
    with pytest.raises(PublishError, match="changed after publication"):
        target.recover("clinic-visits", "2026-10-abc")
    assert recertify_release(published.location, None).holds is False


@pytest.mark.parametrize("point", ["publish_staged", "publish_before_pointer"])
def test_an_interrupted_publication_is_invisible_or_finished_later(
    bucket: str, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    target = ObjectStoreTarget(f"s3://{bucket}/releases")
    target.publish(prepared("2026-09-old", created="2026-10-01T00:00:00+00:00"))
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{point}:raise")
    with pytest.raises(RuntimeError):
        target.publish(prepared())
    monkeypatch.delenv("UNDERSTUDY_FAULT")

    def latest() -> str:
        body = client().get_object(Bucket=bucket, Key="releases/clinic-visits/latest.json")["Body"].read()
        return str(json.loads(body)["release_id"])

    assert latest() == "2026-09-old"
    target.publish(prepared())
    assert latest() == "2026-10-abc"
    target.recover("clinic-visits", "2026-09-old")
    assert latest() == "2026-10-abc"  # repeating an old one does not turn the pointer back


def test_old_releases_are_retired_with_what_dead_attempts_left(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ObjectStoreTarget(f"s3://{bucket}/r")
    monkeypatch.setenv("UNDERSTUDY_FAULT", "publish_staged:raise")
    with pytest.raises(RuntimeError):
        target.publish(prepared("r-1", created="2026-01-01"))
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    for number in range(1, 4):
        target.publish(prepared(f"r-{number}", created=f"2026-0{number}-01"))
    assert target.retire_old("clinic-visits", 2) == ["r-1"]
    assert target.retire_old("clinic-visits", 2) == []
    left = [key for key in keys(bucket) if "/r-1/" in key]
    assert sorted(key.rsplit("/", 1)[1] for key in left) == ["card.html", "manifest.json", "retired.json"]
    gone = target.retired_release("clinic-visits", "r-1")
    assert gone is not None
    assert "retired" in gone.location
    assert recertify_release(f"s3://{bucket}/r/clinic-visits/r-1", None).manifest.release_id == "r-1"


def test_a_release_in_a_store_is_signed_and_verified(bucket: str, tmp_path: Path) -> None:
    key = SigningKey.create(tmp_path / "key.pem")
    root = f"s3://{bucket}/releases"
    target = ObjectStoreTarget(root)
    target.publish(replace(prepared("2026-09-old", created="2026-10-01T00:00:00+00:00"), key=key))
    published = target.publish(replace(prepared(), key=key))
    for place in (published.location, f"{published.location}/manifest.json", f"{root}/clinic-visits"):
        certificate = verify_release(place, [key.public])
        assert certificate.manifest.release_id == "2026-10-abc"
        broken = {finding.what for finding in certificate.findings if not finding.holds}
        assert broken <= {"epsilon", "budget of the spec"}, broken  # the example's event is not worth its epsilon
    unvouched = verify_release(published.location, [])
    assert "signature" in {finding.what for finding in unvouched.findings if not finding.holds}

    def refused() -> dict[str, str]:
        found = verify_release(published.location, [key.public]).findings
        return {finding.what: finding.detail for finding in found if not finding.holds}

    usual = refused()
    client().put_object(Bucket=bucket, Key="releases/clinic-visits/2026-10-abc/more.parquet", Body=b"x")
    assert refused().keys() - usual.keys() == {"no other file"}
    client().delete_object(Bucket=bucket, Key="releases/clinic-visits/2026-10-abc/more.parquet")
    path = "releases/clinic-visits/latest.json"
    pointer = client().get_object(Bucket=bucket, Key=path)["Body"].read()
    client().put_object(Bucket=bucket, Key=path, Body=pointer.replace(b"2026-10-abc", b"2026-09-old"))
    assert "turned back" in refused()["latest"]
    client().put_object(Bucket=bucket, Key=path, Body=pointer)
    [envelope] = [one for one in keys(bucket) if "2026-10-abc" in one and one.endswith(ENVELOPE)]
    client().delete_object(Bucket=bucket, Key=envelope)
    assert "unsigned" in refused()["signature"]


def test_a_retired_release_in_a_store_keeps_its_signature(bucket: str, tmp_path: Path) -> None:
    key = SigningKey.create(tmp_path / "key.pem")
    target = ObjectStoreTarget(f"s3://{bucket}/r")
    for number in (1, 2):
        target.publish(replace(prepared(f"r-{number}", created=f"2026-0{number}-01"), key=key))
    assert target.retire_old("clinic-visits", 1) == ["r-1"]
    found = {f.what: f for f in verify_release(f"s3://{bucket}/r/clinic-visits/r-1", [key.public]).findings}
    assert found["signature"].holds
    assert any(finding.detail == "retired" and finding.holds for finding in found.values())


def test_names_cannot_leave_the_root(bucket: str) -> None:
    target = ObjectStoreTarget(f"s3://{bucket}/r")
    for name, release in (("..", "x"), ("a/b", "x"), ("clinic", "../x"), ("clinic", "")):
        with pytest.raises(PublishError, match="leave"):
            target.recover(name, release)


def test_types_are_asked_of_the_first_object_alone(bucket: str) -> None:
    """A plan asks for no more, and a table may have thousands."""
    put(bucket, "t/a.parquet", ROWS)
    client().put_object(Bucket=bucket, Key="t/b.parquet", Body=b"no table")
    source = opened(f"s3://{bucket}/t")
    assert source_types(source) == {"who": "string", "n": "int64"}
    with pytest.raises(SourceError):
        source.schema()

"""Pictures on the card and in the orchestrator; tensors in every target."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.table.tensors.examples import picture_spec
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.publishing.card.rendering import render_card
from understudy.pipelines.publishing.manifest import (
    AccountState,
    Manifest,
    charged_event,
    guarantee_of,
    public_spec,
    software_versions,
)
from understudy.pipelines.publishing.samples import GAP, sample_grid
from understudy.pipelines.publishing.targets.base import PreparedRelease
from understudy.pipelines.publishing.targets.directory import DirectoryTarget, read_release
from understudy.pipelines.publishing.targets.duckdb_table import DuckDBTarget
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.synthetic import Synthetic
from understudy.tasks.telling import reporting


def made(spec: ReleaseSpec, rows: int = 60) -> pa.Table:
    rng = np.random.default_rng(0)
    domain = TableDomain.of(spec)
    codes = np.stack([rng.integers(0, size, rows) for size in domain.sizes] or [np.zeros(0)], axis=1)
    codes = codes if domain.columns else np.zeros((rows, 0), int)
    tensors = [rng.uniform(t.low, t.high, (rows, t.size)) for t in domain.tensors]
    return decode(codes.astype(int), domain, rng, tensors)


def manifest_of(spec: ReleaseSpec, table: pa.Table) -> Manifest:
    event = charged_event("kernel", "m" * 64, Gaussian(4.0), "s" * 64)
    return Manifest(
        name=spec.name,
        release_id="1-abc",
        snapshot=spec.source.snapshot,
        created_at="2026-11-01T00:00:00+00:00",
        guarantee=guarantee_of(Loss(1.0, 1e-6, "analytic"), spec, [event]),
        account=AccountState(name="a", cap_epsilon="3", cap_delta="1e-6", spent_epsilon=1.0, releases_charged=1),
        method="kernel",
        steps=("train",),
        noise=(),
        rows=table.num_rows,
        columns=tuple(table.column_names),
        spec_hash=spec.hash,
        spec=public_spec(spec),
        versions=software_versions(),
    )


def card_of(spec: ReleaseSpec, table: pa.Table) -> str:
    return render_card(manifest_of(spec, table), Synthetic(table, TableDomain.of(spec)), {}, [], 0.5)


def picture(png: bytes) -> np.ndarray:
    """Without what says that there is nothing between pictures."""
    *colours, _ = (image := Image.open(io.BytesIO(png))).getbands()
    return np.asarray(image.convert("".join(colours)))


def test_one_row_a_label_with_its_first_pictures() -> None:
    spec = picture_spec()
    table = made(spec)
    grid = sample_grid(table, TableDomain.of(spec), columns=4)
    assert grid is not None
    assert grid.labels == ("label 0", "label 1", "label 2")
    pixels = picture(grid.png)
    assert pixels.shape == (3 * (4 + GAP) - GAP, 4 * (3 + GAP) - GAP) == (grid.height, grid.width)
    first = table["label"].to_pylist().index("1")
    expected = np.array(table["image"][first].as_py()).reshape(4, 3)
    np.testing.assert_array_equal(pixels[4 + GAP : 8 + GAP, :3], expected)


@pytest.mark.parametrize("shape", [(4, 3, 1), (4, 3, 3), (100, 20), (128, 128, 3)])
def test_colours_and_thumbnails(shape: tuple[int, ...]) -> None:
    spec = picture_spec(shape, -1.0, 1.0)
    grid = sample_grid(made(spec, 8), TableDomain.of(spec))
    assert grid is not None
    pixels = picture(grid.png)
    assert pixels.ndim == (3 if shape[-1:] == (3,) and len(shape) == 3 else 2)
    assert grid.cell <= 64
    assert pixels.min() < 120 < pixels.max()


def test_no_label_no_rows_and_no_pictures() -> None:
    alone = {"image": {"type": "tensor", "shape": [4, 3], "min": 0, "max": 255}}
    spec = picture_spec(columns=alone)
    grid = sample_grid(made(spec, 13), TableDomain.of(spec))
    assert grid is not None
    assert grid.labels == ()
    assert grid.height == 2 * (4 + GAP) - GAP
    assert sample_grid(made(spec, 0), TableDomain.of(spec)) is None
    assert sample_grid(made(spec).drop_columns(["image"]), TableDomain.of(spec)) is None
    vector = picture_spec((12,))
    assert sample_grid(made(vector), TableDomain.of(vector)) is None


def test_the_card_shows_the_pictures_and_says_what_tensors_are() -> None:
    spec = picture_spec(
        columns={
            "image": {"type": "tensor", "shape": [4, 3], "min": 0, "max": 255},
            "label": {"type": "category", "values": ["<b>", "1"]},
            "id": {"type": "identifier", "action": "surrogate"},
        }
    )
    card = card_of(spec, made(spec))
    assert card.count("data:image/png;base64,") == 2  # samples, and pairs that are nearly the same
    assert "label &lt;b&gt;" in card
    assert "4 x 3 numbers from 0 to 255" in card
    assert "fewer than two columns" in card
    assert "{{" not in card
    assert "://" not in card


def test_cards_of_vectors_alone_and_of_tables_without_tensors() -> None:
    vector = picture_spec(columns={"v": {"type": "tensor", "shape": [5], "min": -1, "max": 1}})
    card = card_of(vector, made(vector))
    assert "Synthetic pictures" not in card
    assert "5 numbers from -1 to 1" in card
    assert "{{" not in card


def test_the_orchestrator_gets_a_small_image(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(reporting, "create_image_artifact", lambda url, **rest: sent.append({"url": url, **rest}))
    spec = picture_spec()
    reporting.report_samples(spec, Synthetic(made(spec), TableDomain.of(spec)))
    assert sent[0]["key"] == "digits-samples"
    assert "label 0, label 1" in sent[0]["description"]
    kind, data = sent[0]["url"].split(",")
    assert kind == "data:image/png;base64"
    assert picture(base64.b64decode(data)).size
    noise = picture_spec((64, 64, 3))
    reporting.report_samples(noise, Synthetic(made(noise), TableDomain.of(noise)))
    assert len(sent[1]["url"]) <= reporting.MOST_IMAGE_CHARACTERS
    vector = picture_spec((12,))
    reporting.report_samples(vector, Synthetic(made(vector), TableDomain.of(vector)))
    assert len(sent) == 2


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-1, 1)])
def test_directories_and_duckdb_take_tensors(tmp_path: Path, low: float, high: float) -> None:
    spec = picture_spec(low=low, high=high)
    table = made(spec)
    release = PreparedRelease(manifest_of(spec, table), Parts.of(table), card_of(spec, table))
    DirectoryTarget(tmp_path).publish(release)
    place = tmp_path / "digits" / "latest"
    assert read_release(place).columns == ("label", "image")
    stored = pq.read_table(place / "data")
    assert stored["image"].to_pylist() == table["image"].to_pylist()
    assert stored.schema.field("image").type.list_size == 12
    assert stored.schema.field("image").type.value_type == (pa.uint8() if high == 255 else pa.float32())
    DuckDBTarget(tmp_path / "out.duckdb", "digits").publish(release)
    with duckdb.connect(tmp_path / "out.duckdb") as connection:
        rows = connection.execute("SELECT image FROM digits").fetchall()
    np.testing.assert_array_equal(np.array([row[0] for row in rows]), np.array(table["image"].to_pylist()))

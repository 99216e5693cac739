"""Every page that understudy writes, made once for these tests and for the pictures in the docs."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from click.testing import CliRunner

import understudy
from tests.browser import hostile_names, right_to_left
from tests.browser.hostile_names import FOREIGN, LONG, SCRIPTS
from tests.trees import CLINIC
from understudy.cli.main import main
from understudy.demo.clinic import build_warehouse
from understudy.demo.specs import FLAT, TABLES
from understudy.pipelines.comparing.comparing import compare_release
from understudy.pipelines.comparing.page import page_of
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.releasing.ledger_report import ledger_page
from understudy.pipelines.spec.reading import load_spec

QUICK = {"epochs": 2, "particles": 1000, "device": "cpu"}
CAP = ("5", "1e-5")
TURNED = ("card-leftward.html", "card-tree.html", "card-pictures.html", "plan-leftward.html", "ledger.html")
ODD = (*SCRIPTS[:3], SCRIPTS[6], LONG, FOREIGN[0], FOREIGN[3])


@dataclass(frozen=True)
class Place:
    """Where the pages are made: private tables, specs, a home and releases."""

    base: Path

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def pages(self) -> Path:
        return self.base / "pages"

    @property
    def ledger(self) -> Ledger:
        return Ledger(f"sqlite:///{self.home / 'ledger.db'}")

    def run(self, *words: object) -> str:
        done = CliRunner().invoke(main, ["--home", str(self.home), *(str(word) for word in words)])
        assert done.exit_code == 0, done.output
        return done.output

    def keep(self, name: str, text: str) -> Path:
        self.pages.mkdir(exist_ok=True)
        path = self.pages / name
        path.write_text(text, encoding="utf-8")
        return path

    def turn(self, page: str) -> None:
        """The page as a browser shows it that translated it into Arabic: it begins at the right."""
        text = (self.pages / page).read_text(encoding="utf-8")
        assert '<html lang="en">' in text
        self.keep(f"turned-{Path(page).name}", text.replace('<html lang="en">', '<html lang="en" dir="rtl">'))


def make_pages(base: Path, care: bool = False) -> Place:
    """`care` takes minutes and makes pages worth showing; without it they have all that layout depends on."""
    place = Place(base)
    place.home.mkdir(parents=True)
    build_warehouse(base / "clinic.duckdb", 20_000 if care else 1000)
    released = release_table(place, clinic_spec(care), clinic_table(base, "visits_flat"))
    hostile = release_table(place, hostile_names.spec("hostile"), hostile_names.rows())
    leftward = release_table(place, right_to_left.spec("leftward"), right_to_left.rows())
    for name, release in (("clinic", released), ("hostile", hostile), ("leftward", leftward)):
        place.keep(f"card-{name}.html", (release / "card.html").read_text(encoding="utf-8"))
        place.run("evidence", release, place.pages / f"evidence-{name}")
    place.run("plan", base / "hostile.yaml", "--html", place.pages / "plan.html")
    place.run("plan", base / "leftward.yaml", "--html", place.pages / "plan-leftward.html")
    if care:
        place.run("plan", base / "clinic-visits.yaml", "--html", place.pages / "plan-clinic.html")
    compared = "clinic-visits" if care else "hostile"
    found = compare_release(load_spec(base / f"{compared}.yaml"), base, str(base / "releases" / compared))
    place.keep("compare.html", page_of(found))
    tree = (demo_tables(base), demo_tree()) if care else (tree_rows(), tree_spec())
    place.keep("card-tree.html", understudy.synthesize(*tree, cap=CAP, home=place.home).card)
    place.keep("card-pictures.html", understudy.synthesize(digits(), digits_spec(care), cap=CAP, home=place.home).card)
    place.keep("ledger.html", ledger_page(place.ledger, dt.datetime(2026, 11, 1, tzinfo=dt.UTC)))
    for page in TURNED:
        place.turn(page)
    return place


def clinic_spec(care: bool) -> dict[str, Any]:
    return {**yaml.safe_load(FLAT), **({} if care else {"generate": QUICK})}


def release_table(place: Place, spec: dict[str, Any], rows: pa.Table) -> Path:
    """Released from its spec's file, so that it can be compared with the rows; where the release is."""
    name = spec["name"]
    pq.write_table(rows, place.base / f"{name}.parquet")
    source = {"uri": f"{name}.parquet", "snapshot": "2026-10"}
    file = place.base / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**spec, "source": source, "publish": {"to": "releases"}}, allow_unicode=True))
    release = understudy.synthesize(rows, file, cap=CAP, home=place.home)
    return Path(release.save(place.base / "releases"))


def clinic_table(base: Path, name: str) -> pa.Table:
    with duckdb.connect(str(base / "clinic.duckdb"), read_only=True) as connection:
        return connection.table(name).to_arrow_table()


def demo_tables(base: Path) -> dict[str, pa.Table]:
    return {name: clinic_table(base, name) for name in demo_tree()["tables"]}


def demo_tree() -> dict[str, Any]:
    tree = {key: part for key, part in yaml.safe_load(TABLES).items() if key not in ("source", "publish")}
    tables = {
        name: {key: part for key, part in table.items() if key != "source"} for name, table in tree["tables"].items()
    }
    return {**tree, "privacy": {**tree["privacy"], "account": "families"}, "tables": tables, "snapshot": "2026-10"}


def tree_spec() -> dict[str, Any]:
    """The clinic of three tables, whose patients have a column of each kind of hostile name."""
    tree = {key: part for key, part in CLINIC.items() if key not in ("source", "publish")}
    patients = tree["tables"]["patients"]
    odd = {name: {"type": "category", "values": ["no", "yes", name.replace("{{", "{")]} for name in ODD}
    tables = {**tree["tables"], "patients": {**patients, "columns": {**patients["columns"], **odd}}}
    return {
        **tree,
        "privacy": {**tree["privacy"], "account": "families"},
        "tables": tables,
        "snapshot": "2026-01",
        "generate": QUICK,
    }


def tree_rows() -> dict[str, pa.Table]:
    rng = np.random.default_rng(5)
    who, visit = np.arange(300), np.arange(600)
    return {
        "patients": pa.table(
            {
                "patient_id": who,
                "sex": np.array(["f", "m"])[rng.integers(0, 2, 300)],
                "age": rng.integers(0, 100, 300),
                **{name: np.array(["no", "yes"])[rng.integers(0, 2, 300)] for name in ODD},
            }
        ),
        "visits": pa.table(
            {
                "visit_id": visit,
                "patient_id": rng.integers(0, 300, 600),
                "ward": np.array(["a", "b", "c"])[rng.integers(0, 3, 600)],
                "visited_on": np.datetime64("2020-01-01") + rng.integers(0, 365, 600),
            }
        ),
        "drugs": pa.table(
            {"visit_id": rng.integers(0, 600, 500), "drug": np.array(["x", "y", "z"])[rng.integers(0, 3, 500)]}
        ),
    }


def digits_spec(care: bool) -> dict[str, Any]:
    return {
        "name": "digits",
        "snapshot": "2026-10",
        "privacy": {"account": "pictures", "epsilon": 4 if care else 0.3, "delta": 1e-6},
        "columns": {
            "image": {"type": "tensor", "shape": [8, 8], "min": 0, "max": 16},
            "digit": {"type": "category", "values": [str(digit) for digit in range(10)]},
        },
        "method": {"name": "kernel", "label": "digit", "rows": 1800, "frequencies": 500 if care else 50},
        "generate": {"training_steps": 400 if care else 10, "device": "cpu"},
    }


def digits() -> pa.Table:
    from sklearn.datasets import load_digits

    given = load_digits()
    images = pa.FixedSizeListArray.from_arrays(pa.array(given.data.astype(np.uint8).ravel()), 64)
    return pa.table({"image": images, "digit": pa.array(given.target.astype(str))})

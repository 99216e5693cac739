"""A release with injected randomness, made through the Python interface or the flow, without what no two runs share.

`python -m tests.releasing.golden > tests/releasing/golden.json` writes anew what `test_golden.py` expects. Do so only
for a change that is meant to change releases, and say in the commit which numbers moved and why.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import llvmlite.binding
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.randomness import SeededWords

COLUMNS: dict[str, Any] = {
    "id": {"type": "identifier", "action": "surrogate"},
    "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
    "charge": {"type": "number", "min": 0, "max": 1000, "bins": 8},
    "sex": {"type": "category", "values": ["F", "M", "X"]},
    "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "quarter"},
}
METHODS: dict[str, dict[str, Any]] = {
    "privpgd": {"method": {"name": "privpgd"}, "generate": {"epochs": 3, "particles": 400, "device": "cpu"}},
    "adaptive": {
        "method": {"name": "privpgd", "marginals": "adaptive"},
        "generate": {"epochs": 3, "particles": 400, "device": "cpu"},
    },
    "gaussian": {"method": {"name": "gaussian", "mode": "copula"}},
    "moments": {"method": {"name": "gaussian", "mode": "noisy-moments"}},
}
DOORS = ("python", "flow")


def people(rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(11)
    age = rng.integers(0, 110, rows)
    days = np.datetime64("2026-01-01") + rng.integers(0, 364, rows)
    return pa.table(
        {
            "age": age,
            "charge": np.round(np.clip(age * 5 + rng.normal(0, 90, rows), 0, 1000), 2),
            "sex": rng.choice(["F", "M", "X"], rows, p=[0.5, 0.4, 0.1]),
            "seen": days.astype("datetime64[D]"),
        }
    )


def spec_of(method: str) -> dict[str, Any]:
    return {
        "name": "golden",
        "privacy": {"account": "a", "epsilon": 1.0, "delta": 1e-6},
        "columns": COLUMNS,
        **METHODS[method],
    }


def released(door: str, method: str, folder: Path) -> dict[str, Any]:
    """Manifest, measurements and rows of one release. The flow needs a Prefect server and the workspace at `folder`."""
    with injected_randomness():
        place = _by_python(method, folder) if door == "python" else _by_flow(method, folder)
    manifest = json.loads((place / "manifest.json").read_text())
    table = pq.read_table(place / "data")
    card = (place / "card.html").read_text().replace(manifest["created_at"], "")
    card = card.replace(", ".join(f"{name} {number}" for name, number in manifest["versions"].items()), "")
    # How the release is cited names its day: that of the golden cards.
    card = re.sub(r"(?<=, )\d{4}-\d\d-\d\d(?=\. \()", "2026-11-19", card)
    card = re.sub(r"\b[0-9a-f]{10,64}\b", "", card)  # hashes of random names; those that are not are in the manifest
    return {
        "manifest": timeless(manifest),
        "measurements": measurements(folder / "home"),
        "rows": digest(json.dumps(table.to_pylist(), default=str)),
        "card": digest(card),
    }


def timeless(manifest: dict[str, Any]) -> dict[str, Any]:
    """Without time, versions, and hashes of what holds random names (the ledger's id, the process that charged).

    Nor the spec, to which keys are added: its hash says what is measured, and that may never change.
    """
    del manifest["created_at"], manifest["versions"], manifest["account"]["history_head"], manifest["spec"]
    for event in manifest["guarantee"]["events"]:
        del event["measurement_sha256"]
    for file in manifest["files"]:
        del file["sha256"], file["bytes"]
    return manifest


def measurements(home: Path) -> dict[str, str]:
    """By charge: the noisy numbers, which are whole, and what is kept beside them."""
    found = {}
    for place in sorted((home / "measurements").iterdir()):
        document = json.loads((place / "measurement.json").read_text())
        arrays = pq.read_table(place / "arrays.parquet").to_pylist()
        facts = {name: fact for name, fact in document["facts"].items() if name != "spec"}
        kept = [document["kind"], facts, arrays]
        found[document["mid"]] = digest(json.dumps(kept, sort_keys=True))
    return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def machine() -> dict[str, str]:
    """What decides the last bits of the floating-point work that turns measurements into rows."""
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        **{name: version(name) for name in ("numpy", "numba", "pyarrow", "scipy")},
    }


@contextmanager
def injected_randomness() -> Iterator[None]:
    fresh = np.random.default_rng
    seeded = patch.object(np.random, "default_rng", lambda seed=None: fresh(5 if seed is None else seed))
    words = patch(
        "understudy.pipelines.privacy.ledger.spend.operating_system_randomness", side_effect=lambda: SeededWords(7)
    )
    with seeded, words:
        yield


def _by_python(method: str, folder: Path) -> Path:
    import understudy

    spec = {**spec_of(method), "snapshot": "2026-10"}
    release = understudy.synthesize(people(), spec, cap=(3, 1e-6), home=folder / "home")
    return Path(release.save(folder / "out"))


def _by_flow(method: str, folder: Path) -> Path:
    from understudy.flows.release import release
    from understudy.pipelines.privacy.ledger.ledger import Ledger
    from understudy.pipelines.privacy.relation import Budget, Relation, Unit
    from understudy.pipelines.spec.reading import spec_of as read

    pq.write_table(people(), folder / "people.parquet")
    tree = {**spec_of(method), "source": {"uri": "people.parquet", "snapshot": "2026-10"}, "publish": {"to": "out"}}
    Ledger(f"sqlite:///{folder / 'home' / 'ledger.db'}").open_account(
        "a", Relation.ADD_REMOVE, Unit(), Budget(Decimal(3), Decimal("1e-6"))
    )
    return Path(release(read(tree), folder).location)


def main() -> None:
    import os

    from prefect.testing.utilities import prefect_test_harness

    expected: dict[str, Any] = {"machine": machine()}
    with prefect_test_harness(server_startup_timeout=180):
        for door in DOORS:
            for method in METHODS:
                with tempfile.TemporaryDirectory() as name:
                    os.environ["UNDERSTUDY_HOME"] = str(Path(name) / "home")
                    expected[f"{door} {method}"] = released(door, method, Path(name))
    json.dump(expected, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()

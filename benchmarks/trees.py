"""Trees of tables: whether keys fit, and how near every table is, beside a flat release of the joined tables.

Figures `trees.<set>.<epsilon>.<figure>` (delta 1e-6, ADD_REMOVE, unit = a root with everything below it), of tables as
they are published, at the level of rows (not of roots, which is what is fitted):
- `integrity`, `uniqueness`, `order`, `bounds`: shares of keys, rows and parents that are sound; 1 by construction.
- `<child>.numbers`: total variation of how many rows a parent has; `<child>.numbers_a_root` of how many a root has.
- `<child>.own`, `.above`: mean total variation over pairs of own columns, and of own columns and those above. The peer
  is a flat privpgd release of the joined table at the same unit and epsilon (`flat`).
- `<child>.crossing`, `.lag`: pairs that cross tables (own x above, own x number of siblings), and a column by itself in
  the row before. The peer is the same copy with its rows put under parents at random, as tables that are generated
  independently of each other would be (`independent`).
- `question`: the error, as a share of roots, of a question that joins tables; the worst where there are several.
- `measure.seconds` and `generate.seconds`.
`trees.entities.<epsilon>.*` are of a flat table that keeps its entities: constancy, numbers of rows, order, pairs.
`--scale 1e6` instead releases a million patients, five million visits and ten million prescriptions, from Parquet to
Parquet, in a process of its own: `trees.scale.<patients>.<stage>.seconds`, `.cpu`, `.peak_mb`.
Sets: Diabetes 130-US hospitals (patients, encounters), PUMS New York (households, people) and a made clinic.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.support.families import SPECIALTIES, FamilySet, load_families
from benchmarks.support.figures import Figures
from benchmarks.support.large_tree import measured_tree
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.methods.privpgd.method import PrivPGDMethod
from understudy.pipelines.methods.tree.generating.tables import generate_flat, generate_tables
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.methods.tree.measure import measure_tree
from understudy.pipelines.methods.tree.plan import plan_tree, tree_domains
from understudy.pipelines.methods.tree.released import ReleasedTree, released_tree
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic_tree import SyntheticTree

FLAT, INDEPENDENT = "flat", "independent"
MOST_SIBLINGS = 8  # so many or more


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilons", nargs="+", default=["1", "2.5"])
    parser.add_argument("--scale", type=float, default=0, help="release so many patients, by stage, and nothing else")
    parser.add_argument("--without-flat", action="store_true", help="leave the flat releases out, which take longest")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    if args.scale:
        _scale(figures, args.data, int(args.scale))
        return
    for name, load in load_families(args.data).items():
        wanted = [epsilon for epsilon in args.epsilons if figures.wants(f"trees.{name}.{epsilon}.")]
        data = load() if wanted else None
        for epsilon in wanted if data is not None else []:
            assert data is not None
            _one(figures, data, epsilon, with_flat=not args.without_flat)
    for epsilon in args.epsilons:
        if figures.wants(f"trees.entities.{epsilon}.") and (data := load_families(args.data)["diabetes"]()) is not None:
            _entities(figures, data, epsilon)


@dataclass(frozen=True)
class Joined:
    """Rows of a table with what they have of their own, from above and of siblings; where they follow each other."""

    own: np.ndarray
    above: np.ndarray
    siblings: np.ndarray
    follows: np.ndarray


def _one(figures: Figures, data: FamilySet, epsilon: str, *, with_flat: bool) -> None:
    prefix, spec = f"trees.{data.name}.{epsilon}", spec_of(data, epsilon)
    tree = spec.tree
    assert tree is not None
    start = time.perf_counter()
    private = private_tree(data, spec)
    released = measure(private, spec)
    between = time.perf_counter()
    made = generate_tables(released, spec)
    figures.show(f"{prefix}.measure.seconds", between - start)
    figures.show(f"{prefix}.generate.seconds", time.perf_counter() - between)
    real, fake = real_codes(private), published_codes(made, tree)
    for figure, share in soundness(made, tree).items():
        figures.show(f"{prefix}.{figure}", share)
    rng = np.random.default_rng(0)
    for table in tree.tables[1:]:
        child, sizes = f"{prefix}.{table.name}", sizes_of(table.name, tree, spec)
        figures.show(f"{child}.numbers", numbers_apart(real, fake, tree, table.name, str(table.parent)))
        figures.show(f"{child}.numbers_a_root", numbers_apart(real, fake, tree, table.name, tree.root.name))
        rows, copy = joined(real, tree, table.name), joined(fake, tree, table.name)
        flat = flat_copy(data, spec, table.name, rows) if with_flat else None
        for kind in ("own", "above"):
            peer = float(np.mean(apart(rows, flat, sizes, kind))) if flat is not None else None
            figures.show(f"{child}.{kind}", float(np.mean(apart(rows, copy, sizes, kind))), FLAT, peer)
        shuffled = Joined(copy.own[rng.permutation(len(copy.own))], copy.above, copy.siblings, copy.follows)
        for kind in ("crossing", "lag") if table.order_by else ("crossing",):
            ours, theirs = (float(np.mean(apart(rows, each, sizes, kind))) for each in (copy, shuffled))
            figures.show(f"{child}.{kind}", ours, INDEPENDENT, theirs)
    asked = QUESTIONS[data.name]
    figures.show(f"{prefix}.question", float(np.abs(asked(real, tree) - asked(fake, tree)).max()))
    figures.show(f"{prefix}.question_truth", float(asked(real, tree).max()))


def spec_of(data: FamilySet, epsilon: str) -> ReleaseSpec:
    return ReleaseSpec.model_validate(
        {
            "name": data.name,
            "source": {"uri": "duckdb:///families.duckdb", "snapshot": "1"},
            "privacy": {"account": "a", "epsilon": epsilon, "delta": "1e-6"},
            "generate": {"device": "cpu"},
            "publish": {"to": "releases/"},
            "tables": data.tables,
        }
    )


def private_tree(data: FamilySet, spec: ReleaseSpec) -> LocalTree:
    assert spec.tree is not None
    sources = {
        name: ArrowSource(pa.Table.from_pandas(frame, preserve_index=False)) for name, frame in data.frames.items()
    }
    return LocalTree(TreeSource(sources), spec.tree, tree_domains(spec), b"benchmark")


def measure(private: LocalTree, spec: ReleaseSpec) -> ReleasedTree:
    plan = plan_tree(spec, tree_domains(spec))
    return released_tree(
        measure_tree(private, plan.design, plan.charges[0], lambda _, sold: sold.draw(operating_system_randomness()))
    )


def real_codes(private: LocalTree) -> TreeCodes:
    tables = private.bounded.tables
    return TreeCodes(
        {name: table.codes.astype(np.int32) for name, table in tables.items()},
        {name: table.parent.astype(np.int64) for name, table in tables.items() if table.parent is not None},
    )


def published_codes(made: SyntheticTree, tree: Tree) -> TreeCodes:
    """What the published rows say: their codes, and by their keys whose they are."""
    codes, parent = {}, {}
    for table in tree.tables:
        each = made.tables[table.name]
        codes[table.name] = np.stack(each.codes.columns, axis=1).astype(np.int32)
        if table.parent is not None:
            keys = made.tables[table.parent].table[str(tree.table(table.parent).key)].to_numpy()
            by = np.argsort(keys, kind="stable")
            parent[table.name] = by[np.searchsorted(keys[by], each.table[str(table.by)].to_numpy())]
    return TreeCodes(codes, parent)


def soundness(made: SyntheticTree, tree: Tree) -> dict[str, float]:
    """Shares of foreign keys that name a row, of keys that are unique, of siblings in order, of parents in bounds."""
    found: dict[str, list[float]] = {"integrity": [], "uniqueness": [], "order": [], "bounds": []}
    for table in tree.tables:
        rows = made.tables[table.name].table
        if table.key is not None:
            found["uniqueness"].append(pc.count_distinct(rows[table.key]).as_py() / max(1, rows.num_rows))
        if table.parent is None:
            continue
        keys = made.tables[table.parent].table[str(tree.table(table.parent).key)].combine_chunks()
        named = rows[str(table.by)]
        found["integrity"].append(float(pc.mean(pc.is_in(named, keys).cast(pa.float64())).as_py() or 1.0))
        counts = pc.value_counts(named.combine_chunks()).field("counts").to_numpy()
        found["bounds"].append(float((counts <= table.max_rows).mean()))
        if table.order_by is not None:
            values = (
                rows[table.order_by].cast(pa.int32())
                if "date" in str(rows[table.order_by].type)
                else rows[table.order_by]
            )
            siblings = np.diff(named.to_numpy()) == 0
            found["order"].append(float((np.diff(values.to_numpy())[siblings] >= 0).mean()))
    return {figure: min(shares) for figure, shares in found.items() if shares}


def ancestors(codes: TreeCodes, tree: Tree, table: str, above: str) -> np.ndarray:
    found, at = np.arange(codes.rows(table)), table
    while at != above:
        found, at = codes.parent[at][found], str(tree.table(at).parent)
    return found


def numbers_apart(real: TreeCodes, fake: TreeCodes, tree: Tree, table: str, above: str) -> float:
    found = []
    for codes in (real, fake):
        each = np.bincount(ancestors(codes, tree, table, above), minlength=codes.rows(above))
        found.append(np.bincount(each) / codes.rows(above))
    longest = max(len(each) for each in found)
    one, other = (np.pad(each, (0, longest - len(each))) for each in found)
    return float(np.abs(one - other).sum() / 2)


def joined(codes: TreeCodes, tree: Tree, table: str) -> Joined:
    parent = codes.parent[table]
    above = [codes.codes[other.name][ancestors(codes, tree, table, other.name)] for other in tree.above(table)]
    follows = np.zeros(len(parent), bool)
    follows[1:] = parent[1:] == parent[:-1]
    siblings = np.minimum(np.bincount(parent)[parent], MOST_SIBLINGS)
    return Joined(codes.codes[table], np.concatenate(above, axis=1), siblings, follows)


def sizes_of(table: str, tree: Tree, spec: ReleaseSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    domains = tree_domains(spec)
    return domains[table].sizes, tuple(size for other in tree.above(table) for size in domains[other.name].sizes)


def apart(real: Joined, fake: Joined, sizes: tuple[tuple[int, ...], tuple[int, ...]], kind: str) -> list[float]:
    """Total variation of every pair of a kind."""
    one, other = (shares_of(each, sizes, kind) for each in (real, fake))
    return [float(np.abs(a - b).sum() / 2) for a, b in zip(one, other, strict=True)]


def shares_of(rows: Joined, sizes: tuple[tuple[int, ...], tuple[int, ...]], kind: str) -> list[np.ndarray]:
    """Of every pair of a kind, the shares of rows in its cells."""
    (own, above), places = sizes, np.flatnonzero(rows.follows)
    found = []
    if kind == "own":
        for a, b in combinations(range(len(own)), 2):
            found.append(_shares(rows.own[:, a], rows.own[:, b], own[a], own[b]))
    elif kind == "lag":
        for a, size in enumerate(own):
            found.append(_shares(rows.own[places, a], rows.own[places - 1, a], size, size))
    else:
        for a, size in enumerate(own):
            found += [_shares(rows.own[:, a], rows.above[:, b], size, other) for b, other in enumerate(above)]
            if kind == "crossing":
                found.append(_shares(rows.own[:, a], rows.siblings, size, MOST_SIBLINGS + 1))
    return found


def _shares(one: np.ndarray, other: np.ndarray, size: int, by: int) -> np.ndarray:
    counts = np.bincount(one.astype(np.int64) * by + other, minlength=size * by)
    return np.asarray(counts / max(1, counts.sum()))


def flat_copy(data: FamilySet, spec: ReleaseSpec, table: str, rows: Joined) -> Joined | None:
    """A flat privpgd release of the bounded joined rows, by root."""
    tree = spec.tree
    assert tree is not None
    domains = tree_domains(spec)
    private = private_tree(data, spec)
    root = private.bounded.tables[table].root
    names, codes, columns = [], [], {}
    for name, part in ((table, rows.own), ("above", rows.above)):
        of = (
            domains[table].columns if name == table else [c for o in tree.above(table) for c in domains[o.name].columns]
        )
        for place, column in enumerate(of):
            names.append(f"{name}_{place}")
            codes.append(part[:, place])
            columns[names[-1]] = _flat_column(column.size, column.ordered and not column.off_axis_codes)
    unit = {"entity": "who", "max_rows": tree.most_rows(table)}
    flat = ReleaseSpec.model_validate(
        {
            "name": "joined",
            "source": {"uri": "joined.parquet", "snapshot": "1"},
            "privacy": {"account": "a", "epsilon": spec.privacy.epsilon, "delta": "1e-6", "unit": unit},
            "columns": {**columns, "who": {"type": "identifier"}},
            "method": {"name": "privpgd"},
            "generate": {"device": "cpu"},
            "publish": {"to": "releases/"},
        }
    )
    source = ArrowSource(pa.table({"who": root, **dict(zip(names, codes, strict=True))}))
    domain, method = TableDomain.of(flat), PrivPGDMethod()
    counted = LocalTable(source, domain, flat.privacy.protected_unit, b"benchmark")
    bought = method.measure(
        counted, flat, method.plan(flat, domain), lambda _, sold: sold.draw(operating_system_randomness())
    )
    copy = method.generate(bought, flat, domain, None, lambda *_: None)
    batch = copy.select(list(domain.names)).combine_chunks().to_batches()[0]
    found = np.stack(encode(batch, domain).columns, axis=1).astype(np.int64)
    width, nothing = rows.own.shape[1], np.zeros(len(found), bool)
    return Joined(found[:, :width], found[:, width:], nothing.astype(int), nothing)


def _flat_column(size: int, ordered: bool) -> dict[str, Any]:
    if ordered:
        return {"type": "integer", "min": 0, "max": size - 1, "bins": size}
    return {"type": "category", "values": list(range(size))}


def _twice_in_a_specialty(codes: TreeCodes, tree: Tree) -> np.ndarray:
    """Patients with at least two encounters in a specialty, of each."""
    specialty, who = codes.codes["encounters"][:, 2], codes.parent["encounters"]
    patients = codes.rows("patients")
    return np.array(
        [
            float((np.bincount(who[specialty == code], minlength=patients) >= 2).mean())
            for code in range(len(SPECIALTIES))
        ]
    )


def _child_and_no_worker(codes: TreeCodes, tree: Tree) -> np.ndarray:
    """Households with somebody under 18 and nobody who works."""
    people, home = codes.codes["people"], codes.parent["people"]
    homes = codes.rows("households")
    child = np.bincount(home[people[:, 1] < 5], minlength=homes) > 0
    works = np.bincount(home[np.isin(people[:, 6], (0, 1, 3, 4))], minlength=homes) > 0
    return np.array([float((child & ~works).mean())])


def _drug_within_seven_days(codes: TreeCodes, tree: Tree) -> np.ndarray:
    """Patients who got a drug within seven days of a visit."""
    soon = codes.codes["drugs"][:, 2] <= 2
    who = codes.parent["visits"][codes.parent["drugs"]]
    return np.array([float((np.bincount(who[soon], minlength=codes.rows("patients")) > 0).mean())])


QUESTIONS: dict[str, Callable[[TreeCodes, Tree], np.ndarray]] = {
    "diabetes": _twice_in_a_specialty,
    "households": _child_and_no_worker,
    "clinic": _drug_within_seven_days,
}


def _entities(figures: Figures, data: FamilySet, epsilon: str) -> None:
    """Encounters with what is constant of the patient, as one flat table that keeps its entities."""
    prefix = f"trees.entities.{epsilon}"
    root, child = data.tables.values()
    constant = root["columns"]
    unit = {
        "entity": root["key"],
        "max_rows": child["max_rows"],
        "columns": list(constant),
        "order_by": child["order_by"],
    }
    columns = {root["key"]: {"type": "identifier", "action": "surrogate"}, **constant, **child["columns"]}
    spec = ReleaseSpec.model_validate(
        {
            "name": "entities",
            "source": {"uri": "entities.parquet", "snapshot": "1"},
            "privacy": {"account": "a", "epsilon": epsilon, "delta": "1e-6", "unit": unit},
            "columns": columns,
            "generate": {"device": "cpu"},
            "publish": {"to": "releases/"},
        }
    )
    tree = spec.tree
    assert tree is not None
    frames = list(data.frames.values())
    flat = ArrowSource(pa.Table.from_pandas(frames[1].merge(frames[0], on=root["key"]), preserve_index=False))
    private = LocalTree(TreeSource(dict.fromkeys(tree.names, flat)), tree, tree_domains(spec), b"benchmark")
    made = generate_flat(measure(private, spec), spec, TableDomain.of(spec)).table.to_pandas()
    entities = made.groupby(root["key"])
    same = made[root["key"]].diff() == 0
    figures.show(f"{prefix}.constancy", float((entities[list(constant)].nunique(dropna=False) == 1).all(axis=1).mean()))
    figures.show(f"{prefix}.order", float((made[child["order_by"]].diff()[same] >= 0).mean()))
    real = private.bounded.tables["rows"].parent
    assert real is not None
    numbers = [np.bincount(np.bincount(real), minlength=99), np.bincount(entities.size(), minlength=99)]
    one, other = (each / each.sum() for each in numbers)
    figures.show(f"{prefix}.numbers", float(np.abs(one - other).sum() / 2))
    figures.show(f"{prefix}.entities", float(entities.ngroups / (real.max() + 1)))


def _scale(figures: Figures, data: Path, patients: int) -> None:
    out, name = data / "large-tree-out", f"trees.scale.{patients}"
    try:
        found = measured_tree(data, patients, out)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    for what, seconds in found["counting"].items():
        figures.show(f"{name}.{what.replace(' ', '-')}.seconds", seconds)
    for stage, cost in found["stages"].items():
        for figure, value in cost.items():
            figures.show(f"{name}.{stage.replace(' ', '-')}.{figure}", value)
    for figure in ("seconds", "cpu"):
        figures.show(f"{name}.all.{figure}", sum(cost[figure] for cost in found["stages"].values()))
    figures.show(f"{name}.all.peak_mb", max(cost["peak_mb"] for cost in found["stages"].values()))
    for table, rows in found["rows"].items():
        figures.show(f"{name}.{table}.rows", rows)
    for figure in ("parts", "bytes", "apart_mean", "apart_max"):
        figures.show(f"{name}.{figure}", found[figure])

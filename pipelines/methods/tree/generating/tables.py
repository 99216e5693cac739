"""From a measured tree to the tables that are published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.tree.generating.decoding import decode_flat, decode_tree
from understudy.pipelines.methods.tree.generating.generate import generate_tree
from understudy.pipelines.methods.tree.plan import tree_domains
from understudy.pipelines.methods.tree.released import ReleasedTree
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.keeping import Types
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import SyntheticTree
from understudy.pipelines.table.tree_rules import Place, TreeRule, tree_rules


def generate_tables(
    released: ReleasedTree,
    spec: ReleaseSpec,
    roots: int | None = None,
    stream: np.random.SeedSequence | None = None,
    types: Mapping[str, Types] | None = None,
    roots_before: int = 0,
) -> SyntheticTree:
    """All tables of a release of several, of so many roots, by default as many as were measured; or a part of them."""
    tree, domains = spec.tree, tree_domains(spec)
    assert tree is not None
    codes, rest = _streams(stream)
    rules = tree_rules(spec.generate.rules, tree, domains)
    made = generate_tree(released, domains, roots, codes, config_of(spec), rules)
    return decode_tree(made, tree, domains, np.random.default_rng(rest), types, _orders(rules), roots_before)


def generate_flat(
    released: ReleasedTree,
    spec: ReleaseSpec,
    domain: TableDomain,
    entities: int | None = None,
    stream: np.random.SeedSequence | None = None,
    types: Types | None = None,
    roots_before: int = 0,
) -> Synthetic:
    """A flat table that keeps its entities, `domain` being its own; or a part of it."""
    tree, domains = spec.tree, tree_domains(spec)
    assert tree is not None
    codes, rest = _streams(stream)
    rules = tree_rules(spec.generate.rules, tree, domains)
    made = generate_tree(released, domains, entities, codes, config_of(spec), rules)
    return decode_flat(made, tree, domains, domain, np.random.default_rng(rest), types, _orders(rules), roots_before)


def config_of(spec: ReleaseSpec) -> PrivPGDConfig:
    config = PrivPGDConfig(particles=spec.generate.particles, device=spec.generate.device)
    return config if spec.generate.epochs is None else replace(config, epochs=spec.generate.epochs)


def _orders(rules: Sequence[TreeRule]) -> list[tuple[Place, Place]]:
    return [rule.order for rule in rules if rule.order is not None and rule.rule is not None]


def _streams(stream: np.random.SeedSequence | None) -> tuple[np.random.SeedSequence, np.random.SeedSequence]:
    codes, rest = (stream or np.random.SeedSequence()).spawn(2)
    return codes, rest

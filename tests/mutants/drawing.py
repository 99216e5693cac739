"""Draw edits of the mechanisms' code at random, as cosmic-ray makes them, for `at_random.py` to try.

    python -m tests.mutants.drawing EACH SEED FILE     so many edits of each module, written to FILE as JSON

It runs in an environment of its own (benchmarks/requirements-mutation.txt) and imports nothing of the package. Edits
that change nothing that runs are not drawn: of types and docstrings, and of texts alone.
"""

from __future__ import annotations

import ast
import json
import random
import sys
from pathlib import Path

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    *(f"privacy/{name}.py" for name in ("accounting", "curves", "events", "filters", "mechanism", "relation",
                                        "rounding", "stating")),
    *(f"privacy/noise/{name}.py" for name in ("bulk", "calibration", "rounded", "sampling", "selection")),
    *(f"privacy/ledger/{name}.py" for name in ("accounts", "checking", "ledger", "rows", "spend", "store")),
    *(f"counting/{name}.py" for name in ("adaptive", "mechanism", "quality", "residuals", "triples", "weights")),
    *("counting/tree/tally.py", "methods/tree/measure.py", "methods/tree/plan.py", "sources/tree/bounding.py"),
    *("discovery/mechanism.py", "discovery/thresholds.py", "sources/bounding.py", "sources/ranking.py"),
    *(f"methods/gaussian/{name}.py" for name in ("mechanism", "pairs", "sampling_noise")),
    *("methods/kernel/features.py", "methods/kernel/mechanism.py"),
    *(f"methods/mixing/{name}.py" for name in ("grid", "mechanism", "statistics")),
)  # fmt: skip
_CLASSES = [plugins.get_operator(name) for name in sorted(plugins.operator_names())]
_NEVER_TRIED = ("NoOp", "BitXor", "BitOr", "BitAnd", "LShift", "RShift")
OPERATORS = [each() for each in _CLASSES if not each.arguments() and not each.__name__.endswith(_NEVER_TRIED)]
"""Bits of numbers that are no whole ones are an error in any case, and such edits would be most of all."""


def drawn(module: str, each: int, rng: random.Random) -> list[dict[str, object]]:
    """So many different edits: of places all equally likely, what is done there equally likely."""
    text = (ROOT / "pipelines" / module).read_text()
    nodes = list(ast_nodes(get_ast(text)))
    places: dict[tuple[int, int], list[tuple[Operator, int]]] = {}
    for operator in OPERATORS:
        sites = [site for node in nodes for site, _ in operator.mutation_positions(node)]
        for number, site in enumerate(sites):
            places.setdefault(site, []).append((operator, number))
    found = [rng.choice(edits) for edits in rng.sample(list(places.values()), len(places))]
    edits: list[dict[str, object]] = []
    for operator, place in found:
        if len(edits) == each:
            break
        edited = mutate_code(text, operator, place)
        if edited is not None and _runs_otherwise(text, edited) and all(edited != other["text"] for other in edits):
            number = next(
                i for i, (a, b) in enumerate(zip(text.split("\n"), edited.split("\n"), strict=False)) if a != b
            )
            edits.append({
                "module": module, "operator": type(operator).__name__, "line": number + 1, "text": edited,
                "old": text.split("\n")[number].strip(), "new": edited.split("\n")[number].strip(), "of": len(found),
            })  # fmt: skip
    return edits


def _runs_otherwise(text: str, edited: str) -> bool:
    try:
        return _what_runs(text) != _what_runs(edited)
    except SyntaxError:
        return False


def _what_runs(text: str) -> str:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def main() -> int:
    each, seed, place = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    edits = [edit for module in MODULES for edit in drawn(module, each, random.Random(f"{seed} {module}"))]
    place.write_text(json.dumps(edits))
    print(f"{len(edits)} edits of {len(MODULES)} modules drawn, seed {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

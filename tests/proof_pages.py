"""Proof pages and the functions they were written for. `python tests/proof_pages.py --write` renews the hashes."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "proofs"
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_IGNORED = {"type_comment", "type_params", "ctx", "kind"}  # differ between versions of Python, or say nothing


@dataclass(frozen=True)
class Page:
    path: Path
    functions: dict[str, str]
    """By dotted name below the project's root: the hash the page was written for."""
    text: str

    @property
    def headings(self) -> set[str]:
        return set(re.findall(r"^## (.+)$", self.text, re.MULTILINE))


def pages(folder: Path = PAGES) -> list[Page]:
    return [page_of(path) for path in sorted(folder.glob("*.md")) if path.name != "README.md"]


def page_of(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    front = _FRONT.match(text)
    if front is None:  # prose that is tied to no function
        return Page(path, {}, text)
    return Page(path, dict(yaml.safe_load(front[1])["functions"] or {}), text[front.end() :])


def module_of(name: str, root: Path = ROOT) -> tuple[Path, list[str]]:
    """The file that holds a dotted name, and the names inside it (a function, or a class and its method)."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        path = root.joinpath(*parts[:end]).with_suffix(".py")
        if path.is_file():
            return path, parts[end:]
    raise LookupError(f"no module holds {name}")


def function_hash(name: str, root: Path = ROOT) -> str:
    path, inner = module_of(name, root)
    node: Any = ast.parse(path.read_text(encoding="utf-8"))
    for part in inner:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = [child for child in node.body if isinstance(child, kinds) and child.name == part]
        if not found:
            raise LookupError(f"{path.relative_to(root)} has no {'.'.join(inner)}")
        node = found[-1]
    return tree_hash(node)


def tree_hash(node: ast.AST) -> str:
    """Of what the function does: its syntax without docstrings, comments, layout and annotations."""
    return hashlib.sha256(json.dumps(_plain(node)).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = {name: field for name, field in ast.iter_fields(value) if name not in _IGNORED}
    if isinstance(value, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        fields.pop("returns", None)
        fields["body"] = [line for place, line in enumerate(value.body) if not (place == 0 and _is_text(line))]
    if isinstance(value, ast.arg):
        fields.pop("annotation", None)
    kept = {name: _plain(field) for name, field in fields.items() if field is not None and field != []}
    return [type(value).__name__, kept]


def _is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)


def stale(folder: Path = PAGES, root: Path = ROOT) -> list[str]:
    """Every function that is not what its page was written for."""
    found = []
    for page in pages(folder):
        for name, written_for in page.functions.items():
            try:
                now = function_hash(name, root)
            except LookupError as missing:
                found.append(f"{page.path.name}: {missing}; name what took its place")
                continue
            if now != written_for:
                found.append(f"{page.path.name}: {name} changed; read the page again, then `make proofs`")
    return found


def write(folder: Path = PAGES, root: Path = ROOT) -> None:
    for page in (page for page in pages(folder) if page.functions):
        lines = [f"  {name}: {function_hash(name, root)}" for name in page.functions]
        front = "\n".join(["---", "functions:", *lines, "---", ""])
        page.path.write_text(front + page.text, encoding="utf-8")


if __name__ == "__main__":
    for line in stale():
        print(line)
    if "--write" in sys.argv[1:]:
        write()
        print("hashes written; what is not true any more is for you to find")

"""Every function that draws has a proof page, written for the function as it is now."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.proof_pages import PAGES, ROOT, function_hash, module_of, page_of, pages, stale, tree_hash, write

SECTIONS = {"Statement", "Relation", "Sensitivity", "Noise unit", "Proof", "What the code does otherwise", "Tests"}
HEADER = ("theorem", "relation", "sensitivity", "noise unit", "reference")
DRAWS = {
    *("words", "rounded_gaussian", "table_gaussian", "discrete_gaussian", "add_draws", "rounded_normals"),
    *("poisson_draw", "fixed_draw", "choose", "coin_exp", "uniform_below"),
}
"""Whoever calls one of these uses randomness of the privacy path."""
BOUND = [page for page in pages() if page.functions]


def drawing_functions(source: str) -> set[str]:
    """Qualified names of the functions in which a sampler is called (nested ones count as the one they stand in)."""
    found = set()

    def visit(node: ast.AST, inside: tuple[str, ...], function: tuple[str, ...] | None) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                place = (*inside, child.name)
                is_function = not isinstance(child, ast.ClassDef)
                visit(child, place, function or (place if is_function else None))
                continue
            if isinstance(child, ast.Call) and function is not None:
                called = getattr(child.func, "attr", getattr(child.func, "id", None))
                if called in DRAWS:
                    found.add(".".join(function))
            visit(child, inside, function)

    visit(ast.parse(source), (), None)
    return found


def test_every_page_is_written_for_the_functions_as_they_are() -> None:
    assert stale() == []


def test_every_function_that_draws_is_on_a_page() -> None:
    on_pages = {name for page in pages() for name in page.functions}
    missing = []
    for path in sorted((ROOT / "pipelines").rglob("*.py")):
        relative = path.relative_to(ROOT)
        prefix = ".".join(relative.with_suffix("").parts)
        drawing = drawing_functions(path.read_text(encoding="utf-8"))
        missing += [f"{prefix}.{name}" for name in sorted(drawing) if f"{prefix}.{name}" not in on_pages]
    assert missing == [], "add them to the page in docs/proofs that proves them, then `make proofs`"


@pytest.mark.parametrize("page", BOUND, ids=lambda page: page.path.stem)
def test_a_page_has_every_section_and_its_tests_exist(page) -> None:
    assert page.headings >= SECTIONS | {"Reference"}
    tests = page.text.split("## Tests")[1].split("## ")[0]
    named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", BOUND, ids=lambda page: page.path.stem)
def test_the_modules_of_a_page_open_with_the_five_words_and_its_name(page) -> None:
    for path in {module_of(name)[0] for name in page.functions}:
        header = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").lower()
        where = path.relative_to(ROOT).as_posix()
        assert [word for word in HEADER if word not in re.sub(r"\s+", " ", header)] == [], where
        assert f"docs/proofs/{page.path.name}" in header, f"{where} does not name docs/proofs/{page.path.name}"


def test_every_link_between_pages_leads_somewhere_and_the_index_is_whole() -> None:
    index = (PAGES / "README.md").read_text(encoding="utf-8")
    for text in [index, *(page.text for page in pages())]:
        links = set(re.findall(r"\]\(([\w-]+\.md)\)", text))
        assert [link for link in links if not (PAGES / link).is_file()] == []
    assert [page.path.name for page in pages() if f"({page.path.name})" not in index] == []


def test_no_file_points_at_a_document_that_is_not_there() -> None:
    for folder in ("pipelines", "tasks", "flows", "understudy", "benchmarks", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            named = re.findall(r"\bdocs/[\w/-]+\.md", text)
            assert [name for name in named if not (ROOT / name).is_file()] == [], path
            assert path == Path(__file__) or not re.search(r"(?<![\w/-])privacy\.md", text), path


FUNCTION = '''
def release(exact, sigma):
    """Some words."""
    return exact + draw(sigma)  # why
'''


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (("Some words.", "Others."), False),
        (("  # why", ""), False),
        (("exact, sigma", "exact: int, sigma: float"), False),
        (("draw(sigma)", "draw(\n        sigma,\n    )"), False),
        (("draw(sigma)", "draw(0.8 * sigma)"), True),
        (("exact + draw", "exact - draw"), True),
        (("return exact", "exact = exact[:1]\n    return exact"), True),
    ],
)
def test_a_changed_function_fails_until_its_page_is_looked_at_again(
    tmp_path: Path, change: tuple[str, str], noticed: bool
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "pipelines").mkdir()
    page, module = tmp_path / "docs" / "a.md", tmp_path / "pipelines" / "m.py"
    page.write_text("---\nfunctions:\n  pipelines.m.release: x\n---\n# A page\n")
    module.write_text(FUNCTION)
    write(page.parent, tmp_path)
    assert stale(page.parent, tmp_path) == []
    module.write_text(FUNCTION.replace(*change))
    assert bool(stale(page.parent, tmp_path)) is noticed
    write(page.parent, tmp_path)
    assert stale(page.parent, tmp_path) == []
    assert page_of(page).text == "# A page\n"


def test_a_real_drawing_function_with_less_noise_would_be_noticed(tmp_path: Path) -> None:
    """The planted bug of every release that leaks: the same code with the scale multiplied by 0.8."""
    name = "pipelines.privacy.noise.rounded.rounded_gaussian"
    path = tmp_path / "pipelines" / "privacy" / "noise" / "rounded.py"
    path.parent.mkdir(parents=True)
    shutil.copy(module_of(name)[0], path)
    assert function_hash(name, tmp_path) == function_hash(name)
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace("_certified_magnitudes(tail_words, sigma)", "_certified_magnitudes(tail_words, 0.8 * sigma)")
    )
    assert path.read_text(encoding="utf-8") != text
    assert function_hash(name, tmp_path) != function_hash(name)


def test_a_function_that_vanished_is_named(tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "m.py").write_text("x = 1\n")
    page = tmp_path / "a.md"
    page.write_text("---\nfunctions:\n  pipelines.m.gone: x\n  pipelines.n.gone: x\n---\n")
    assert len(stale(tmp_path, tmp_path)) == 2
    assert all("name what took its place" in line for line in stale(tmp_path, tmp_path))


def test_the_search_for_drawing_functions_finds_them() -> None:
    source = """
class Noise:
    def draw(self, exact, randomness):
        return exact + rounded_gaussian(1, self.std, randomness)
def measure(purchase):
    def inner(randomness):
        return randomness.words(3)
    return purchase(inner)
def harmless(words):
    return len(words)
"""
    assert drawing_functions(source) == {"Noise.draw", "measure"}
    first, second = (ast.parse(f"def f(x):\n    return x + {n}").body[0] for n in (1, 2))
    assert tree_hash(first) != tree_hash(second)

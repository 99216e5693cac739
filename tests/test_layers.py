"""The layering is executable: the domain imports without the orchestrator, and --help without the domain."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

BLOCKED_IMPORT = """
import importlib, pkgutil, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"prefect", "dask", "distributed", "great_expectations"}:
            raise ImportError("blocked: " + name)

sys.meta_path.insert(0, Blocked())
import understudy.pipelines as root
names = [m.name for m in pkgutil.walk_packages(root.__path__, "understudy.pipelines.")]
for name in names:
    importlib.import_module(name)
assert len(names) > 20, names
print(len(names))
"""

HELP = """
import sys
from understudy.cli.main import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0
heavy = {"prefect", "torch", "numba", "pandas", "pyarrow", "duckdb", "dask", "great_expectations", "scipy"}
loaded = heavy & set(sys.modules)
assert not loaded, loaded
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pipelines_import_with_the_orchestrator_blocked() -> None:
    assert int(run(BLOCKED_IMPORT)) > 20


def test_help_loads_nothing_heavy() -> None:
    assert "Exit codes" in run(HELP)


def test_public_name_has_a_version() -> None:
    import understudy

    assert understudy.__version__ == "0.1.0"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The package as it ships, in one folder: the import contracts are checked on files."""
    package = tmp_path / "understudy"
    shutil.copytree(ROOT / "understudy", package, ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("flows", "tasks", "pipelines"):
        shutil.copytree(ROOT / room, package / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def kept(tree: Path) -> subprocess.CompletedProcess[str]:
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-P", "-c", lint, "--no-cache", "--config", str(ROOT / ".importlinter")]
    environment = {"PYTHONPATH": str(tree), "PATH": "", "COLUMNS": "200"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def test_imports_go_one_way(tree: Path) -> None:
    done = kept(tree)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("pipelines/privacy/relation.py", "import understudy.pipelines.spec.model"),
        ("pipelines/table/domain.py", "import understudy.pipelines.sources.base"),
        ("pipelines/methods/gaussian/split.py", "import understudy.pipelines.methods.privpgd.stein"),
        ("pipelines/privacy/noise/rounded.py", "import understudy.pipelines.privacy.ledger.rows"),
        ("pipelines/spec/model.py", "import understudy.tasks.select"),
        ("tasks/select.py", "import understudy.cli.tables"),
        ("api.py", "import understudy.tasks.select"),
    ],
)
def test_one_line_against_the_order_breaks_a_contract(tree: Path, module: str, line: str) -> None:
    with (tree / "understudy" / module).open("a") as file:
        file.write(f"\n{line}\n")
    done = kept(tree)
    assert done.returncode == 1
    broken = f"understudy.{module[:-3].replace('/', '.')} -> {line.removeprefix('import ')}"
    assert broken in " ".join(done.stdout.split())

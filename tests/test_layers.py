"""The layering is executable: the domain imports without the orchestrator, and --help without the domain."""

from __future__ import annotations

import subprocess
import sys

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

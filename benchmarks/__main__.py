"""Runs the benchmark named first; every module directly in this folder is one.

A benchmark module has `run(args)`, and `add_arguments(parser)` if it takes options besides `--data` and
`--only`. Only the chosen module is imported.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

import benchmarks


def commands() -> list[str]:
    return sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.ispkg and m.name[0] != "_")


def main(arguments: list[str]) -> int:
    chooser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    chooser.add_argument("benchmark", choices=commands())
    chosen = chooser.parse_args(arguments[:1]).benchmark
    module = importlib.import_module(f"benchmarks.{chosen}")
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {chosen}", description=module.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the data sets; missing ones are skipped")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only figures whose name starts so")
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    args = parser.parse_args(arguments[1:])
    if not args.data.is_dir():
        parser.error(f"--data {args.data} is not a directory")
    module.run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

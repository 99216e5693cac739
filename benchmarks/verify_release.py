"""What `understudy verify` costs on the demo: every file hashed, the loss composed anew, the signature checked.

    python -m benchmarks.verify_release [--demo DIRECTORY]

Makes the demo in a temporary directory unless one is named (`understudy demo --directory DIRECTORY`), then times the
check in a process that has done it once: the time on the clock and the processor's, which other work does not stretch.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from understudy.pipelines.publishing.stored import LATEST
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.workspace import HOME, Workspace

REPEATS = 50


def make_demo(directory: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UNDERSTUDY")}
    command = [sys.executable, "-m", "understudy.cli.main", "demo", "--directory", str(directory)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def measure(demo: Path) -> None:
    [release] = demo.glob(f"releases/*/{LATEST}")
    [home] = {path.parent for path in demo.rglob("keys") if path.is_dir()}
    keys = vouched(Workspace.from_environment({HOME: str(home)}))
    clock, processor = [], []
    for _ in range(REPEATS + 1):
        started, worked = time.perf_counter(), time.process_time()
        certificate = verify_release(str(release), keys)
        clock.append(1000 * (time.perf_counter() - started))
        processor.append(1000 * (time.process_time() - worked))
        assert all(finding.holds for finding in certificate.findings)
    size = sum(path.stat().st_size for path in release.resolve().rglob("*") if path.is_file())
    print(f"{certificate.manifest.rows:,} rows, {size:,} bytes; milliseconds: first, median, worst of {REPEATS}")
    for name, took in (("clock", clock), ("processor", processor)):
        first, *others = took
        print(f"{name:10} {first:8.1f} {statistics.median(others):8.1f} {max(others):8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--demo", type=Path, help="the directory of a demo that was made before")
    given = parser.parse_args()
    if given.demo is not None:
        measure(given.demo)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_demo(Path(folder) / "demo")
        measure(Path(folder) / "demo")


if __name__ == "__main__":
    main()

"""Damaged Parquet files: each is read or refused in one message, in a process that lives, in time and memory.

Bytes are flipped, replaced, zeroed, cut off, taken out and doubled in headers, pages and footers of files of each codec
and encoding. That a byte of a value became another nobody can see unless the file has checksums: then it is read.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.sources.damage import DIGITS, SECRET, damaged, whole_files

AT_ONCE = 125
PEAK_MEGABYTES = 1500


def outcomes(files: list[Path]) -> dict[str, dict[str, Any]]:
    """What came of each file, read in processes of their own."""
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(files), AT_ONCE):
        names = [str(file) for file in files[start : start + AT_ONCE]]
        reader = [sys.executable, "-m", "tests.sources.damage_reader", *names]
        ended = subprocess.run(reader, capture_output=True, text=True, timeout=550, check=False)
        found |= {told["file"]: told for told in map(json.loads, ended.stdout.splitlines())}
        assert ended.returncode == 0, (ended.returncode, ended.stdout.splitlines()[-1:], ended.stderr[-2000:])
    return found


def check_damaged(folder: Path, count: int, seed: int) -> Counter[str]:
    """Damage so many files, each kind of file in turn; how many were read and how many refused."""
    whole, done, content = whole_files(), {}, {}
    for number in range(count):
        path = folder / f"t{number}.parquet"
        done[str(path)], content[path] = damaged(whole[number % len(whole)], random.Random(f"{seed} {number}"))
        path.write_bytes(content[path])
    found = outcomes(list(content))
    assert len(found) == count
    for name, told in found.items():
        assert told["ended"] in ("read", "refused"), (done[name], told)
        assert told["peak"] < PEAK_MEGABYTES, (done[name], told)
        if told["ended"] == "refused":
            message = told["problem"] + told["fix"]
            assert told["problem"], done[name]
            assert told["fix"], done[name]
            assert "\n" not in message, (done[name], told)
            assert SECRET not in message, (done[name], told)
            assert DIGITS not in message, (done[name], told)
            assert told["context"] == "None", (done[name], told)
    return Counter(told["ended"] for told in found.values())


def test_sound_files_are_read(tmp_path: Path) -> None:
    """Or the others would be refused for another reason."""
    for number, whole in enumerate(whole_files()):
        (tmp_path / f"{number}.parquet").write_bytes(whole.content)
    assert {told["ended"] for told in outcomes(sorted(tmp_path.iterdir())).values()} == {"read"}


def test_sixty_damaged_files_are_read_or_refused_in_one_message(tmp_path: Path) -> None:
    assert check_damaged(tmp_path, 60, seed=1)["refused"] > 30


@pytest.mark.slow
def test_a_thousand_damaged_files_are_read_or_refused_in_one_message(tmp_path: Path) -> None:
    assert check_damaged(tmp_path, 1000, seed=2)["refused"] > 600

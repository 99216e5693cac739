"""What an audit consists of: pieces of a minute at most, each with what it found, which may be kept and gone on from.

A kept piece is used again only by an audit of the same code, with the same seed and numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from understudy.pipelines.auditing.alarms import Alarm, Similarity
from understudy.pipelines.auditing.attacks import LowerBound
from understudy.pipelines.auditing.one_run import OneRun

PAIRS_A_PIECE = 100


@dataclass(frozen=True)
class Replayed:
    """So many pairs of neighbours of one release."""

    case: str
    number: int
    pairs: int
    habits: dict[str, int]
    largest: float
    excesses: tuple[str, ...]
    differences: tuple[str, ...]
    seconds: float
    kind: Literal["pairs"] = "pairs"


@dataclass(frozen=True)
class Bounded:
    """A worst case told apart, or why it was not."""

    case: str
    bound: LowerBound | str
    kind: Literal["bound"] = "bound"


@dataclass(frozen=True)
class Canaries:
    found: OneRun
    kind: Literal["canaries"] = "canaries"


@dataclass(frozen=True)
class Alarms:
    case: str
    epsilon: str
    alarms: tuple[Alarm, ...]
    similar: Similarity
    seconds: float
    kind: Literal["alarms"] = "alarms"


Piece = Replayed | Bounded | Canaries | Alarms
_PIECE: TypeAdapter[Piece] = TypeAdapter(Piece)
Key = tuple[str, ...]


def key_of(piece: Piece) -> Key:
    match piece:
        case Replayed():
            return piece.kind, piece.case, str(piece.number)
        case Bounded():
            return piece.kind, piece.case
        case Alarms():
            return piece.kind, piece.case, piece.epsilon
    return (piece.kind,)


@cache
def code_hash() -> str:
    """Of every source file of the package that is audited, but for the words of the page."""
    root, told = Path(__file__).resolve().parents[1], hashlib.sha256()
    for path in sorted(each for each in root.rglob("*.py") if each.name != "page.py"):
        told.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return told.hexdigest()


class Kept:
    """Pieces that have run, by their keys; in a file, if one is named, whose first line says of what they are."""

    def __init__(self, path: Path | None, of: dict[str, object]) -> None:
        self._path, self.found, of = path, {}, {**of, "code": code_hash()}
        if path is None:
            return
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        if lines and json.loads(lines[0]) == of:
            self.found = {key_of(piece): piece for piece in self._read(lines[1:])}
        else:
            path.write_text(json.dumps(of) + "\n", encoding="utf-8")

    found: dict[Key, Piece]

    def add(self, piece: Piece) -> None:
        self.found[key_of(piece)] = piece
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(_PIECE.dump_json(piece) + b"\n")

    @staticmethod
    def _read(lines: list[str]) -> Iterator[Piece]:
        for line in lines:
            if line.endswith("}"):  # the last one may have been cut off
                yield _PIECE.validate_json(line)

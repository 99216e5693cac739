"""What a planted bug is: small edits of today's code, and the tests that must fail for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "UNDERSTUDY_ENDLESS"
"""Names the seconds of CPU after which a test is taken to run for ever: its process is ended, whatever it is doing."""


class Stale(ValueError):
    """The code that a bug is planted in is no longer there."""


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    name: str
    test: str
    edits: tuple[Edit, ...]
    says: str = ""
    """What the failure must say, where it is no plain assertion."""
    also: str = ""
    """A test of generated neighbours (tests/auditing), or of whatever else is generated, that must find it as well,
    knowing nothing of the bug."""

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.test, self.also)))

    def edited(self, root: Path = ROOT) -> dict[str, str]:
        """Each edited file's new text. Raises `Stale` where an edit does not find its place, or finds several."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.file) or (root / edit.file).read_text()
            if text.count(edit.old) != 1:
                raise Stale(f"{self.name}: {edit.file} has {text.count(edit.old)} times: {edit.old}")
            texts[edit.file] = text.replace(edit.old, edit.new)
        return texts


def bug(name: str, file: str, old: str, new: str, test: str, says: str = "") -> Mutant:
    return Mutant(name, f"tests/{test}", (Edit(f"pipelines/{file}", old, new),), says)


def found(mutants: tuple[Mutant, ...], by: dict[str, str]) -> tuple[Mutant, ...]:
    """The bugs, some of them with a test of generated neighbours that must find them too."""
    unknown = set(by) - {mutant.name for mutant in mutants}
    if unknown:
        raise Stale(f"no bug has this name: {sorted(unknown)}")
    return tuple(replace(mutant, also=by.get(mutant.name, "")) for mutant in mutants)


SLOW_TO_START = ("tests/e2e", "tests/faults", "tests/flows", "tests/cli", "tests/mutants", "tests/docs")


FEW = 2


def files_about(module: str) -> list[str]:
    """The files of tests that import a module, by how near they are; where hardly any do, all of its folder."""
    dotted = "understudy.pipelines." + module.removesuffix(".py").replace("/", ".")
    package, _, name = dotted.rpartition(".")
    wanted = re.compile(rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{name}\b")
    found = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if wanted.search(path.read_text())]
    named = [str(path.relative_to(ROOT)) for path in found]
    kept = [path for path in named if not path.startswith(SLOW_TO_START)]
    folder = f"tests/{Path(module).parent}"
    if len(kept) < FEW:
        kept = list({*kept, *(str(path.relative_to(ROOT)) for path in (ROOT / folder).glob("test_*.py"))})
    return sorted(kept, key=lambda path: (Path(path).stem != f"test_{name}", not path.startswith(folder), path))

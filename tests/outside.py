"""Packages of others, made for a test as an installer would leave them: a module and its metadata on the path."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent / "outside_packages"


def install(into: Path, package: str, module: str, code: str, **entry_points: str) -> Path:
    """`install(place, "feather", "feather_source", code, sources="feather = feather_source:FeatherSource")`."""
    into.mkdir(exist_ok=True)
    (into / f"{module}.py").write_text(code)
    metadata = into / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    listed = [f"[understudy.{group}]\n{entries}\n" for group, entries in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(listed))
    (metadata / "RECORD").write_text("")
    return into


def install_feather(into: Path) -> Path:
    code = (HERE / "feather_source.py").read_text()
    return install(into, "feather", "feather_source", code, sources="feather = feather_source:FeatherSource")


def install_jsonl(into: Path) -> Path:
    code = (HERE / "jsonl_target.py").read_text()
    return install(into, "jsonl", "jsonl_target", code, targets="jsonl = jsonl_target:JsonLinesTarget")

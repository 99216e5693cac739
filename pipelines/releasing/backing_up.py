"""Backups: one directory with the ledger, what its charges bought and the signing keys, and the way back.

A backup is `ledger.db`, `measurements/<mid>/`, `keys/` and `backup.json`, written under another name and renamed: it is
whole or not there, and never replaces one. Restoring never replaces a ledger either, and asks whatever remembers more
than the backup does: a ledger, a store or published releases that know later charges. What was spent since would be
forgotten, so it is refused; told otherwise, the reason is sealed into every account's history, and the measurements
and releases that know more keep their accounts closed (`privacy.ledger.spend`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from understudy.pipelines.errors import LedgerError, SpecError
from understudy.pipelines.privacy.ledger import backup
from understudy.pipelines.privacy.ledger.backup import LEDGER_NAME, Contents
from understudy.pipelines.privacy.ledger.shelves import write_durably
from understudy.pipelines.privacy.ledger.staging import flush, own_staging, remove_abandoned
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.releasing.newer import checkpoints_of, newer_checked, newer_in_store, newer_releases
from understudy.pipelines.releasing.workspace import Workspace

FORMAT, VERSION = "understudy-backup", 1
FACTS_NAME, MEASUREMENTS, KEYS = "backup.json", "measurements", "keys"
_STAGING = ".understudy-backup-"


@dataclass(frozen=True)
class Backup:
    """What `backup.json` says. `missing` are measurements that could not be copied, with the reason."""

    at: str
    ledger: str
    heads: dict[str, str]
    measurements: int
    keys: dict[str, str]
    missing: dict[str, str]


@dataclass(frozen=True)
class Restored:
    backup: Backup
    ledger: bool
    measurements: int
    keys: int
    newer: tuple[str, ...]


def back_up(workspace: Workspace, store: MeasurementStore, place: Path, incomplete: bool = False) -> Backup:
    """Copy while releases run. `incomplete` accepts that measurements which are lost already are not in it."""
    if place.exists():
        raise SpecError(f"{place} is already there; a backup never replaces anything.", "Name a directory that is not.")
    if not backup.exists(workspace.ledger_url):
        raise SpecError(
            "There is no ledger to back up.", "Name the one that is used: UNDERSTUDY_HOME, --home, --ledger."
        )
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(place.parent, _STAGING)
        with own_staging(place.parent, _STAGING) as staging:
            try:
                staging.chmod(0o700)
                made = _fill(staging, workspace, store, incomplete)
                flush(staging)
                staging.rename(place)
                flush(place.parent)
            except BaseException:
                shutil.rmtree(staging, ignore_errors=True)
                raise
    except OSError as error:
        problem = error.strerror or type(error).__name__
    else:
        return made
    raise LedgerError(f"The backup {place} cannot be written: {problem}.", "Make room or name another directory.")


def _fill(staging: Path, workspace: Workspace, store: MeasurementStore, incomplete: bool) -> Backup:
    found = backup.copy_ledger(workspace.ledger_url, staging)
    if not found.lines:
        raise SpecError("The ledger has no accounts: there is nothing to back up.", "Name the ledger that is used.")
    kept = MeasurementStore(staging / MEASUREMENTS)
    copied, missing = backup.copy_measurements(found, store, kept)
    if missing and not incomplete:
        raise LedgerError(
            f"{len(missing)} measurement(s) that were paid for cannot be copied from {store.where}, the first: "
            f"{next(iter(missing.values()))}",
            "Put them back from an earlier backup (`understudy ledger restore`), or leave them out: --incomplete.",
        )
    keys = _copy_files(workspace.keys, staging / KEYS)
    heads = {account: lines[-1] if lines else "" for account, lines in found.lines.items()}
    made = Backup(datetime.now(UTC).isoformat(timespec="seconds"), found.ledger, heads, copied, keys, missing)
    document = {"format": FORMAT, "version": VERSION, **vars(made)}
    write_durably(staging / FACTS_NAME, (json.dumps(document, indent=2, sort_keys=True) + "\n").encode())
    return made


def restore(
    workspace: Workspace, store: MeasurementStore, place: Path, releases: Sequence[str] = (), older_reason: str = ""
) -> Restored:
    """Into an empty ledger; where the ledger is there and knows all that the backup does, only what it lacks is put
    back: measurements and keys."""
    made = read_backup(place)
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-restore-") as folder:
            copy = Path(folder) / LEDGER_NAME
            shutil.copyfile(place / LEDGER_NAME, copy)  # opening may migrate it, and a backup stays as it is
            return _restore(workspace, store, place, made, copy, releases, older_reason.strip())
    except OSError as error:
        problem = error.strerror or type(error).__name__
    raise LedgerError(
        f"The backup {place} cannot be restored: {problem}.",
        "Make room, or check that everything can be read and written, and restore again: what is there already stays.",
    )


def _restore(
    workspace: Workspace,
    store: MeasurementStore,
    place: Path,
    made: Backup,
    copy: Path,
    releases: Sequence[str],
    reason: str,
) -> Restored:
    found = backup.contents(f"sqlite:///{copy}")
    _require_same(place, made, found)
    empty = _ledger_is_empty(workspace, found, made)
    checked = newer_checked(workspace, found) if empty else {}
    newer = (*newer_in_store(store, found), *newer_releases(releases, found), *checked.values()) if empty else ()
    if newer and not reason:
        raise LedgerError(
            f"The backup of {made.at} is older than what is known elsewhere; what was spent since would be "
            "forgotten:\n  " + "\n  ".join(newer),
            "Restore a newer backup. If there is none: --older-is-fine with --reason, which is kept in the "
            "history; accounts that something else knows more of stay closed to releases that meet it.",
        )
    copied, failed = backup.copy_measurements(found, MeasurementStore(place / MEASUREMENTS), store)
    failed = {mid: why for mid, why in failed.items() if mid not in made.missing}
    if failed:
        raise LedgerError(
            f"{len(failed)} measurement(s) cannot be restored, the first: {next(iter(failed.values()))}",
            "Move away what is damaged, or use another backup, and restore again: what is there already stays.",
        )
    keys = _restore_keys(place / KEYS, workspace.keys, made)
    if empty:
        backup.put_ledger(copy, workspace.ledger_url, reason if newer else "")  # last: it makes the rest count
        for account in checked:  # the reason is sealed where these lines were
            checkpoints_of(workspace, found).forget(account)
    return Restored(made, empty, copied, keys, newer)


def read_backup(place: Path) -> Backup:
    problem = ""
    try:
        if not stat.S_ISREG((place / FACTS_NAME).stat().st_mode):
            raise ValueError("a pipe would be waited for")
        document = json.loads((place / FACTS_NAME).read_text(encoding="utf-8"))
        if (document.pop("format"), document.pop("version")) == (FORMAT, VERSION):
            return _sound(Backup(**document))
        problem = "it is of another kind or version"
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        problem = f"its {FACTS_NAME} is damaged"
    raise SpecError(f"{place} is no backup that can be restored: {problem}.", "Name a directory that `backup` wrote.")


def _sound(made: Backup) -> Backup:
    """Names and hashes as text; no key outside the folder of keys."""
    for facts in (made.heads, made.keys, made.missing):
        if not all(isinstance(text, str) for pair in facts.items() for text in pair):
            raise ValueError("names and hashes are text")
    if any(Path(name).is_absolute() or ".." in Path(name).parts for name in made.keys):
        raise ValueError("a key lies in the folder of keys")
    return made


def _require_same(place: Path, made: Backup, found: Contents) -> None:
    heads = {account: lines[-1] if lines else "" for account, lines in found.lines.items()}
    known = {account: found.lines.get(account, ()) for account in made.heads}
    # A newer program's migration may seal further lines into the copy; none of the backup's may be gone.
    if (
        made.ledger != found.ledger
        or set(heads) != set(made.heads)
        or any(head and head not in known[account] for account, head in made.heads.items())
    ):
        raise LedgerError(
            f"The ledger in {place} is not the one that was backed up there.", "Use another backup; this was changed."
        )


def _ledger_is_empty(workspace: Workspace, found: Contents, made: Backup) -> bool:
    """True if the ledger is to be filled, False if it knows all that the backup does; anything else is refused."""
    if not backup.exists(workspace.ledger_url):
        return True
    present = backup.contents(workspace.ledger_url)
    if not present.lines:
        return True
    if present.ledger != found.ledger:
        raise LedgerError(
            "The ledger that is there is another one than was backed up: restoring would forget what it has spent.",
            "Restore into another place: UNDERSTUDY_HOME and UNDERSTUDY_LEDGER.",
        )
    kept = {account: present.lines.get(account, ()) for account in made.heads}
    if any(head and head not in kept[account] for account, head in made.heads.items()):
        missing = present.lacks(found)
        told = "; ".join(f"{count} line(s) of {account!r}" for account, count in sorted(missing.items()))
        raise LedgerError(
            f"The ledger that is there lacks what the backup of {made.at} knows: {told}. It is older, or was changed.",
            "Stop all releases, move the ledger away and restore again; the backup then comes in its place.",
        )
    return False


def _copy_files(source: Path, into: Path) -> dict[str, str]:
    """Regular files with their modes, and their hashes; what is there already stays."""
    hashes = {}
    for path in sorted(source.rglob("*")) if source.is_dir() else []:
        if path.is_symlink() or not path.is_file() or path.name.startswith("."):
            continue
        name, content = str(path.relative_to(source)), path.read_bytes()
        hashes[name] = hashlib.sha256(content).hexdigest()
        _write_private(into / name, content, path.stat().st_mode & 0o777)
    return hashes


def _restore_keys(source: Path, into: Path, made: Backup) -> int:
    restored = 0
    for name, sha256 in made.keys.items():
        content, final = (source / name).read_bytes(), into / name
        if hashlib.sha256(content).hexdigest() != sha256:
            raise LedgerError(f"The key {source / name} is damaged.", "Use another backup.")
        if final.exists():
            if final.read_bytes() != content:
                raise LedgerError(
                    f"{final} is another key than was backed up.", "Move it away if the one of the backup is wanted."
                )
            continue
        _write_private(final, content, (source / name).stat().st_mode & 0o777)
        restored += 1
    return restored


def _write_private(path: Path, content: bytes, mode: int) -> None:
    """Never readable by others, not even for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    path.chmod(mode)

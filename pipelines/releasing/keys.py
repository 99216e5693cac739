"""The keys of an installation: which one signs, and whose signatures are believed here.

`<home>/keys/release.pem` signs, unless UNDERSTUDY_SIGNING_KEY names another file. It is made at the first release if
there is none. `<home>/keys/public/<id>.pem` holds every public key that ever signed here, so that releases stay
verifiable when the key changes; removing a file there is how an installation stops believing a key. A secret key is
never overwritten: one that is replaced is set aside.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.publishing.signing import PublicKey, SigningKey
from understudy.pipelines.releasing.workspace import SIGNING_KEY, Workspace

if TYPE_CHECKING:  # `understudy verify` reads keys and opens no ledger
    from understudy.pipelines.publishing.targets.base import PreparedRelease
    from understudy.pipelines.releasing.books import Books


@dataclass(frozen=True)
class ReleaseKey:
    secret: SigningKey
    path: Path
    new: bool = False


def current_key(workspace: Workspace) -> ReleaseKey | None:
    if workspace.brought_key is not None:
        return ReleaseKey(SigningKey.read(workspace.brought_key), workspace.brought_key)
    path = workspace.release_key
    return ReleaseKey(SigningKey.read(path), path) if path.exists() else None


def release_key(workspace: Workspace) -> ReleaseKey:
    """The key that signs here, made now if there is none. Of two processes that find none, one makes it."""
    found = current_key(workspace)
    if found is None:
        path = workspace.release_key
        with _draft(path) as draft:
            SigningKey.create(draft)
            made = _linked(draft, path)
        found = ReleaseKey(SigningKey.read(path), path, made)
    remember(workspace, found.secret.public)
    return found


def key_for(books: Books, account: str) -> ReleaseKey:
    """The same, named in the account's history. Before the charges of a release: what is paid for after that line and
    carries no signature is no release of this installation."""
    found = release_key(books.workspace)
    books.ledger.record_key(account, found.secret.public.id, found.secret.public.pem)
    return found


def signed(release: PreparedRelease, books: Books) -> PreparedRelease:
    """Ready to be published. The secret is fetched here and not before: what is prepared may be pickled and kept."""
    return replace(release, key=key_for(books, release.manifest.account.name).secret)


def use_key(workspace: Workspace, brought: Path) -> tuple[ReleaseKey, Path | None]:
    """Take a copy of a brought key as the one that signs here; also where the one before it was set aside."""
    key, path = SigningKey.read(brought), workspace.release_key
    before = current_key(_without_brought(workspace))
    if before is not None and before.secret.public == key.public:
        return before, None
    aside = None
    if before is not None:
        remember(workspace, before.secret.public)
        aside = path.with_name(f"until-{uuid.uuid4().hex[:8]}-{before.secret.public.id[:16]}.pem")
    with _draft(path) as draft:
        key.save(draft)
        try:
            if aside is not None:
                os.link(path, aside)
            os.replace(draft, path)
        except OSError as error:
            raise SpecError(f"cannot write {path}: {error.strerror}", "check the permissions of the home") from None
    remember(workspace, key.public)
    return ReleaseKey(key, path, new=True), aside


def remember(workspace: Workspace, public: PublicKey) -> None:
    """Releases of this key are believed here. A home that cannot be written to is no reason not to release."""
    path = workspace.keys / "public" / f"{public.id}.pem"
    if path.exists():
        return
    with suppress(OSError), _draft(path) as draft:
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(public.pem, encoding="ascii")
        os.replace(draft, path)


def vouched(workspace: Workspace) -> list[PublicKey]:
    """Whose signatures are believed here: all that ever signed here, and the key that would sign now."""
    found = {read_public(path) for path in sorted((workspace.keys / "public").glob("*.pem"))}
    with suppress(UnderstudyError):  # one who may verify need not be allowed to read the secret
        if (current := current_key(workspace)) is not None:
            found.add(current.secret.public)
    return sorted(found, key=lambda key: key.id)


def read_public(path: Path) -> PublicKey:
    try:
        text = path.read_text(encoding="ascii")
    except OSError as error:
        problem = error.strerror or "unreadable"
    except UnicodeDecodeError:
        problem = "it is no PEM file"
    else:
        return PublicKey.from_pem(text, str(path))
    raise SpecError(f"cannot read the key {path}: {problem}", "name a file with what `understudy keys show` prints")


def _without_brought(workspace: Workspace) -> Workspace:
    return replace(workspace, brought_key=None)


class _draft:
    """A name beside `path` that nobody else uses; whatever is left of it is removed."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}-{uuid.uuid4().hex}")

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


def _linked(draft: Path, path: Path) -> bool:
    """Give the whole file its name at once, unless another process was faster."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        problem = error.strerror
    else:
        return True
    raise SpecError(f"cannot write {path}: {problem}", f"make the home writable, or set {SIGNING_KEY}")

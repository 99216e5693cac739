"""A named person's yes to one release, as a signature: over the release's id and the hash of its spec, by ed25519.

The release's id follows from its charges and from how it is generated and published, so a token is for one release and
no other, and may be used for it again. Keys are PEM files as any tool makes them; public halves are in the operator's
policy under the person's name.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.publishing.signing import PublicKey, SigningKey

_PURPOSE = "understudy approval 1\n"


def sign_approval(key: Path, release_id: str, spec_hash: str) -> str:
    """The token, one line of text."""
    return base64.urlsafe_b64encode(SigningKey.read(key).secret.sign(_message(release_id, spec_hash))).decode()


def approver_of(token: str, approvers: Mapping[str, str], release_id: str, spec_hash: str) -> str | None:
    """Whose token it is, if it is for this release; None if it is nobody's."""
    try:
        signature = base64.urlsafe_b64decode(token.strip().encode())
    except (binascii.Error, ValueError):
        return None
    message = _message(release_id, spec_hash)
    keys = {name: PublicKey.from_pem(pem, f"the policy's key of {name!r}") for name, pem in approvers.items()}
    return next((name for name, key in keys.items() if key.confirms(signature, message)), None)


def _message(release_id: str, spec_hash: str) -> bytes:
    return (_PURPOSE + canonical_json({"release": release_id, "spec": spec_hash})).encode()

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

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import SpecError

_PURPOSE = "understudy approval 1\n"


def sign_approval(key: Path, release_id: str, spec_hash: str) -> str:
    """The token, one line of text."""
    try:
        secret = load_pem_private_key(key.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm):
        secret = None
    if not isinstance(secret, Ed25519PrivateKey):
        raise SpecError(
            f"{key} is no readable, unencrypted ed25519 key in PEM", "make one: openssl genpkey -algorithm ed25519"
        )
    return base64.urlsafe_b64encode(secret.sign(_message(release_id, spec_hash))).decode()


def approver_of(token: str, approvers: Mapping[str, str], release_id: str, spec_hash: str) -> str | None:
    """Whose token it is, if it is for this release; None if it is nobody's."""
    try:
        signature = base64.urlsafe_b64decode(token.strip().encode())
    except (binascii.Error, ValueError):
        return None
    for name, pem in approvers.items():
        try:
            _public(name, pem).verify(signature, _message(release_id, spec_hash))
        except InvalidSignature:
            continue
        return name
    return None


def _public(name: str, pem: str) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SpecError(
            f"the policy's key of {name!r} is no ed25519 public key in PEM", "openssl pkey -pubout makes it"
        )
    return key


def _message(release_id: str, spec_hash: str) -> bytes:
    return (_PURPOSE + canonical_json({"release": release_id, "spec": spec_hash})).encode()

"""Signatures: an ed25519 key, an in-toto statement about a release, and the DSSE envelope that carries both.

What is signed. The statement names every file of the release by its SHA-256, the manifest among them, and repeats the
guarantee (unit, relation, events, epsilon, delta) and the head of the account's history. So whoever holds the public
key can tell, without a ledger and without this program, that these bytes are what the owner of the key released.

Formats. in-toto Statement v1, in a DSSE v1 envelope of payload type `application/vnd.in-toto+json`; keys in PEM
(PKCS 8, SubjectPublicKeyInfo) as every tool reads them. A key's id is the SHA-256 of its 32 public bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import SpecError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:understudy:release:1"


@dataclass(frozen=True)
class PublicKey:
    """Who may be believed. Two are equal if their 32 bytes are."""

    raw: bytes

    @property
    def id(self) -> str:
        return sha256(self.raw).hexdigest()

    @property
    def pem(self) -> str:
        key = Ed25519PublicKey.from_public_bytes(self.raw)
        coded = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        return coded.decode()

    @classmethod
    def from_pem(cls, text: str, where: str) -> PublicKey:
        try:
            key = serialization.load_pem_public_key(text.encode())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise SpecError(f"{where} is no ed25519 public key in PEM", "hand out what `understudy keys show` prints")
        return cls(_raw(key))

    def confirms(self, signature: bytes, message: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class SigningKey:
    """The secret half. It never leaves its file but to sign."""

    secret: Ed25519PrivateKey = field(repr=False)

    @property
    def public(self) -> PublicKey:
        return PublicKey(_raw(self.secret.public_key()))

    @classmethod
    def create(cls, path: Path) -> SigningKey:
        """A new key in a file that only its owner may read. An existing one is never replaced."""
        key = cls(Ed25519PrivateKey.generate())
        key.save(path)
        return key

    def save(self, path: Path) -> None:
        coded = self.secret.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise SpecError(f"{path} exists", "use it, or name another file; a key is never overwritten") from None
        except OSError as error:
            raise SpecError(f"cannot write {path}: {error.strerror}", "name a file you may write to") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(coded)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        try:
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise SpecError(f"cannot read {path}: {error.strerror}", "make a key with `understudy keys new`") from None
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise SpecError(
                f"{path} is no unencrypted ed25519 key in PEM", "bring one, or make one: understudy keys new"
            )
        return cls(key)

    def sign(self, statement: dict[str, Any]) -> str:
        """The envelope, as one line of JSON."""
        payload = canonical_json(statement).encode()
        signature = self.secret.sign(_message(PAYLOAD_TYPE, payload))
        return _written(PAYLOAD_TYPE, payload, ((self.public.id, signature),))


@dataclass(frozen=True)
class Envelope:
    """A signed statement as it was found; nothing in it may be believed before `signed_by` says so.

    A signature does not cover what stands around it (the key's id, spare bits of base64, spaces). `exact` says that all
    of it is as `SigningKey.sign` writes it, so that no byte of the envelope can change unnoticed.
    """

    statement: dict[str, Any]
    payload: bytes = field(repr=False)
    payload_type: str = field(repr=False)
    signatures: tuple[tuple[str, bytes], ...] = field(repr=False)
    exact: bool

    @classmethod
    def parse(cls, text: str) -> Envelope | None:
        """None for whatever is no DSSE envelope around an in-toto statement of a release."""
        try:
            tree = json.loads(text)
            payload = base64.b64decode(tree["payload"], validate=True)
            signatures = tuple(
                (str(one.get("keyid", "")), base64.b64decode(one["sig"], validate=True)) for one in tree["signatures"]
            )
            statement = json.loads(payload)
            written = _written(str(tree["payloadType"]), payload, signatures)
            found = cls(statement, payload, str(tree["payloadType"]), signatures, written == text.removesuffix("\n"))
            right = (statement["_type"], statement["predicateType"]) == (STATEMENT_TYPE, PREDICATE_TYPE)
            digests = all(isinstance(one["name"], str) and one["digest"]["sha256"] for one in statement["subject"])
            predicate = isinstance(statement["predicate"], dict)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
            return None
        return found if right and digests and predicate else None

    def signed_by(self, keys: Sequence[PublicKey]) -> PublicKey | None:
        """The first of the keys that signed this; a key's id in the envelope is a hint and proves nothing."""
        if self.payload_type != PAYLOAD_TYPE:
            return None
        message = _message(self.payload_type, self.payload)
        return next((key for key in keys for _, sig in self.signatures if key.confirms(sig, message)), None)

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.signatures)

    @property
    def digests(self) -> dict[str, str]:
        return {subject["name"]: str(subject["digest"]["sha256"]) for subject in self.statement["subject"]}


def statement_of(digests: dict[str, str], predicate: dict[str, Any]) -> dict[str, Any]:
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())],
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate,
    }


def _written(payload_type: str, payload: bytes, signatures: Sequence[tuple[str, bytes]]) -> str:
    return canonical_json(
        {
            "payloadType": payload_type,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": key, "sig": base64.b64encode(sig).decode()} for key, sig in signatures],
        }
    )


def _message(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: lengths keep the two parts apart."""
    return b" ".join((b"DSSEv1", b"%d" % len(payload_type), payload_type.encode(), b"%d" % len(payload), payload))


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)

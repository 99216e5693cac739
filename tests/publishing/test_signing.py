"""Keys, statements and envelopes: what was signed is what is believed, and nothing else."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.signing import Envelope, PublicKey, SigningKey, statement_of

STATEMENT = statement_of({"manifest.json": "ab" * 32}, {"epsilon": 1.0, "unit": "one patient with at most 4 rows"})


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.create(tmp_path / "keys" / "release.pem")


def test_a_key_is_read_back_and_its_file_is_its_owners_alone(tmp_path: Path, key: SigningKey) -> None:
    path = tmp_path / "keys" / "release.pem"
    assert SigningKey.read(path).public == key.public
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(SpecError, match="never overwritten"):
        SigningKey.create(path)


def test_a_public_key_travels_as_pem(key: SigningKey) -> None:
    assert PublicKey.from_pem(key.public.pem, "here") == key.public
    with pytest.raises(SpecError, match="no ed25519 public key"):
        PublicKey.from_pem("-----BEGIN NOTHING-----", "here")


def test_what_was_signed_is_confirmed_by_its_key_alone(tmp_path: Path, key: SigningKey) -> None:
    envelope = Envelope.parse(key.sign(STATEMENT))
    assert envelope is not None
    assert envelope.statement == STATEMENT
    assert envelope.signed_by([key.public]) == key.public
    other = SigningKey.create(tmp_path / "other.pem")
    assert envelope.signed_by([other.public]) is None
    assert envelope.signed_by([other.public, key.public]) == key.public
    assert envelope.signed_by([]) is None


def test_the_message_that_is_signed_is_that_of_the_dsse_specification() -> None:
    from understudy.pipelines.publishing.signing import _message

    assert _message("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def _changed(text: str, path: list[Any], value: Any) -> str:
    tree = json.loads(text)
    node = tree
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return json.dumps(tree)


def test_a_changed_payload_type_payload_or_signature_is_not_believed(key: SigningKey) -> None:
    text = key.sign(STATEMENT)
    forged = json.dumps({**STATEMENT, "predicate": {"epsilon": 0.1}})
    for path, value in (
        (["payload"], base64.b64encode(forged.encode()).decode()),
        (["payloadType"], "application/json"),
        (["signatures", 0, "sig"], base64.b64encode(bytes(64)).decode()),
        (["signatures"], []),
    ):
        envelope = Envelope.parse(_changed(text, path, value))
        assert envelope is None or envelope.signed_by([key.public]) is None, path


@given(st.one_of(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps)))
def test_whatever_is_no_envelope_is_none(text: str) -> None:
    assert Envelope.parse(text) is None


@given(
    st.dictionaries(
        st.sampled_from(["payload", "payloadType", "signatures"]),
        st.one_of(st.none(), st.text(), st.integers(), st.lists(st.one_of(st.none(), st.just({"sig": 3})))),
    )
)
def test_a_broken_envelope_is_none(tree: dict[str, Any]) -> None:
    assert Envelope.parse(json.dumps(tree)) is None


@given(
    st.dictionaries(
        st.sampled_from(["_type", "subject", "predicateType", "predicate"]),
        st.one_of(st.none(), st.text(), st.just("\ud800"), st.lists(st.just({"name": "a", "digest": "sha256"}))),
        min_size=1,
    ),
    st.booleans(),
)
def test_a_broken_statement_is_none_and_never_an_error(changes: dict[str, Any], remove: bool) -> None:
    kept = {name: value for name, value in STATEMENT.items() if not (remove and name in changes)}
    payload = base64.b64encode(json.dumps(kept if remove else {**kept, **changes}).encode()).decode()
    tree = {"payload": payload, "payloadType": "\ud800", "signatures": []}
    found = Envelope.parse(json.dumps(tree))
    assert found is None or found.signed_by([PublicKey(bytes(32))]) is None
    if remove:
        assert found is None

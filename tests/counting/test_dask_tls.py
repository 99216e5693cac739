"""Counting on a Dask cluster that speaks TLS only, with certificates made here: nothing is sent in the clear."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")

import dask
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.counting.test_local_table import CLIQUES, DOMAIN, same, visits
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.tasks.engines.dask_counting import DaskTable


@dataclass(frozen=True)
class Certificates:
    """A certificate authority's own certificate, and one with its key that the authority signed."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def configuration(self) -> dict[str, str]:
        """As an operator gives it to Dask: the same certificate for client, scheduler and worker."""
        files = {"ca-file": str(self.authority)}
        for role in ("client", "scheduler", "worker"):
            files |= {f"{role}.cert": str(self.certificate), f"{role}.key": str(self.key)}
        return {f"distributed.comm.tls.{name}": value for name, value in files.items()}

    @property
    def environment(self) -> dict[str, str]:
        variables = {
            f"DASK_{name.replace('.', '__').replace('-', '_').upper()}": value
            for name, value in self.configuration.items()
        }
        return {**os.environ, **variables, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}


def made_certificates(place: Path) -> Certificates:
    place.mkdir(parents=True)
    today = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def builder(name: str, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")]))
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - datetime.timedelta(hours=1))
            .not_valid_after(today + datetime.timedelta(hours=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
        )

    authority = (
        builder("test authority", authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(authority_key, hashes.SHA256())
    )
    certificate = (
        builder("localhost", key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = Certificates(place / "ca.pem", place / "cert.pem", place / "key.pem")
    made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


@dataclass(frozen=True)
class TlsCluster:
    address: str
    certificates: Certificates
    directory: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    """`dask scheduler` and `dask worker`, configured as an operator would: by environment alone."""
    place = tmp_path_factory.mktemp("tls")
    certificates = made_certificates(place / "certificates")
    directory = place / "visits"
    directory.mkdir()
    for i in range(3):
        pq.write_table(visits(100, seed=i), directory / f"{i}.parquet")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    address = f"tls://127.0.0.1:{port}"
    environment = {**certificates.environment, "PYTHONPATH": str(Path(__file__).parents[2])}

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with (place / "log").open("ab") as log:
            command = [sys.executable, "-m", "dask", *arguments, "--no-dashboard"]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=place)

    running = [start("scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", str(port))]
    running.append(start("worker", address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1"))
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield TlsCluster(address, certificates, directory)
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_tls_cluster_counts_alike(cluster: TlsCluster) -> None:
    unit = Unit("who", 3)
    source = ParquetSource(cluster.directory)
    expected = LocalTable(source, DOMAIN, unit, b"key").counts(CLIQUES)
    with dask.config.set(cluster.certificates.configuration):
        assert same(DaskTable(source, DOMAIN, unit, b"key", cluster.address).counts(CLIQUES), expected)


def test_without_certificates_nothing_is_sent_and_the_message_says_what_to_set(cluster: TlsCluster) -> None:
    with pytest.raises(SourceError, match="no certificates are configured") as failed:
        DaskTable(ParquetSource(cluster.directory), DOMAIN, Unit(), b"key", cluster.address).counts(CLIQUES)
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in str(failed.value)


def test_certificates_of_another_authority_are_not_believed(
    cluster: TlsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.tasks.engines.dask_counting.CONNECT_SECONDS", 1.0)
    strangers = made_certificates(tmp_path / "strangers")
    with dask.config.set(strangers.configuration), pytest.raises(SourceError, match="cannot reach"):
        DaskTable(ParquetSource(cluster.directory), DOMAIN, Unit(), b"key", cluster.address).counts(CLIQUES)


def test_the_cluster_does_not_answer_in_the_clear(cluster: TlsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.tasks.engines.dask_counting.CONNECT_SECONDS", 1.0)
    plain = cluster.address.replace("tls://", "tcp://")
    with pytest.raises(SourceError, match="cannot reach"):
        DaskTable(ParquetSource(cluster.directory), DOMAIN, Unit(), b"key", plain).counts(CLIQUES)

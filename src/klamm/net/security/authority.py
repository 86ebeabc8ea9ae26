"""A CA for development and tests: it makes certificates for brokers and clients. Needs `cryptography`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

CA_CERTIFICATE: Final = "ca.pem"
CA_KEY: Final = "ca.key"
CA_DAYS: Final = 3650
_EARLIER: Final = timedelta(hours=1)  # clocks differ


class CertificateAuthority:
    """A CA in a folder: `ca.pem`, and its key in `ca.key`, which only its user can read."""

    def __init__(
        self, folder: Path, *, now: datetime | None = None, name: str = "klamm development CA"
    ) -> None:
        """Opens the one of the folder, or makes it. Raises OSError and ValueError."""
        self._now = now or datetime.now(UTC)
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = folder / CA_CERTIFICATE
        key_file = folder / CA_KEY
        self.is_new = not key_file.exists()
        if self.is_new:
            self._make(key_file, name)
        found = load_pem_private_key(key_file.read_bytes(), None)
        self._key: CertificateIssuerPrivateKeyTypes = found  # type: ignore[assignment]  # of all that PEM can have
        self._own = x509.load_pem_x509_certificate(self.certificate.read_bytes())

    def _make(self, key_file: Path, name: str) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(subject, subject, key.public_key(), timedelta(days=CA_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, SHA256())
        )
        write_private(key_file, _pem(key))
        self.certificate.write_bytes(made.public_bytes(Encoding.PEM))

    def issue(self, name: str, hosts: Sequence[str] = (), *, days: float = 365, file: str = "") -> Path:
        """A new key and its certificate in one PEM file, `NAME.pem`, which only its user can read.

        With `hosts`, names and addresses, it is a broker's; without, a client's. Negative days: it has
        expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]  # a broker is a client of others
        builder = self._builder(subject, self._own.subject, key.public_key(), timedelta(days=days))
        if hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative_name(each) for each in hosts]), critical=False
            )
        made = (
            builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .sign(self._key, SHA256())
        )
        path = self.folder / (file or f"{name}.pem")
        write_private(path, _pem(key) + made.public_bytes(Encoding.PEM))
        return path

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta
    ) -> x509.CertificateBuilder:
        ends = self._now + life
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(self._now, ends) - _EARLIER)
            .not_valid_after(ends)
        )


def ends_at(file: Path) -> datetime:
    """When the first certificate of a PEM file ends."""
    return x509.load_pem_x509_certificates(file.read_bytes())[0].not_valid_after_utc


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only this user can read, also if it was there before."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

"""Certificates for tests, made by OpenSSL's command line: a CA, and certificates of it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """The PEM files of a certificate and its key."""

    chain: Path
    key: Path

    def together(self) -> Path:
        """Key and certificate in one file, as Kafka takes them."""
        path = self.key.with_suffix(".both.pem")
        path.write_text(self.key.read_text() + self.chain.read_text())
        return path


class Authority:
    """A CA of its own, in a folder."""

    def __init__(self, folder: Path, name: str = "test-ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            *_NEW_KEY, "-x509", "-subj", f"/CN={name}", "-days", "3650", "-keyout", str(self._key),
            "-out", str(self.certificate), "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def issue(
        self, subject: str, names: str = "DNS:localhost,IP:127.0.0.1", *, has_expired: bool = False
    ) -> Certificate:
        """A certificate with these alternative names."""
        number = len(list(self._folder.glob("*.key")))
        chain, key = (self._folder / f"{self._name}-{number}.{end}" for end in ("pem", "key"))
        request = self._folder / "request.csr"
        _openssl(*_NEW_KEY, "-subj", f"/CN={subject}", "-keyout", str(key), "-out", str(request))
        extensions = self._folder / "extensions"
        extensions.write_text(f"subjectAltName={names}\n")
        days = ["-days", "-1"] if has_expired else ["-days", "3650"]
        _openssl(
            "x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key),
            "-CAcreateserial", "-out", str(chain), "-extfile", str(extensions), *days,
        )  # fmt: skip
        return Certificate(chain, key)


def encrypted(certificate: Certificate, password: str) -> Path:
    """The key of a certificate, encrypted."""
    path = certificate.key.with_suffix(".encrypted.key")
    _openssl(
        "pkcs8", "-topk8", "-in", str(certificate.key), "-out", str(path), "-passout", f"pass:{password}"
    )
    return path


def pkcs12(certificate: Certificate, authority: Authority, password: str) -> Path:
    """Key, certificate and CA in PKCS12."""
    path = certificate.key.with_suffix(".p12")
    _openssl(
        "pkcs12", "-export", "-inkey", str(certificate.key), "-in", str(certificate.chain), "-certfile",
        str(authority.certificate), "-out", str(path), "-passout", f"pass:{password}",
    )  # fmt: skip
    return path


_NEW_KEY = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)

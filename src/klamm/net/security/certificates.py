"""The TLS contexts of clients and listeners: certificates and keys from PEM or PKCS12."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Final

from klamm.config import ConfigError, Password

_PEM: Final = b"-----BEGIN "
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_TLS_1_3: Final = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True)
class Material:
    """Certificates or a key: in a file, or as PEM text in the settings; `setting` is where they come from."""

    setting: str
    path: str | None = None
    pem: Password | None = None
    password: Password | None = None  # of a key or a PKCS12 file
    type: str | None = None  # PEM, PKCS12 or JKS, if the settings say so


@dataclass(frozen=True)
class TlsSettings:
    """What the TLS of a client or a listener goes by."""

    trusted: Sequence[Material] = ()  # empty: the certificates that the system trusts
    certificate: Material | None = None  # with `key`, or the key is in the same file
    key: Material | None = None
    checks_certificates: bool = True
    checks_host_names: bool = True
    versions: Sequence[str] = ("TLSv1.2", "TLSv1.3")


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for all connections of a client. Raises ConfigError that names the setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _limit_versions(context, settings.versions)
    context.check_hostname = settings.checks_certificates and settings.checks_host_names
    if not settings.checks_certificates:
        context.verify_mode = ssl.CERT_NONE
    elif settings.trusted:
        for each in settings.trusted:
            _trust(context, each)
    else:
        context.load_default_certs()
    if settings.certificate is not None:
        _present(context, settings.certificate, settings.key)
    return context


def listener_context(
    settings: TlsSettings, client_auth: ssl.VerifyMode, ciphers: Sequence[str]
) -> ssl.SSLContext:
    """The context for connections of clients to a listener. Raises ConfigError that names the setting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit_versions(context, settings.versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = client_auth
    if client_auth is not ssl.CERT_NONE:
        for each in settings.trusted:
            _trust(context, each)
    assert settings.certificate is not None
    _present(context, settings.certificate, settings.key)
    if ciphers:
        _choose_ciphers(context, ciphers)
    return context


def _limit_versions(context: ssl.SSLContext, names: Sequence[str]) -> None:
    wanted = [_VERSIONS[name] for name in names]
    if not wanted:
        raise ConfigError(
            "ssl.enabled.protocols", "ssl.enabled.protocols is empty: expected TLSv1.2, TLSv1.3"
        )
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)


def _choose_ciphers(context: ssl.SSLContext, wanted: Sequence[str]) -> None:
    """Allow these ciphers, under the names of Java or of OpenSSL. Those of TLS 1.3 are always allowed."""
    setting = "ssl.cipher.suites"
    names = [_openssl_cipher(each) for each in wanted if each not in _TLS_1_3]
    if not names:
        return
    try:
        context.set_ciphers(":".join(names))
    except ssl.SSLError:
        raise ConfigError(
            setting, f"{setting}={','.join(wanted)}: OpenSSL has none of these ciphers"
        ) from None


def _openssl_cipher(name: str) -> str:
    """OpenSSL's name of a cipher: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384."""
    if not name.startswith("TLS_"):
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305")
    parts = (cipher,) if exchange == "RSA" else (exchange, cipher)
    return "-".join(parts).replace("_", "-")


def _trust(context: ssl.SSLContext, trusted: Material) -> None:
    data = _content(trusted)
    text = data.decode(errors="replace") if _PEM in data else _pkcs12(trusted, data)[1]
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise _invalid(trusted, "no CA certificate in PEM can be read from it", error) from None


def _present(context: ssl.SSLContext, certificate: Material, key: Material | None) -> None:
    """Show a certificate to the other side."""
    chain = _content(certificate)
    password = (key or certificate).password
    if _PEM not in chain:
        from secrets import token_hex  # noqa: PLC0415 - for PKCS12 only

        # The key is decrypted in memory only: the file that OpenSSL reads has it encrypted.
        password = Password(token_hex(32))
        chain = _pkcs12(certificate, chain, password)[0].encode()
    text = chain + (b"\n" + _content(key) if key is not None else b"")
    if b"PRIVATE KEY-----" not in text:
        raise _invalid(certificate, "it has no private key", None)
    with _file_of(text) as path:
        try:
            # A function, called only for an encrypted key: OpenSSL would ask the terminal otherwise.
            context.load_cert_chain(path, password=lambda: password.secret if password else "")
        except ssl.SSLError as error:
            if "KEY_VALUES_MISMATCH" in str(error):
                cause = "the private key does not belong to the certificate"
            elif password is None and b"ENCRYPTED" in text:
                cause = "the private key is encrypted: set ssl.key.password"
            else:
                cause = "certificate and key cannot be read: check them and ssl.key.password"
            raise _invalid(key or certificate, cause, error) from None


@contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """The path of a file that only this user can read, for as long as OpenSSL reads it."""
    with NamedTemporaryFile(prefix="klamm-", suffix=".pem") as file:
        file.write(data)
        file.flush()
        yield file.name


def _content(material: Material) -> bytes:
    if material.pem is not None:
        # As in Java's properties files: lines may be joined with blanks or with \n in two characters.
        text = material.pem.secret.replace("\\n", "\n").encode()
        if _PEM not in text or material.type not in (None, "PEM"):
            raise _invalid(material, "expected PEM, which begins with -----BEGIN", None)
        return text
    assert material.path is not None
    try:
        with open(material.path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(
            material.setting, f"{material.setting}: cannot read {material.path}: {error.strerror}"
        ) from None
    if data[:4] in _JKS or material.type == "JKS":
        raise _invalid(
            material,
            "it is a Java keystore (JKS); convert it: keytool -importkeystore -srckeystore FILE "
            "-destkeystore FILE.p12 -deststoretype PKCS12",
            None,
        )
    if not data:
        raise _invalid(material, "it is empty", None)
    if material.type is not None and (material.type == "PEM") != (_PEM in data):
        raise _invalid(material, f"it is not of type {material.type}", None)
    return data


def _pkcs12(material: Material, data: bytes, key_password: Password | None = None) -> tuple[str, str]:
    """Key and chain, and the certificates, of a PKCS12 file, as PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - an optional dependency
            BestAvailableEncryption,
            Encoding,
            PrivateFormat,
            pkcs12,
        )
    except ImportError:
        raise _invalid(
            material, "it is not PEM; for PKCS12 install the package cryptography, as klamm[tls] does", None
        ) from None
    password = material.password.secret.encode() if material.password is not None else None
    try:
        found = pkcs12.load_pkcs12(data, password)
    except ValueError:
        raise _invalid(
            material, "it is neither PEM nor PKCS12 that opens with the given password", None
        ) from None
    certificates = [found.cert, *found.additional_certs] if found.cert else found.additional_certs
    listed = "".join(each.certificate.public_bytes(Encoding.PEM).decode() for each in certificates)
    if found.key is None or key_password is None:
        return listed, listed
    encryption = BestAvailableEncryption(key_password.secret.encode())
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
    return key + listed, listed


def _invalid(material: Material, why: str, error: Exception | None) -> ConfigError:
    where = f" {material.path}" if material.path is not None else ""
    reason = getattr(error, "reason", None)
    tail = f" ({reason})" if reason else ""
    return ConfigError(material.setting, f"{material.setting}:{where} {why}{tail}")

"""aiokafka's helper for TLS."""

from __future__ import annotations

import ssl
from typing import Any


def create_ssl_context(
    *,
    cafile: Any = None,
    capath: Any = None,
    cadata: Any = None,
    certfile: Any = None,
    keyfile: Any = None,
    password: Any = None,
) -> ssl.SSLContext:
    """A context that checks certificates and names, with a certificate of the client's if one is given."""
    context = ssl.create_default_context(cafile=cafile, capath=capath, cadata=cadata)
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile, password)
    return context

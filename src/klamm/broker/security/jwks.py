"""Fetching a JWKS. Blocks: not for the event loop, but at a start."""

from __future__ import annotations

from typing import Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

_MOST_BYTES: Final = 1024 * 1024
_TIMEOUT_S: Final = 10.0


def fetch_jwks(url: str) -> bytes:
    """The content of an https, http or file URL. Raises OSError or ValueError."""
    if urlsplit(url).scheme not in ("https", "http", "file"):
        raise ValueError("expected a URL that begins with https, http or file")
    try:
        with urlopen(url, timeout=_TIMEOUT_S) as response:
            data: bytes = response.read(_MOST_BYTES + 1)
    except URLError as error:
        raise OSError(f"{error.reason}") from error
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    return data

"""The fast core of the records layer: compiled where it was built, pure Python elsewhere.

`KLAMM_PURE=1` forces the twin, so that a doubt about the compiled code can be settled in one run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm.records._pure import crc32c, decode_region, encode_region, murmur2
else:
    try:
        if os.environ.get("KLAMM_PURE") == "1":
            raise ImportError("the twin was asked for")
        from klamm.records._core import crc32c, decode_region, encode_region, murmur2

        COMPILED = True
    except ImportError:
        from klamm.records._pure import crc32c, decode_region, encode_region, murmur2

        COMPILED = False
        try:
            # A checksum in pure Python takes a second for ten megabytes; this package is compiled too.
            from crc32c import crc32c
        except ImportError:
            from klamm.records._pure import crc32c

COMPILED: bool
"""Whether the compiled core is in use."""

__all__ = ["COMPILED", "crc32c", "decode_region", "encode_region", "murmur2"]

"""Bytes and messages: framing, headers, codecs. No I/O, no clock; the only importer of kio."""

import sys

# kio loads Hypothesis wherever it is installed, for strategies that we do not use. Whoever tests with klamm
# has it installed, and every broker would start later and grow by a third.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # how Python spells "not to be had"
    try:
        import kio.static._phantom  # noqa: F401 - the one place where it looks
    finally:
        del sys.modules["hypothesis"]

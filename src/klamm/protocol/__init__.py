"""Bytes and messages: framing, headers, codecs. No I/O, no clock; the only importer of kio."""

import sys

# kio imports Hypothesis where it is installed, for strategies that are not used here. In a test environment
# every broker would start later and take a third more memory.
if "hypothesis" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # how Python spells "not to be had"
    try:
        import kio.static._phantom  # noqa: F401 - the one place where it looks
    finally:
        del sys.modules["hypothesis"]

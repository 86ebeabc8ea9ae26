"""Batches whose bytes are known: written down from what Apache Kafka stores."""

from __future__ import annotations

from klamm.records.record import Record

TIME_MS = 1_700_000_000_000


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", "").replace("\n", ""))


DATA_RECORDS = [
    Record(42, TIME_MS, b"k1", b"v1", ()),
    Record(43, TIME_MS + 5, None, b"v2", (("h", b"x"),)),
]
DATA = from_hex("""
000000000000002a 00000049 00000005 02 56cdb512 0010 00000001 0000018bcfe56800 0000018bcfe56805
0000000000000fa1 0003 00000007 00000002 14000000046b3104763100 18000a0201047632 0202680278
""")
COMMIT = from_hex("""
000000000000002c 00000042 00000005 02 a8f0f7c3 0030 00000000 0000018bcfe56809 0000018bcfe56809
0000000000000fa1 0003 ffffffff 00000001 20 00 00 00 08 00000001 0c 000000000007 00
""")
ABORT = from_hex("""
000000000000002c 00000042 00000005 02 5cce218b 0030 00000000 0000018bcfe56809 0000018bcfe56809
0000000000000fa1 0003 ffffffff 00000001 20 00 00 00 08 00000000 0c 000000000007 00
""")
EMPTIED = from_hex("""
000000000000002a 00000031 00000005 02 81037f3c 0010 00000001 ffffffffffffffff 0000018bcfe56805
0000000000000fa1 0003 00000007 00000000
""")
TOMBSTONE = from_hex("""
000000000000002a 0000003d 00000005 02 6b59969d 0040 00000000 0000018bd50bc400 0000018bcfe56800
ffffffffffffffff ffff ffffffff 00000001 16 00 ffefb252 00 04 6b31 01 00
""")
EVERY_SAMPLE = {
    "data": DATA,
    "commit": COMMIT,
    "abort": ABORT,
    "emptied": EMPTIED,
    "tombstone": TOMBSTONE,
}

"""Bytes and messages: framing, headers, codecs. No I/O, no clock."""

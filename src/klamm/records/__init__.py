"""Record batches: layout, checksums, compression, markers. No I/O, no clock."""

# Batches of one record, and where a batch is in its log. Included by _core.pyx, after _offset_table.pxi.


def encode_one(
    key,
    value,
    int64_t timestamp_ms,
    int64_t producer_id=-1,
    int16_t producer_epoch=-1,
    int16_t attributes=0,
):
    """A batch of one record at offset 0, without headers, a sequence or compression."""
    cdef Py_ssize_t body_bytes, length
    cdef bytes batch
    cdef uint8_t *start
    cdef uint8_t *at
    key, value = as_bytes(key), as_bytes(value)
    # attributes, timestamp delta, offset delta and number of headers: a byte each
    body_bytes = 4 + field_bytes(key) + field_bytes(value)
    length = HEADER_BYTES - LENGTH_OVERHEAD_BYTES + klamm_varint_size(body_bytes) + body_bytes
    if length > INT32_MAX - LENGTH_OVERHEAD_BYTES:
        raise OverflowError(f"a batch of {length} bytes exceeds its length field")
    batch = PyBytes_FromStringAndSize(NULL, length + LENGTH_OVERHEAD_BYTES)
    start = <uint8_t *>PyBytes_AS_STRING(batch)
    at = klamm_put_32(klamm_put_64(start, 0), <uint32_t>length)
    at = klamm_put_32(at, 0xffffffff)  # no leader epoch
    at[0] = 2  # magic
    at = klamm_put_16(at + 5, <uint16_t>attributes)  # behind the checksum
    at = klamm_put_32(at, 0)  # the last offset
    at = klamm_put_64(klamm_put_64(at, <uint64_t>timestamp_ms), <uint64_t>timestamp_ms)
    at = klamm_put_16(klamm_put_64(at, <uint64_t>producer_id), <uint16_t>producer_epoch)
    at = klamm_put_32(klamm_put_32(at, 0xffffffff), 1)  # no sequence, one record
    at = klamm_put_varint(at, body_bytes)
    memset(at, 0, 3)
    at = put_field(put_field(at + 3, key), value)
    at[0] = 0
    klamm_put_32(start + 17, klamm_crc32c(0, start + 21, length + LENGTH_OVERHEAD_BYTES - 21))
    return batch


def stamped(batch, int64_t base_offset, int32_t leader_epoch):
    """A copy of a batch with the offset and the leader epoch that it has in its log."""
    cdef Py_buffer view
    cdef bytes copy
    cdef uint8_t *at
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    try:
        if view.len < HEADER_BYTES:
            raise ValueError(f"{view.len} bytes are not a batch")
        copy = PyBytes_FromStringAndSize(<const char *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    at = <uint8_t *>PyBytes_AS_STRING(copy)
    klamm_put_64(at, <uint64_t>base_offset)
    klamm_put_32(at + 12, <uint32_t>leader_epoch)
    return copy

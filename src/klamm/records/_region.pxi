# The records region of a batch (decompressed) to and from Records. Included by _core.pyx.


def decode_region(region, Py_ssize_t count, int64_t base_offset, int64_t base_timestamp_ms, append_time_ms=None):
    """All `count` records of a region; `append_time_ms` replaces their own times when given."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef klamm_record parsed
    cdef Py_ssize_t done
    cdef list records = []
    cdef bint own_time = append_time_ms is None
    cdef int64_t timestamp_ms = 0 if own_time else append_time_ms
    PyObject_GetBuffer(region, &view, PyBUF_SIMPLE)
    try:
        check_count(count, view.len)
        at = <const uint8_t *>view.buf
        end = at + view.len
        for done in range(count):
            at = klamm_parse_record(at, end, &parsed)
            if at == NULL or base_offset > INT64_MAX - parsed.offset_delta:
                raise DecodeError(f"record {done} of {count} is malformed")
            if own_time:
                timestamp_ms = klamm_wrapping_sum(base_timestamp_ms, parsed.timestamp_delta)
            records.append(new_record(base_offset + parsed.offset_delta, timestamp_ms, &parsed, at))
        if at != end:
            raise DecodeError(f"{end - at} bytes after the last of {count} records")
        return records
    finally:
        PyBuffer_Release(&view)


cdef int check_count(Py_ssize_t count, Py_ssize_t size) except -1:
    if not 0 <= count <= size // MIN_RECORD_BYTES:
        raise DecodeError(f"{count} records cannot be in {size} bytes")
    return 0


cdef object new_record(int64_t offset, int64_t timestamp_ms, klamm_record *parsed, const uint8_t *end):
    # The tuple is filled in place: calling the class would cost more than all the rest.
    cdef object record = klamm_new_tuple(<PyTypeObject *>Record, 5)
    put(record, 0, offset)
    put(record, 1, timestamp_ms)
    put(record, 2, new_field(parsed.key, parsed.key_size))
    put(record, 3, new_field(parsed.value, parsed.value_size))
    put(record, 4, new_headers(parsed.headers, end, parsed.header_count) if parsed.header_count else ())
    # Holds bytes, text and numbers: no cycle can pass through it, so the collector need not look.
    PyObject_GC_UnTrack(record)
    return record


cdef inline object new_field(const uint8_t *field, int32_t size):
    if size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>field, size)


cdef object new_headers(const uint8_t *at, const uint8_t *end, int32_t count):
    cdef object headers = PyTuple_New(count)
    cdef object header
    cdef const uint8_t *field = NULL
    cdef int32_t size = 0
    cdef int32_t i
    cdef object name
    for i in range(count):
        at = klamm_field(at, end, &field, &size)
        if at == NULL or size < 0:
            raise DecodeError(f"header {i} of {count} is malformed")
        name = PyUnicode_DecodeUTF8(<const char *>field, size, "replace")  # Java replaces bad UTF-8 too
        at = klamm_field(at, end, &field, &size)
        if at == NULL:
            raise DecodeError(f"header {i} of {count} is malformed")
        header = (name, new_field(field, size))
        PyObject_GC_UnTrack(header)
        put(headers, i, header)
    PyObject_GC_UnTrack(headers)
    return headers


cdef struct Out:
    uint8_t *data
    Py_ssize_t size
    Py_ssize_t capacity


cdef uint8_t *room_for(Out *out, Py_ssize_t more) except NULL:
    """Where the next `more` bytes go."""
    cdef uint8_t *moved
    cdef Py_ssize_t capacity
    if out.capacity - out.size < more:
        capacity = max(out.capacity * 2, out.size + more)
        moved = <uint8_t *>realloc(out.data, capacity)
        if moved == NULL:
            raise MemoryError()
        out.data = moved
        out.capacity = capacity
    return out.data + out.size


cdef inline uint8_t *put_field(uint8_t *at, object field):
    cdef Py_ssize_t size
    if field is None:
        return klamm_put_varint(at, -1)
    size = len(<bytes>field)
    at = klamm_put_varint(at, size)
    memcpy(at, PyBytes_AS_STRING(field), size)
    return at + size


cdef inline Py_ssize_t field_bytes(object field):
    cdef Py_ssize_t size
    if field is None:
        return 1
    size = len(<bytes>field)
    return klamm_varint_size(size) + size


cdef inline object as_bytes(object field):
    if field is None or type(field) is bytes:
        return field
    return bytes(memoryview(field))


def encode_region(records, int64_t base_offset, int64_t base_timestamp_ms):
    """Records one after the other, relative to a base offset and a base time."""
    cdef Out out
    out.size = 0
    out.capacity = 4096
    out.data = <uint8_t *>malloc(out.capacity)
    if out.data == NULL:
        raise MemoryError()
    try:
        for record in records:
            if not isinstance(record, tuple):
                record = tuple(record)
            if len(<tuple>record) != 5:
                raise ValueError(f"a record has 5 fields, not {len(record)}")
            put_record(&out, <tuple>record, base_offset, base_timestamp_ms)
        return PyByteArray_FromStringAndSize(<char *>out.data, out.size)
    finally:
        free(out.data)


cdef int put_record(Out *out, tuple record, int64_t base_offset, int64_t base_timestamp_ms) except -1:
    cdef int64_t offset, delta_ms
    try:
        offset = record[0]
        delta_ms = klamm_wrapping_difference(record[1], base_timestamp_ms)
    except OverflowError:
        raise ValueError("an offset or a timestamp has more than 64 bits") from None
    if offset < base_offset or <uint64_t>offset - <uint64_t>base_offset > INT32_MAX:
        raise ValueError(f"offset {offset} does not fit a batch that starts at {base_offset}")
    put_fields(
        out,
        PY_SSIZE_T_MAX,
        delta_ms,
        offset - base_offset,
        as_bytes(record[2]),
        as_bytes(record[3]),
        named_headers(record[4]),
    )
    return 0


cdef list named_headers(object headers):
    """Headers as pairs of bytes; None if there are none."""
    if not headers:
        return None
    return [((<str?>name).encode(), as_bytes(value)) for name, value in headers]


cdef bint put_fields(
    Out *out,
    Py_ssize_t room,
    int64_t delta_ms,
    int64_t offset_delta,
    object key,
    object value,
    list named,
) except -1:
    """Append one record if it fits `room` bytes; returns whether it did. Runs no Python code."""
    cdef Py_ssize_t size
    cdef uint8_t *at
    size = 1 + klamm_varint_size(delta_ms) + klamm_varint_size(offset_delta)
    size += field_bytes(key) + field_bytes(value)
    if named is not None:
        size += klamm_varint_size(len(named))
        for name, header_value in named:
            size += field_bytes(name) + field_bytes(header_value)
    else:
        size += 1
    if size + klamm_varint_size(size) > room:
        return False
    at = room_for(out, size + klamm_varint_size(size))
    at = klamm_put_varint(at, size)
    at[0] = 0  # attributes: no bit of them is in use
    at = klamm_put_varint(at + 1, delta_ms)
    at = klamm_put_varint(at, offset_delta)
    at = put_field(at, key)
    at = put_field(at, value)
    at = klamm_put_varint(at, len(named) if named is not None else 0)
    if named is not None:
        for name, header_value in named:
            at = put_field(at, name)
            at = put_field(at, header_value)
    out.size = at - out.data
    return True

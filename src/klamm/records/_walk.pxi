# Batch headers in a buffer: read one, find one, measure, scan. Included by _core.pyx.

cdef Py_ssize_t HEADER_BYTES = _layout.HEADER_BYTES
cdef Py_ssize_t LENGTH_OVERHEAD_BYTES = _layout.LENGTH_OVERHEAD_BYTES
cdef int32_t MIN_BATCH_LENGTH = _layout.MIN_BATCH_LENGTH
cdef int CODEC_MASK = _layout.CODEC_MASK
cdef int TRANSACTIONAL_BIT = _layout.TRANSACTIONAL_BIT
cdef object Scan = _layout.Scan
cdef object ScanEnd = _layout.ScanEnd


cdef object explain_header(buffer, position):
    """Raise the error of a header; the message is the pure twin's."""
    from klamm.records._pure.walk import parse_header as of_twin

    return of_twin(buffer, position)


cdef inline object read_header(const uint8_t *at):
    cdef object header = klamm_new_tuple(<PyTypeObject *>BatchHeader, 13)
    put(header, 0, klamm_i64(at))
    put(header, 1, klamm_i32(at + 8))
    put(header, 2, klamm_i32(at + 12))
    put(header, 3, <int>at[16])
    put(header, 4, klamm_u32(at + 17))
    put(header, 5, klamm_i16(at + 21))
    put(header, 6, klamm_i32(at + 23))
    put(header, 7, klamm_i64(at + 27))
    put(header, 8, klamm_i64(at + 35))
    put(header, 9, klamm_i64(at + 43))
    put(header, 10, klamm_i16(at + 51))
    put(header, 11, klamm_i32(at + 53))
    put(header, 12, klamm_i32(at + 57))
    # Holds numbers alone, so the cycle collector need never look at it.
    PyObject_GC_UnTrack(header)
    return header


cdef inline bint is_header(const uint8_t *at) noexcept nogil:
    return at[16] == 2 and klamm_i32(at + 8) >= MIN_BATCH_LENGTH


cdef inline bint has_offsets(const uint8_t *at) noexcept nogil:
    cdef int64_t base = klamm_i64(at)
    cdef int32_t delta = klamm_i32(at + 23)
    return base >= 0 and delta >= 0 and base <= INT64_MAX - delta


cdef inline int64_t last_offset(const uint8_t *at) noexcept nogil:
    return klamm_i64(at) + klamm_i32(at + 23)


cdef inline Py_ssize_t batch_bytes(const uint8_t *at) noexcept nogil:
    return <Py_ssize_t>klamm_i32(at + 8) + LENGTH_OVERHEAD_BYTES


def parse_header(buffer, Py_ssize_t position=0):
    """The header at a position. The records behind it need not be there."""
    cdef Py_buffer view
    cdef const uint8_t *at
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if position >= 0 and view.len - position >= HEADER_BYTES:
            at = <const uint8_t *>view.buf + position
            if is_header(at):
                return read_header(at)
    finally:
        PyBuffer_Release(&view)
    return explain_header(buffer, position)  # raises


cdef bint has_sound_records(const uint8_t *batch, Py_ssize_t size) noexcept nogil:
    """Whether an uncompressed batch holds as many records as its header says, in their places and times."""
    cdef const uint8_t *at = batch + HEADER_BYTES
    cdef const uint8_t *end = batch + size
    cdef int64_t base_timestamp_ms = klamm_i64(batch + 27)
    cdef int64_t latest_ms = -1
    cdef int64_t timestamp_ms
    cdef int32_t count = klamm_i32(batch + 57)
    cdef int32_t done
    cdef klamm_record parsed
    for done in range(count):
        at = klamm_parse_record(at, end, &parsed)
        if at == NULL or parsed.offset_delta != done:
            return False
        timestamp_ms = klamm_wrapping_sum(base_timestamp_ms, parsed.timestamp_delta)
        if timestamp_ms > latest_ms:
            latest_ms = timestamp_ms
    return at == end and latest_ms == klamm_i64(batch + 35)


def sound_header(buffer, int64_t max_bytes, int max_codec):
    """The header of a produced batch that is valid without doubt; None if it needs a full check."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef int attributes
    if buffer is None:
        return None
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if view.len < HEADER_BYTES or view.len > max_bytes:
            return None
        at = <const uint8_t *>view.buf
        attributes = klamm_i16(at + 21)
        if (
            not is_header(at)
            or batch_bytes(at) != view.len
            or klamm_i64(at) != 0
            or klamm_i32(at + 57) <= 0
            or klamm_i32(at + 57) - 1 != klamm_i32(at + 23)
            or (klamm_i64(at + 43) >= 0 and klamm_i32(at + 53) < 0)
            or attributes & ~(CODEC_MASK | TRANSACTIONAL_BIT)
            or (attributes & CODEC_MASK) > max_codec
            or klamm_crc32c(0, at + 21, view.len - 21) != klamm_u32(at + 17)
            or not ((attributes & CODEC_MASK) or has_sound_records(at, view.len))
        ):
            return None
        return read_header(at)
    finally:
        PyBuffer_Release(&view)


cdef int check_position(Py_ssize_t position, Py_ssize_t end) except -1:
    if not 0 <= position <= end:
        raise ValueError(f"position {position} in a buffer of {end} bytes")
    return 0


cdef int check_batch(object buffer, const uint8_t *start, Py_ssize_t position) except -1:
    if not is_header(start + position):
        explain_header(buffer, position)
        # The twin raises with its message; this line does not rely on that.
        raise DecodeError(f"no batch header at position {position}")
    if not has_offsets(start + position):
        raise DecodeError(f"a batch at offset {klamm_i64(start + position)} with a delta it cannot have")
    return 0


def find_batch(buffer, Py_ssize_t position, int64_t target_offset):
    """The position of the first batch whose last offset is at or above the target; -1 if none is."""
    cdef Py_buffer view
    cdef const uint8_t *start
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>view.buf
        check_position(position, view.len)
        while view.len - position >= HEADER_BYTES:
            check_batch(buffer, start, position)
            if last_offset(start + position) >= target_offset:
                return position
            position += batch_bytes(start + position)
        return -1
    finally:
        PyBuffer_Release(&view)


def last_whole_batch_end(buffer, Py_ssize_t position, Py_ssize_t limit, int64_t until_offset):
    """Where the last batch ends that is wholly below position `limit` and below `until_offset`."""
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef Py_ssize_t end, next_position
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>view.buf
        check_position(position, view.len)
        end = min(view.len, limit)
        while end - position >= HEADER_BYTES:
            check_batch(buffer, start, position)
            next_position = position + batch_bytes(start + position)
            if last_offset(start + position) >= until_offset or next_position > end:
                break
            position = next_position
        return position
    finally:
        PyBuffer_Release(&view)


def scan(buffer, Py_ssize_t position=0):
    """Every batch up to the first that is cut, impossible or damaged. Never raises for what it reads."""
    cdef Py_buffer view
    cdef const uint8_t *start
    cdef list batches = []
    cdef object stopped_by = ScanEnd.WHOLE
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>view.buf
        check_position(position, view.len)
        while position < view.len:
            stopped_by = fault(start + position, view.len - position)
            if stopped_by is not ScanEnd.WHOLE:
                break
            batches.append((position, read_header(start + position)))
            position += batch_bytes(start + position)
        return Scan(batches, position, stopped_by)
    finally:
        PyBuffer_Release(&view)


cdef object fault(const uint8_t *at, Py_ssize_t left):
    if left < HEADER_BYTES:
        return ScanEnd.TRUNCATED
    if at[16] != 2:
        return ScanEnd.MAGIC
    if not is_header(at):
        return ScanEnd.LENGTH
    if not has_offsets(at):
        return ScanEnd.OFFSETS
    if batch_bytes(at) > left:
        return ScanEnd.TRUNCATED
    if checksum(0, at + 21, batch_bytes(at) - 21) != klamm_u32(at + 17):
        return ScanEnd.CHECKSUM
    return ScanEnd.WHOLE

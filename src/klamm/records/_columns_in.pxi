# Records to columns in Arrow's layout. Included by _core.pyx.
#
# Columns are allocated once, as large as the regions could make them, filled with the interpreter's lock
# released, and cut to what they hold. No column can outgrow the regions it is copied from.

cdef int WANT_KEY = _arrow.Want.KEY
cdef int WANT_VALUE = _arrow.Want.VALUE
cdef int WANT_HEADERS = _arrow.Want.HEADERS
cdef int WANT_OFFSET = _arrow.Want.OFFSET
cdef int WANT_TIMESTAMP = _arrow.Want.TIMESTAMP
cdef int WANT_TIMESTAMP_TYPE = _arrow.Want.TIMESTAMP_TYPE
cdef object BinaryColumn = _arrow.BinaryColumn
cdef object HeadersColumn = _arrow.HeadersColumn
cdef object Columns = _arrow.Columns


cdef struct BinarySink:
    Py_ssize_t rows
    Py_ssize_t nulls
    int32_t size
    bint non_ascii
    uint8_t *validity
    int32_t *offsets
    uint8_t *values


cdef inline void add_null(BinarySink *sink) noexcept nogil:
    # Bits start as ones: nulls are the exception.
    sink.validity[sink.rows >> 3] &= ~(<uint8_t>1 << (sink.rows & 7))
    sink.nulls += 1
    sink.rows += 1
    sink.offsets[sink.rows] = sink.size


cdef inline void add_field(BinarySink *sink, const uint8_t *field, int32_t size) noexcept nogil:
    if size < 0:
        add_null(sink)
        return
    memcpy(sink.values + sink.size, field, size)
    sink.size += size
    sink.rows += 1
    sink.offsets[sink.rows] = sink.size


cdef inline bint is_ascii(const uint8_t *text, int32_t size) noexcept nogil:
    cdef uint8_t bits = 0
    cdef int32_t i
    for i in range(size):
        bits |= text[i]
    return bits < 0x80


cdef bytearray new_column(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


def new_buffer(Py_ssize_t size):
    """Bytes to be written over: what they are until then is not defined."""
    return new_column(size)


cdef bytearray cut(bytearray column, Py_ssize_t size):
    PyByteArray_Resize(column, size)
    return column


cdef bytearray cut_bits(bytearray bits, Py_ssize_t count, Py_ssize_t nulls):
    """A validity bitmap of `count` bits, the unused ones of its last byte zero; None without nulls."""
    if not nulls:
        return None
    cut(bits, (count + 7) >> 3)
    if count & 7:
        bits[count >> 3] = bits[count >> 3] & ((1 << (count & 7)) - 1)
    return bits


cdef class Binary:
    """One binary column being filled."""

    cdef bytearray validity
    cdef bytearray offsets
    cdef bytearray values
    cdef BinarySink sink

    def __cinit__(self, Py_ssize_t rows, Py_ssize_t size):
        self.validity = new_column((rows + 7) >> 3)
        self.offsets = new_column((rows + 1) * sizeof(int32_t))
        self.values = new_column(size)
        memset(PyByteArray_AS_STRING(self.validity), 0xFF, (rows + 7) >> 3)
        memset(&self.sink, 0, sizeof(BinarySink))
        self.sink.validity = <uint8_t *>PyByteArray_AS_STRING(self.validity)
        self.sink.offsets = <int32_t *>PyByteArray_AS_STRING(self.offsets)
        self.sink.values = <uint8_t *>PyByteArray_AS_STRING(self.values)
        self.sink.offsets[0] = 0

    cdef object finish(self):
        return BinaryColumn(
            self.sink.nulls,
            cut_bits(self.validity, self.sink.rows, self.sink.nulls),
            cut(self.offsets, (self.sink.rows + 1) * sizeof(int32_t)),
            cut(self.values, self.sink.size),
        )

    cdef object finish_text(self, Py_ssize_t max_column_bytes):
        """As `finish`, with U+FFFD for every byte that is not UTF-8: Arrow's strings cannot hold it."""
        cdef object column = self.finish()
        if not self.sink.non_ascii:
            return column
        cdef const int32_t *offsets = <const int32_t *>PyByteArray_AS_STRING(self.offsets)
        cdef list texts = []
        for row in range(self.sink.rows):
            texts.append(bytes(self.values[offsets[row]:offsets[row + 1]]).decode("utf-8", "replace").encode())
        cdef Py_ssize_t size = sum(map(len, texts))
        check_column_bytes(size, max_column_bytes)  # U+FFFD takes three bytes in place of one
        cdef Binary replaced = Binary(self.sink.rows, size)
        for text in texts:
            add_field(&replaced.sink, <const uint8_t *>PyBytes_AS_STRING(text), len(<bytes>text))
        # Nulls became empty texts; the first bitmap still distinguishes them.
        return replaced.finish()._replace(null_count=column.null_count, validity=column.validity)


cdef struct Sink:
    int64_t first_offset
    int64_t until_offset
    Py_ssize_t rows
    Py_ssize_t without_headers
    int64_t *offset
    int64_t *timestamp_ms
    int32_t *timestamp_type
    BinarySink *key
    BinarySink *value
    uint8_t *header_validity
    int32_t *header_offsets
    BinarySink *names
    BinarySink *header_values


cdef bint add_headers(Sink *sink, klamm_record *parsed, const uint8_t *end) noexcept nogil:
    cdef const uint8_t *at = parsed.headers
    cdef const uint8_t *field = NULL
    cdef int32_t size = 0
    cdef int32_t i
    if parsed.header_count == 0:
        sink.header_validity[sink.rows >> 3] &= ~(<uint8_t>1 << (sink.rows & 7))
        sink.without_headers += 1
    for i in range(parsed.header_count):
        at = klamm_field(at, end, &field, &size)
        if at == NULL or size < 0:
            return False
        if not is_ascii(field, size):
            sink.names.non_ascii = True
        add_field(sink.names, field, size)
        at = klamm_field(at, end, &field, &size)
        if at == NULL:
            return False
        add_field(sink.header_values, field, size)
    sink.header_offsets[sink.rows + 1] = <int32_t>sink.names.rows
    return True


cdef bint fill(
    Sink *sink, const uint8_t *at, Py_ssize_t size, Py_ssize_t count, int64_t base_offset,
    int64_t base_timestamp_ms, bint own_time, int64_t append_time_ms
) noexcept nogil:
    """Every record of a region into the columns; false when one is malformed."""
    cdef const uint8_t *end = at + size
    cdef klamm_record parsed
    cdef int64_t offset
    cdef Py_ssize_t done
    for done in range(count):
        at = klamm_parse_record(at, end, &parsed)
        if at == NULL or base_offset > INT64_MAX - parsed.offset_delta:
            return False
        offset = base_offset + parsed.offset_delta
        if offset < sink.first_offset or offset >= sink.until_offset:
            continue
        if sink.offset != NULL:
            sink.offset[sink.rows] = offset
        if sink.timestamp_ms != NULL:
            if own_time:
                append_time_ms = klamm_wrapping_sum(base_timestamp_ms, parsed.timestamp_delta)
            sink.timestamp_ms[sink.rows] = append_time_ms
        if sink.timestamp_type != NULL:
            sink.timestamp_type[sink.rows] = not own_time
        if sink.key != NULL:
            add_field(sink.key, parsed.key, parsed.key_size)
        if sink.value != NULL:
            add_field(sink.value, parsed.value, parsed.value_size)
        if sink.names != NULL and not add_headers(sink, &parsed, at):
            return False
        sink.rows += 1
    return at == end


cdef class HeldRegion:
    """A region whose bytes are held, so that they cannot change between measuring and reading."""

    cdef View view
    cdef Py_ssize_t count
    cdef int64_t base_offset
    cdef int64_t base_timestamp_ms
    cdef bint own_time
    cdef int64_t append_time_ms

    def __cinit__(self, region):
        data, count, base_offset, base_timestamp_ms, append_time_ms = region
        if data is None:
            raise TypeError("the data of a region must be a buffer, not None")
        self.view = View(data)
        self.count = count
        self.base_offset = base_offset
        self.base_timestamp_ms = base_timestamp_ms
        self.own_time = append_time_ms is None
        self.append_time_ms = 0 if self.own_time else append_time_ms

    cdef object mismatch(self):
        return DecodeError(f"{self.count} records in {self.view.size} bytes: a record is malformed")


cdef list hold_regions(object regions, Py_ssize_t max_column_bytes, Py_ssize_t *rows, Py_ssize_t *size):
    """Hold every region, and count their records and bytes: bytes of the buffers, not items of a sequence."""
    cdef list held = []
    cdef HeldRegion region
    rows[0] = 0
    size[0] = 0
    for fields in regions:
        region = HeldRegion(fields)
        held.append(region)
        size[0] += region.view.size
    check_column_bytes(size[0], max_column_bytes)
    for region in held:
        check_count(region.count, region.view.size)
        rows[0] += region.count
    return held


cdef int check_column_bytes(Py_ssize_t size, Py_ssize_t max_column_bytes) except -1:
    """Offsets in a column are 32 bits wide, whatever the caller allows."""
    if size > max_column_bytes or size > INT32_MAX:
        raise ValueError(f"{size} bytes do not fit one column: decode fewer regions at a time")
    return 0


cdef int fill_region(Sink *sink, HeldRegion region) except -1:
    cdef bint is_whole
    with nogil:
        is_whole = fill(
            sink, region.view.data, region.view.size, region.count, region.base_offset,
            region.base_timestamp_ms, region.own_time, region.append_time_ms,
        )
    if not is_whole:
        raise region.mismatch()
    return 0


def decode_columns(
    regions, int wanted, int64_t first_offset, int64_t until_offset, Py_ssize_t max_column_bytes=INT32_MAX
):
    """The records from `first_offset` to below `until_offset`, as the columns `wanted`."""
    cdef Py_ssize_t rows = 0
    cdef Py_ssize_t size = 0
    cdef Sink sink
    cdef Binary key = None, value = None, names = None, header_values = None
    cdef bytearray offset = None, timestamp_ms = None, timestamp_type = None
    cdef bytearray header_validity = None, header_offsets = None
    cdef list held = hold_regions(regions, max_column_bytes, &rows, &size)
    memset(&sink, 0, sizeof(Sink))
    sink.first_offset = first_offset
    sink.until_offset = until_offset
    if wanted & WANT_OFFSET:
        offset = new_column(rows * sizeof(int64_t))
        sink.offset = <int64_t *>PyByteArray_AS_STRING(offset)
    if wanted & WANT_TIMESTAMP:
        timestamp_ms = new_column(rows * sizeof(int64_t))
        sink.timestamp_ms = <int64_t *>PyByteArray_AS_STRING(timestamp_ms)
    if wanted & WANT_TIMESTAMP_TYPE:
        timestamp_type = new_column(rows * sizeof(int32_t))
        sink.timestamp_type = <int32_t *>PyByteArray_AS_STRING(timestamp_type)
    if wanted & WANT_KEY:
        key = Binary(rows, size)
        sink.key = &key.sink
    if wanted & WANT_VALUE:
        value = Binary(rows, size)
        sink.value = &value.sink
    if wanted & WANT_HEADERS:
        header_validity = new_column((rows + 7) >> 3)
        header_offsets = new_column((rows + 1) * sizeof(int32_t))
        memset(PyByteArray_AS_STRING(header_validity), 0xFF, (rows + 7) >> 3)
        sink.header_validity = <uint8_t *>PyByteArray_AS_STRING(header_validity)
        sink.header_offsets = <int32_t *>PyByteArray_AS_STRING(header_offsets)
        sink.header_offsets[0] = 0
        names = Binary(size // 2, size)  # a header takes two bytes at least
        header_values = Binary(size // 2, size)
        sink.names = &names.sink
        sink.header_values = &header_values.sink
    for region in held:
        fill_region(&sink, region)
    headers = None
    if wanted & WANT_HEADERS:
        headers = HeadersColumn(
            sink.without_headers,
            cut_bits(header_validity, sink.rows, sink.without_headers),
            cut(header_offsets, (sink.rows + 1) * sizeof(int32_t)),
            names.sink.rows,
            names.finish_text(max_column_bytes),
            header_values.finish(),
        )
    return Columns(
        sink.rows,
        cut(offset, sink.rows * sizeof(int64_t)) if offset is not None else None,
        cut(timestamp_ms, sink.rows * sizeof(int64_t)) if timestamp_ms is not None else None,
        cut(timestamp_type, sink.rows * sizeof(int32_t)) if timestamp_type is not None else None,
        key.finish() if key is not None else None,
        value.finish() if value is not None else None,
        headers,
    )

# Columns in Arrow's layout to records, grouped by partition. Included by _core.pyx.

cdef object EncodedRegion = _arrow.EncodedRegion
cdef int32_t COUNTED_PARTITIONS = 1 << 16  # more than this are sorted, not counted


cdef struct Bits:
    const uint8_t *data  # NULL: every bit is set
    Py_ssize_t size


cdef struct Field:
    const uint8_t *data
    Py_ssize_t size  # negative: null


cdef struct BinarySource:
    bint is_there
    Bits validity
    const uint8_t *offsets
    Py_ssize_t offset_count
    const uint8_t *values
    Py_ssize_t size
    Py_ssize_t first_row


cdef struct FixedSource:
    bint is_there
    Bits validity
    const uint8_t *values
    Py_ssize_t size
    Py_ssize_t first_row


cdef struct Source:
    Py_ssize_t row_count
    BinarySource key
    BinarySource value
    bint has_headers
    FixedSource header_lists  # their offsets
    BinarySource names
    BinarySource header_values
    FixedSource timestamp_ms
    int64_t default_timestamp_ms


cdef inline int bit_at(Bits *bits, Py_ssize_t at) noexcept nogil:
    """1 or 0; -1 when there is no such bit."""
    if bits.data == NULL:
        return 1
    if at < 0 or at >> 3 >= bits.size:
        return -1
    return (bits.data[at >> 3] >> (at & 7)) & 1


cdef inline bint range_at(
    const uint8_t *offsets, Py_ssize_t count, Py_ssize_t at, int32_t *start, int32_t *end
) noexcept nogil:
    if at < 0 or at >= count - 1:
        return False
    memcpy(start, offsets + at * 4, 4)
    memcpy(end, offsets + at * 4 + 4, 4)
    return 0 <= start[0] <= end[0]


cdef inline bint field_at(BinarySource *source, Py_ssize_t row, Field *field) noexcept nogil:
    """The bytes of a row; false when the buffers do not have it."""
    cdef Py_ssize_t at = klamm_wrapping_sum(source.first_row, row)
    cdef int32_t start = 0, end = 0
    cdef int is_valid
    field.data = NULL
    field.size = -1
    if not source.is_there:
        return True
    is_valid = bit_at(&source.validity, at)
    if is_valid <= 0:
        return is_valid == 0
    if not range_at(source.offsets, source.offset_count, at, &start, &end) or end > source.size:
        return False
    field.data = source.values + start
    field.size = end - start
    return True


cdef inline Py_ssize_t encoded_bytes(Field *field) noexcept nogil:
    if field.size < 0:
        return 1
    return klamm_varint_size(field.size) + field.size


cdef inline uint8_t *write_field(uint8_t *out, Field *field) noexcept nogil:
    out = klamm_put_varint(out, field.size if field.size >= 0 else -1)
    if field.size > 0:
        memcpy(out, field.data, field.size)
        out += field.size
    return out


cdef inline bint time_at(Source *source, Py_ssize_t row, int64_t *timestamp_ms) noexcept nogil:
    cdef Py_ssize_t at = klamm_wrapping_sum(source.timestamp_ms.first_row, row)
    cdef int is_valid
    timestamp_ms[0] = source.default_timestamp_ms
    if not source.timestamp_ms.is_there:
        return True
    is_valid = bit_at(&source.timestamp_ms.validity, at)
    if is_valid <= 0:
        return is_valid == 0
    if at < 0 or at >= source.timestamp_ms.size // 8:
        return False
    memcpy(timestamp_ms, source.timestamp_ms.values + at * 8, 8)
    return True


cdef inline bint headers_at(Source *source, Py_ssize_t row, int32_t *start, int32_t *end) noexcept nogil:
    cdef Py_ssize_t at = klamm_wrapping_sum(source.header_lists.first_row, row)
    cdef int is_valid
    start[0] = 0
    end[0] = 0
    if not source.has_headers:
        return True
    is_valid = bit_at(&source.header_lists.validity, at)
    if is_valid <= 0:
        return is_valid == 0
    return range_at(source.header_lists.values, source.header_lists.size // 4, at, start, end)


cdef Py_ssize_t body_bytes(Source *source, Py_ssize_t row, int64_t delta_ms, Py_ssize_t index) noexcept nogil:
    """The size of a row's record, without its length field; -1 when the buffers do not have it."""
    cdef Field field
    cdef Field header_value
    cdef int32_t start = 0, end = 0, header
    cdef Py_ssize_t size = 1 + klamm_varint_size(delta_ms) + klamm_varint_size(index)
    if not field_at(&source.key, row, &field):
        return -1
    size += encoded_bytes(&field)
    if not field_at(&source.value, row, &field):
        return -1
    size += encoded_bytes(&field)
    if not headers_at(source, row, &start, &end):
        return -1
    size += klamm_varint_size(end - start)
    for header in range(start, end):
        if not field_at(&source.names, header, &field) or field.size < 0:
            return -1
        if not field_at(&source.header_values, header, &header_value):
            return -1
        size += encoded_bytes(&field) + encoded_bytes(&header_value)
    return size if size <= INT32_MAX else -1


cdef uint8_t *write_row(
    Source *source, Py_ssize_t row, int64_t delta_ms, Py_ssize_t index, uint8_t *out
) noexcept nogil:
    """A record that `body_bytes` has measured, so nothing can be missing."""
    cdef Field field
    cdef int32_t start = 0, end = 0, header
    out = klamm_put_varint(out, body_bytes(source, row, delta_ms, index))
    out[0] = 0  # attributes: no bit of them is in use
    out = klamm_put_varint(out + 1, delta_ms)
    out = klamm_put_varint(out, index)
    field_at(&source.key, row, &field)
    out = write_field(out, &field)
    field_at(&source.value, row, &field)
    out = write_field(out, &field)
    headers_at(source, row, &start, &end)
    out = klamm_put_varint(out, end - start)
    for header in range(start, end):
        field_at(&source.names, header, &field)
        out = write_field(out, &field)
        field_at(&source.header_values, header, &field)
        out = write_field(out, &field)
    return out


cdef struct Cut:
    Py_ssize_t row_count
    Py_ssize_t size
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms


cdef Py_ssize_t measure(
    Source *source, const int32_t *rows, Py_ssize_t count, Py_ssize_t max_bytes, Cut *region
) noexcept nogil:
    """How many of these rows fit one region, one at least; the row that is broken, or -1."""
    cdef Py_ssize_t index, size
    cdef int64_t timestamp_ms = 0
    region.size = 0
    region.row_count = 0
    for index in range(count):
        if not time_at(source, rows[index], &timestamp_ms):
            return rows[index]
        if index == 0:
            region.base_timestamp_ms = timestamp_ms
            region.max_timestamp_ms = timestamp_ms
        size = body_bytes(
            source, rows[index], klamm_wrapping_difference(timestamp_ms, region.base_timestamp_ms), index
        )
        if size < 0:
            return rows[index]
        size += klamm_varint_size(size)
        if index > 0 and region.size + size > max_bytes:
            break
        region.size += size
        region.row_count += 1
        if timestamp_ms > region.max_timestamp_ms:
            region.max_timestamp_ms = timestamp_ms
    return -1


cdef void write_region(Source *source, const int32_t *rows, Cut *region, uint8_t *out) noexcept nogil:
    cdef Py_ssize_t index
    cdef int64_t timestamp_ms = 0
    for index in range(region.row_count):
        time_at(source, rows[index], &timestamp_ms)
        timestamp_ms = klamm_wrapping_difference(timestamp_ms, region.base_timestamp_ms)
        out = write_row(source, rows[index], timestamp_ms, index, out)


cdef int bind_binary(BinarySource *source, object column, list held) except -1:
    memset(source, 0, sizeof(BinarySource))
    if column is None:
        return 0
    validity, offsets, values, first_row = column
    cdef View bits = View(validity)
    cdef View cuts = View(offsets)
    cdef View run = View(values)
    held += (bits, cuts, run)
    source.is_there = True
    source.validity = Bits(bits.data, bits.size)
    source.offsets = cuts.data
    source.offset_count = cuts.size // 4
    source.values = run.data
    source.size = run.size
    source.first_row = first_row
    return 0


cdef int bind_fixed(FixedSource *source, object column, list held) except -1:
    memset(source, 0, sizeof(FixedSource))
    if column is None:
        return 0
    validity, values, first_row = column
    cdef View bits = View(validity)
    cdef View run = View(values)
    held += (bits, run)
    source.is_there = True
    source.validity = Bits(bits.data, bits.size)
    source.values = run.data
    source.size = run.size
    source.first_row = first_row
    return 0


def partition_rows(Py_ssize_t row_count, key, given, int32_t partition_count, int32_t keyless_partition):
    """The partition of every row, int32: the given one, else by the key's hash, else the keyless one."""
    if partition_count < 1 or not 0 <= keyless_partition < partition_count:
        raise ValueError(f"partition {keyless_partition} of {partition_count}")
    cdef list held = []
    cdef BinarySource keys
    cdef FixedSource wishes
    bind_binary(&keys, key, held)
    bind_fixed(&wishes, given, held)
    row_count = max(row_count, 0)
    if row_count > INT32_MAX:
        raise ValueError(f"{row_count} rows at once")
    cdef bytearray chosen = new_column(row_count * sizeof(int32_t))
    cdef int32_t *out = <int32_t *>PyByteArray_AS_STRING(chosen)
    cdef Py_ssize_t broken
    with nogil:
        broken = choose(row_count, &keys, &wishes, partition_count, keyless_partition, out)
    if broken >= 0:
        raise ValueError(f"row {broken} is not in its buffers, or has a partition that the topic does not have")
    return chosen


cdef Py_ssize_t choose(
    Py_ssize_t row_count, BinarySource *keys, FixedSource *wishes, int32_t partition_count,
    int32_t keyless_partition, int32_t *out
) noexcept nogil:
    """The partitions of all rows; the row that is broken, or -1."""
    cdef Py_ssize_t row, at
    cdef int32_t partition
    cdef int is_valid
    cdef Field field
    for row in range(row_count):
        at = klamm_wrapping_sum(wishes.first_row, row)
        is_valid = bit_at(&wishes.validity, at) if wishes.is_there else 0
        if is_valid < 0:
            return row
        if is_valid:
            if at < 0 or at >= wishes.size // 4:
                return row
            memcpy(&partition, wishes.values + at * 4, 4)
            if not 0 <= partition < partition_count:
                return row
        else:
            if not field_at(keys, row, &field):
                return row
            partition = keyless_partition
            if field.size >= 0:
                partition = <int32_t>(klamm_murmur2(field.data, field.size) & 0x7FFFFFFF) % partition_count
        out[row] = partition
    return -1


cdef bint group(const uint8_t *partitions, Py_ssize_t row_count, int32_t *rows, int32_t largest) noexcept nogil:
    """Row numbers by partition, stable; false without the memory to count in."""
    cdef Py_ssize_t *next_place = <Py_ssize_t *>calloc(<Py_ssize_t>largest + 2, sizeof(Py_ssize_t))
    cdef Py_ssize_t row, partition
    cdef int32_t of_row
    if next_place == NULL:
        return False
    for row in range(row_count):
        memcpy(&of_row, partitions + row * 4, 4)
        next_place[<Py_ssize_t>of_row + 1] += 1
    for partition in range(1, <Py_ssize_t>largest + 2):
        next_place[partition] += next_place[partition - 1]
    for row in range(row_count):
        memcpy(&of_row, partitions + row * 4, 4)
        rows[next_place[of_row]] = <int32_t>row
        next_place[of_row] += 1
    free(next_place)
    return True


cdef inline int32_t partition_at(const uint8_t *partitions, Py_ssize_t row) noexcept nogil:
    cdef int32_t partition
    memcpy(&partition, partitions + row * 4, 4)
    return partition


cdef bytearray grouped_rows(const uint8_t *partitions, Py_ssize_t row_count):
    cdef bytearray order = new_column(row_count * sizeof(int32_t))
    cdef int32_t *rows = <int32_t *>PyByteArray_AS_STRING(order)
    cdef int32_t largest = 0
    cdef Py_ssize_t row
    for row in range(row_count):
        if partition_at(partitions, row) < 0:
            raise ValueError(f"row {row} has partition {partition_at(partitions, row)}")
        largest = max(largest, partition_at(partitions, row))
    if largest < COUNTED_PARTITIONS:
        if not group(partitions, row_count, rows, largest):
            raise MemoryError()
        return order
    numbers = [partition_at(partitions, row) for row in range(row_count)]
    for place, number in enumerate(sorted(range(row_count), key=numbers.__getitem__)):
        rows[place] = number
    return order


def encode_columns(
    Py_ssize_t row_count, partitions, key, value, headers, timestamp_ms, int64_t default_timestamp_ms,
    Py_ssize_t max_region_bytes,
):
    """Rows as records, by partition (int32 each, not negative) and in row order within it."""
    cdef Source source
    cdef list held = []
    memset(&source, 0, sizeof(Source))
    source.row_count = row_count
    source.default_timestamp_ms = default_timestamp_ms
    bind_binary(&source.key, key, held)
    bind_binary(&source.value, value, held)
    bind_fixed(&source.timestamp_ms, timestamp_ms, held)
    if headers is not None:
        validity, list_offsets, names, header_values, first_row = headers
        source.has_headers = True
        bind_fixed(&source.header_lists, (validity, list_offsets, first_row), held)
        bind_binary(&source.names, names, held)
        bind_binary(&source.header_values, header_values, held)
    cdef View chosen = View(partitions)
    if row_count <= 0:
        return []
    if row_count > chosen.size // 4 or row_count > INT32_MAX:
        raise ValueError(f"{row_count} rows, and partitions for {chosen.size // 4}")
    cdef bytearray order = grouped_rows(chosen.data, row_count)
    cdef const int32_t *rows = <const int32_t *>PyByteArray_AS_STRING(order)
    cdef list regions = []
    cdef Py_ssize_t start = 0, end, broken
    cdef int32_t partition
    cdef Cut region
    cdef bytearray data
    cdef uint8_t *out
    memset(&region, 0, sizeof(Cut))
    while start < row_count:
        partition = partition_at(chosen.data, rows[start])
        end = start + 1
        while end < row_count and partition_at(chosen.data, rows[end]) == partition:
            end += 1
        while start < end:
            with nogil:
                broken = measure(&source, rows + start, end - start, max_region_bytes, &region)
            if broken >= 0:
                raise ValueError(f"row {broken} is not in its buffers")
            data = new_column(region.size)
            out = <uint8_t *>PyByteArray_AS_STRING(data)
            with nogil:
                write_region(&source, rows + start, &region, out)
            regions.append(
                EncodedRegion(
                    partition, data, region.row_count, region.base_timestamp_ms, region.max_timestamp_ms
                )
            )
            start += region.row_count
    return regions

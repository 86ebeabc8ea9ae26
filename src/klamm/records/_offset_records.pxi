# Committed offsets to and from records of a coordinator's log. Included by _core.pyx, after _offset_table.pxi.

cdef int LOG_APPEND_TIME_BIT = _layout.LOG_APPEND_TIME_BIT
cdef enum:
    MAX_STRING_BYTES = 0x7FFF
    PARTITION_BYTES = 4  # at the end of a key
    MIN_KEY_BYTES = 6  # a version is in front of it


def encode_commits(blocks, int64_t timestamp_ms):
    """Blocks as one uncompressed batch of records, each in the newest of Kafka's formats that fits it."""
    cdef tuple listed = tuple(blocks)
    cdef klamm_block block
    cdef TopicCommits commits
    cdef const char *metadata
    cdef Py_ssize_t metadata_size = 0
    cdef Py_ssize_t size = HEADER_BYTES
    cdef Py_ssize_t body_size, at
    cdef int64_t count = 0
    cdef uint8_t *start
    cdef uint8_t *out
    for fields in listed:
        commits = read_block(fields, &block)
        for at in range(commits.count):
            metadata_of(commits, at, &block, &metadata_size)
            body_size = klamm_body_size(&block, count, metadata_size)
            size += klamm_varint_size(body_size) + body_size
            count += 1
            if size > INT32_MAX:
                raise OverflowError(f"a batch of more than {INT32_MAX} bytes")
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, size)
    start = <uint8_t *>PyBytes_AS_STRING(batch)
    out = put_header(start, size, count, timestamp_ms)
    count = 0
    for fields in listed:
        commits = read_block(fields, &block)
        for at in range(commits.count):
            metadata = metadata_of(commits, at, &block, &metadata_size)
            out = klamm_put_commit(out, &block, count, commits.rows + at, metadata, metadata_size)
            count += 1
    klamm_put_32(start + 17, klamm_crc32c(0, start + 21, size - 21))
    return batch


cdef uint8_t *put_header(uint8_t *out, Py_ssize_t size, int64_t count, int64_t timestamp_ms):
    """The header of a batch without a producer; its checksum is left open."""
    out = klamm_put_64(out, 0)
    out = klamm_put_32(out, size - LENGTH_OVERHEAD_BYTES)
    out = klamm_put_32(out, <uint32_t>-1)
    out[0] = 2
    out = klamm_put_32(out + 1, 0)
    out = klamm_put_16(out, 0)
    out = klamm_put_32(out, <uint32_t>(count - 1))
    out = klamm_put_64(out, timestamp_ms)
    out = klamm_put_64(out, timestamp_ms)
    memset(out, 0xFF, 8 + 2)  # producer id and epoch: none
    out = klamm_put_32(out + 10, 0)  # the sequence, as Kafka's coordinator writes it
    return klamm_put_32(out, <uint32_t>count)


cdef TopicCommits read_block(object fields, klamm_block *block):
    """What a block's records have in common; pointers into the texts that it holds."""
    cdef bytes topic_id
    if not isinstance(fields, tuple) or len(<tuple>fields) != 6:
        raise TypeError("a block is a CommitBlock")
    block.group = text_of((<tuple>fields)[0], MAX_STRING_BYTES, &block.group_size)
    block.topic = text_of((<tuple>fields)[1], MAX_STRING_BYTES, &block.topic_size)
    topic_id = (<tuple>fields)[2]
    if topic_id is None or len(topic_id) != KLAMM_TOPIC_ID_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    block.topic_id = NULL
    if topic_id != ZERO_ID:
        block.topic_id = <const uint8_t *>PyBytes_AS_STRING(topic_id)
    block.commit_ms = (<tuple>fields)[4]
    block.expire_ms = (<tuple>fields)[5]
    return <TopicCommits?>(<tuple>fields)[3]


cdef inline const char *text_of(object text, Py_ssize_t max_bytes, Py_ssize_t *size) except NULL:
    cdef const char *raw = PyUnicode_AsUTF8AndSize(text, size)
    if size[0] > max_bytes:
        raise OverflowError(f"a string of {size[0]} bytes")
    return raw


cdef inline const char *metadata_of(
    TopicCommits commits, Py_ssize_t at, const klamm_block *block, Py_ssize_t *size
) except NULL:
    cdef PyObject *text = metadata_at(commits, at)
    if text == NULL:
        size[0] = 0
        return b""
    return text_of(<object>text, PY_SSIZE_T_MAX if block.expire_ms == -1 else MAX_STRING_BYTES, size)


def store_batches(batches, Py_ssize_t position, dict tables not None):
    """Store batches as long as they have only plain offset records of the tables."""
    cdef Unstored reader = Unstored(batches, 0, 0, tables)
    cdef const uint8_t *at
    cdef const uint8_t *end = reader.at + reader.view.len
    cdef Py_ssize_t size
    cdef int64_t stored_until, next_offset = -1
    check_position(position, reader.view.len)
    at = reader.at + position
    while is_plain_batch(at, end):
        size = batch_bytes(at)
        stored_until = last_offset(at) + 1
        if not reader.store_all(at, size):
            break
        next_offset = stored_until
        at += size
    return at - <const uint8_t *>reader.view.buf, next_offset


cdef bint is_plain_batch(const uint8_t *at, const uint8_t *end):
    """Whether a whole batch is there that is neither compressed nor part of a transaction."""
    return (
        end - at >= HEADER_BYTES
        and is_header(at)
        and batch_bytes(at) <= end - at
        and has_offsets(at)
        and last_offset(at) < INT64_MAX
        and klamm_i16(at + 21) & ~LOG_APPEND_TIME_BIT == 0
        and checksum(0, at + 21, batch_bytes(at) - 21) == klamm_u32(at + 17)
    )


def store_records(region, Py_ssize_t count, int64_t base_offset, dict tables not None):
    """Store the plain offset records of a region in their tables; yields the records that need inspection."""
    return Unstored(region, count, base_offset, tables)


@cython.final
cdef class Unstored:
    """Yields the records that need inspection; stores those between them."""

    cdef Py_buffer view
    cdef const uint8_t *at
    cdef Py_ssize_t count
    cdef Py_ssize_t left
    cdef int64_t base_offset
    cdef bint is_checked
    cdef dict tables
    # Of the last record: mostly the next one is of the same table, and its texts are the same.
    cdef const uint8_t *prefix
    cdef Py_ssize_t prefix_size
    cdef OffsetTable table
    cdef uint32_t guess
    cdef klamm_plain_value last
    cdef object metadata
    cdef bytes topic_id

    def __cinit__(self, region, Py_ssize_t count, int64_t base_offset, dict tables):
        PyObject_GetBuffer(region, &self.view, PyBUF_SIMPLE)
        self.at = <const uint8_t *>self.view.buf
        self.count = self.left = count
        self.base_offset = base_offset
        self.tables = tables

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t *end = <const uint8_t *>self.view.buf + self.view.len
        cdef const uint8_t *after
        cdef klamm_record record
        if not self.is_checked:
            self.is_checked = True
            self.check()
        while self.left > 0:
            after = klamm_parse_record(self.at, end, &record)
            if after == NULL:
                self.left = 0
                raise DecodeError("the records have changed under their reader")
            self.at = after
            self.left -= 1
            if not self.store(&record):
                self.table = None  # the caller may change the tables
                return new_record(
                    self.base_offset + record.offset_delta, record.timestamp_delta, &record, after
                )
        raise StopIteration

    cdef int check(self) except -1:
        """Check the whole region before anything of it is stored."""
        cdef Py_ssize_t size = self.view.len, count = self.left
        cdef bint is_whole
        self.left = 0  # nothing follows an error
        check_count(count, size)
        if size < UNLOCKED_BYTES:
            is_whole = is_sound(self.at, size, count, self.base_offset)
        else:
            with nogil:
                is_whole = is_sound(self.at, size, count, self.base_offset)
        if not is_whole:
            raise DecodeError(f"{count} records in {size} bytes are malformed")
        self.left = count
        return 0

    cdef bint store_all(self, const uint8_t *batch, Py_ssize_t size) except -1:
        """Store the records of a batch; false when it needs inspection."""
        cdef const uint8_t *end = batch + size
        cdef klamm_record record
        self.base_offset = klamm_i64(batch)
        self.left = klamm_i32(batch + 57)
        self.at = batch + HEADER_BYTES
        if self.left < 0 or not is_sound(self.at, end - self.at, self.left, self.base_offset):
            return False
        while self.left > 0:
            self.left -= 1
            self.at = klamm_parse_record(self.at, end, &record)
            if self.at == NULL or not self.store(&record):
                return False
        return True

    cdef bint store(self, const klamm_record *record) except -1:
        """Store a record; false when it needs inspection."""
        cdef klamm_plain_value plain
        if record.key_size < MIN_KEY_BYTES or record.value_size < 0 or klamm_i16(record.key) != 1:
            return False
        if not klamm_parse_plain(record.value, record.value_size, &plain):
            return False
        if not self.find_table(record.key, record.key_size - PARTITION_BYTES):
            return False
        if not self.read_metadata(&plain):
            return False
        self.read_topic_id(&plain)
        self.last = plain
        self.guess = store_entry(
            &self.table.table,
            self.guess,
            klamm_i32(record.key + record.key_size - PARTITION_BYTES),
            self.base_offset + record.offset_delta,
            plain.offset,
            plain.leader_epoch,
            plain.commit_ms,
            -1,
            NULL if plain.metadata_size == 0 else <PyObject *>self.metadata,
            self.topic_id,
        )
        return True

    cdef bint find_table(self, const uint8_t *prefix, Py_ssize_t size) except -1:
        cdef PyObject *table
        if self.table is not None and size == self.prefix_size and memcmp(prefix, self.prefix, size) == 0:
            return True
        table = PyDict_GetItemWithError(self.tables, PyBytes_FromStringAndSize(<const char *>prefix, size))
        if table == NULL:
            return False
        self.table = <OffsetTable?><object>table
        self.prefix = prefix
        self.prefix_size = size
        self.guess = 0
        return True

    cdef bint read_metadata(self, const klamm_plain_value *plain) except -1:
        """Load the record's metadata; false when it is not UTF-8."""
        cdef Py_ssize_t size = plain.metadata_size
        if size == 0 or (size == self.last.metadata_size and memcmp(plain.metadata, self.last.metadata, size) == 0):
            return True
        try:
            self.metadata = PyUnicode_DecodeUTF8(<const char *>plain.metadata, size, NULL)
        except UnicodeDecodeError:
            return False
        return True

    cdef int read_topic_id(self, const klamm_plain_value *plain) except -1:
        """Load the record's topic id."""
        cdef Py_ssize_t size = KLAMM_TOPIC_ID_BYTES
        if plain.topic_id == NULL or memcmp(plain.topic_id, PyBytes_AS_STRING(ZERO_ID), size) == 0:
            self.topic_id = ZERO_ID
        elif self.last.topic_id == NULL or memcmp(plain.topic_id, self.last.topic_id, size) != 0:
            self.topic_id = PyBytes_FromStringAndSize(<const char *>plain.topic_id, size)
        return 0


cdef bint is_sound(const uint8_t *at, Py_ssize_t size, Py_ssize_t count, int64_t base_offset) noexcept nogil:
    """Whether a region holds exactly the stated number of records."""
    cdef const uint8_t *end = at + size
    cdef klamm_record record
    cdef Py_ssize_t done
    for done in range(count):
        at = klamm_parse_record(at, end, &record)
        if at == NULL or base_offset > INT64_MAX - record.offset_delta:
            return False
    return at == end

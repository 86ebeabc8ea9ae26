# Offset commits of a coordinator's log to columns. Included by _core.pyx.

cdef extern from "_offsets.h":
    ctypedef struct klamm_offset_commit:
        int16_t key_version
        int16_t value_version
        int32_t partition
        int32_t leader_epoch
        int32_t group_size
        int32_t topic_size
        int32_t metadata_size
        int64_t committed_offset
        int64_t commit_timestamp_ms
        int64_t expire_timestamp_ms
        const uint8_t *group
        const uint8_t *topic
        const uint8_t *metadata

    int KLAMM_OFFSET_COMMIT
    int KLAMM_BROKEN_COMMIT
    int klamm_parse_commit(const klamm_record *record, klamm_offset_commit *commit) nogil


cdef object OffsetCommits = _arrow.OffsetCommits


cdef struct CommitSink:
    Py_ssize_t rows
    Py_ssize_t broken_count
    Py_ssize_t tombstones
    int64_t *broken
    int64_t *log_offset
    int64_t *log_timestamp_ms
    int32_t *region
    int32_t *partition
    int32_t *key_version
    uint8_t *value_validity
    int32_t *value_version
    int64_t *committed_offset
    int32_t *leader_epoch
    int64_t *commit_timestamp_ms
    int64_t *expire_timestamp_ms
    BinarySink *group
    BinarySink *topic
    BinarySink *metadata


cdef inline void add_text(BinarySink *sink, const uint8_t *text, int32_t size) noexcept nogil:
    if size > 0 and not is_ascii(text, size):
        sink.non_ascii = True
    add_field(sink, text, size)


cdef void add_commit(
    CommitSink *sink, klamm_offset_commit *commit, int64_t offset, int64_t timestamp_ms, int32_t region
) noexcept nogil:
    cdef Py_ssize_t row = sink.rows
    cdef bint is_tombstone = commit.value_version < 0
    sink.log_offset[row] = offset
    sink.log_timestamp_ms[row] = timestamp_ms
    sink.region[row] = region
    sink.partition[row] = commit.partition
    sink.key_version[row] = commit.key_version
    add_text(sink.group, commit.group, commit.group_size)
    add_text(sink.topic, commit.topic, commit.topic_size)
    if is_tombstone:
        sink.value_validity[row >> 3] &= ~(<uint8_t>1 << (row & 7))
        sink.tombstones += 1
        add_null(sink.metadata)
    else:
        add_text(sink.metadata, commit.metadata, commit.metadata_size)
    sink.value_version[row] = commit.value_version
    sink.committed_offset[row] = -1 if is_tombstone else commit.committed_offset
    sink.leader_epoch[row] = -1 if is_tombstone else commit.leader_epoch
    sink.commit_timestamp_ms[row] = -1 if is_tombstone else commit.commit_timestamp_ms
    sink.expire_timestamp_ms[row] = -1 if is_tombstone else commit.expire_timestamp_ms
    sink.rows += 1


cdef bint fill_commits(
    CommitSink *sink, const uint8_t *at, Py_ssize_t size, Py_ssize_t count, int64_t base_offset,
    int64_t base_timestamp_ms, bint own_time, int64_t append_time_ms, int32_t region,
    int64_t first_offset, int64_t until_offset
) noexcept nogil:
    """The offset commits of a region; false when a record is malformed."""
    cdef const uint8_t *end = at + size
    cdef klamm_record parsed
    cdef klamm_offset_commit commit
    cdef int64_t offset
    cdef Py_ssize_t done
    cdef int found
    memset(&commit, 0, sizeof(klamm_offset_commit))
    for done in range(count):
        at = klamm_parse_record(at, end, &parsed)
        if at == NULL or base_offset > INT64_MAX - parsed.offset_delta:
            return False
        offset = base_offset + parsed.offset_delta
        if offset < first_offset or offset >= until_offset:
            continue
        if own_time:
            append_time_ms = klamm_wrapping_sum(base_timestamp_ms, parsed.timestamp_delta)
        found = klamm_parse_commit(&parsed, &commit)
        if found == KLAMM_OFFSET_COMMIT:
            add_commit(sink, &commit, offset, append_time_ms, region)
        elif found == KLAMM_BROKEN_COMMIT:
            sink.broken[sink.broken_count] = offset
            sink.broken_count += 1
    return at == end


cdef bytearray int64_column(Py_ssize_t rows, int64_t **column):
    cdef bytearray made = new_column(rows * sizeof(int64_t))
    column[0] = <int64_t *>PyByteArray_AS_STRING(made)
    return made


cdef bytearray int32_column(Py_ssize_t rows, int32_t **column):
    cdef bytearray made = new_column(rows * sizeof(int32_t))
    column[0] = <int32_t *>PyByteArray_AS_STRING(made)
    return made


def decode_offset_commits(
    regions, int64_t first_offset, int64_t until_offset, Py_ssize_t max_column_bytes=INT32_MAX
):
    """The offset commits among the records from `first_offset` to below `until_offset`, as columns."""
    cdef Py_ssize_t rows = 0, size = 0
    cdef CommitSink sink
    cdef HeldRegion region
    cdef bint is_whole
    cdef int32_t number = 0
    cdef list held = hold_regions(regions, max_column_bytes, &rows, &size)
    memset(&sink, 0, sizeof(CommitSink))
    cdef bytearray broken = int64_column(rows, &sink.broken)
    cdef list wide = [
        int64_column(rows, &sink.log_offset),
        int64_column(rows, &sink.log_timestamp_ms),
        int64_column(rows, &sink.committed_offset),
        int64_column(rows, &sink.commit_timestamp_ms),
        int64_column(rows, &sink.expire_timestamp_ms),
    ]
    cdef list narrow = [
        int32_column(rows, &sink.region),
        int32_column(rows, &sink.partition),
        int32_column(rows, &sink.key_version),
        int32_column(rows, &sink.value_version),
        int32_column(rows, &sink.leader_epoch),
    ]
    cdef bytearray validity = new_column((rows + 7) >> 3)
    sink.value_validity = <uint8_t *>PyByteArray_AS_STRING(validity)
    memset(sink.value_validity, 0xFF, (rows + 7) >> 3)
    cdef Binary group = Binary(rows, size)
    cdef Binary topic = Binary(rows, size)
    cdef Binary metadata = Binary(rows, size)
    sink.group = &group.sink
    sink.topic = &topic.sink
    sink.metadata = &metadata.sink
    for region in held:
        with nogil:
            is_whole = fill_commits(
                &sink, region.view.data, region.view.size, region.count, region.base_offset,
                region.base_timestamp_ms, region.own_time, region.append_time_ms, number, first_offset,
                until_offset,
            )
        if not is_whole:
            raise region.mismatch()
        number += 1
    wide = [cut(column, sink.rows * sizeof(int64_t)) for column in wide]
    narrow = [cut(column, sink.rows * sizeof(int32_t)) for column in narrow]
    return OffsetCommits(
        row_count=sink.rows,
        log_offset=wide[0],
        log_timestamp_ms=wide[1],
        region=narrow[0],
        group=group.finish_text(max_column_bytes),
        topic=topic.finish_text(max_column_bytes),
        partition=narrow[1],
        key_version=narrow[2],
        tombstone_count=sink.tombstones,
        value_validity=cut_bits(validity, sink.rows, sink.tombstones),
        value_version=narrow[3],
        committed_offset=wide[2],
        leader_epoch=narrow[4],
        metadata=metadata.finish_text(max_column_bytes),
        commit_timestamp_ms=wide[3],
        expire_timestamp_ms=wide[4],
        broken=cut(broken, sink.broken_count * sizeof(int64_t)),
    )

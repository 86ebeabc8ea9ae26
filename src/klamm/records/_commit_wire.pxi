# OffsetCommit on the wire: requests in, responses out. Included by _core.pyx, after _offset_table.pxi.

cdef extern from "_commit_wire.h":
    const uint8_t *klamm_read_commit(
        const uint8_t *at, const uint8_t *end, bint has_leader_epoch, bint is_flexible, klamm_commit *commit,
        const uint8_t **metadata, int32_t *metadata_size
    )

cdef Py_ssize_t MIN_COMMIT_BYTES = _layout.MIN_COMMIT_BYTES


def read_commits(
    bint has_leader_epoch, bint is_flexible, bytes buffer not None, Py_ssize_t position, Py_ssize_t count
):
    """Decode `count` partitions of an OffsetCommit request; returns them and the position after them."""
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(buffer)
    cdef const uint8_t *start = at
    cdef const uint8_t *end = at + len(buffer)
    cdef const uint8_t *metadata = NULL
    cdef int32_t metadata_size = 0
    cdef Py_ssize_t done
    cdef TopicCommits commits = TopicCommits.__new__(TopicCommits, ())
    if not 0 <= position <= len(buffer) or not 0 <= count <= (len(buffer) - position) // MIN_COMMIT_BYTES:
        raise DecodeError(f"{count} partitions cannot be in {len(buffer) - position} bytes")
    at += position
    commits.make_rows(count)
    for done in range(count):
        at = klamm_read_commit(
            at, end, has_leader_epoch, is_flexible, commits.rows + done, &metadata, &metadata_size
        )
        if at == NULL:
            raise DecodeError(f"partition {done} of {count} is malformed")
        commits.widen(commits.rows[done].partition, done == 0)
        if metadata_size > 0:
            commits.keep_metadata(done, wire_text(metadata, metadata_size))
    return commits, at - start


cdef str wire_text(const uint8_t *text, Py_ssize_t size):
    try:
        return PyUnicode_DecodeUTF8(<const char *>text, size, NULL)
    except UnicodeDecodeError as error:
        raise DecodeError(str(error)) from error


def write_commit_answers(bint is_flexible, answers):
    """The partitions of one topic in the response."""
    cdef tuple listed = tuple(answers)
    cdef Py_ssize_t size = 7 if is_flexible else 6
    cdef bytes written = PyBytes_FromStringAndSize(NULL, len(listed) * size)
    cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(written)
    cdef int32_t partition
    cdef int16_t error_code
    for answer in listed:
        partition = answer.partition_index
        error_code = answer.error_code
        out = klamm_put_16(klamm_put_32(out, partition), error_code)
        if is_flexible:
            out[0] = 0  # no tags
            out += 1
    return written

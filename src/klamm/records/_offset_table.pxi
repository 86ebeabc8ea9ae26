# Committed offsets by topic. Included by _core.pyx, after _walk.pxi and _region.pxi.

cdef extern from "Python.h":
    ctypedef struct PyObject
    void Py_XINCREF(PyObject *)
    void Py_XDECREF(PyObject *)
    PyObject *PyDict_GetItemWithError(object of_dict, object key) except? NULL
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    void *PyMem_Malloc(size_t size)
    void *PyMem_Realloc(void *block, size_t size)
    void PyMem_Free(void *block)

cdef extern from "_offset_table.h":
    ctypedef struct klamm_commit:
        int64_t offset
        int32_t partition
        int32_t leader_epoch

    ctypedef struct klamm_entry:
        int32_t partition
        int32_t leader_epoch
        int64_t log_offset
        int64_t offset
        int64_t commit_ms
        int64_t expire_ms
        PyObject *metadata
        PyObject *topic_id

    ctypedef struct klamm_table:
        klamm_entry *entries
        uint32_t count
        uint32_t capacity
        uint32_t slots

    ctypedef struct klamm_plain_value:
        int64_t offset
        int64_t commit_ms
        int32_t leader_epoch
        int32_t metadata_size
        const uint8_t *metadata
        const uint8_t *topic_id

    ctypedef struct klamm_block:
        const char *group
        const char *topic
        Py_ssize_t group_size
        Py_ssize_t topic_size
        const uint8_t *topic_id
        int64_t commit_ms
        int64_t expire_ms

    int KLAMM_TOPIC_ID_BYTES
    int klamm_resize(klamm_table *table, uint32_t capacity)
    klamm_entry *klamm_find(const klamm_table *table, int32_t partition, uint32_t guess)
    klamm_entry *klamm_entry_of(klamm_table *table, int32_t partition, uint32_t guess)
    void klamm_set(
        klamm_entry *entry, int64_t log_offset, int64_t offset, int32_t leader_epoch, int64_t commit_ms,
        int64_t expire_ms, PyObject *metadata, PyObject *topic_id
    )
    int klamm_remove(klamm_table *table, int32_t partition)
    void klamm_clear(klamm_table *table)
    bint klamm_parse_plain(const uint8_t *value, int32_t size, klamm_plain_value *plain)
    size_t klamm_body_size(const klamm_block *block, int64_t offset_delta, size_t metadata_size)
    uint8_t *klamm_put_commit(
        uint8_t *out, const klamm_block *block, int64_t offset_delta, const klamm_commit *commit,
        const char *metadata, size_t metadata_size
    )
    uint8_t *klamm_put_16(uint8_t *out, uint32_t value)
    uint8_t *klamm_put_32(uint8_t *out, uint32_t value)
    uint8_t *klamm_put_64(uint8_t *out, uint64_t value)


cdef object OffsetCommitValue = _layout.OffsetCommitValue
cdef object PartitionCommit = _layout.PartitionCommit
cdef bytes ZERO_ID = _layout.ZERO_ID


@cython.final
@cython.freelist(8)
cdef class TopicCommits:
    """The committed offsets of the partitions of one topic, in request order.

    Raises OverflowError for a number that the wire has no room for.
    """

    cdef klamm_commit *rows
    cdef PyObject **metadata  # behind the rows, NULL where it is empty; NULL itself when none has any
    cdef Py_ssize_t count
    cdef readonly int32_t lowest
    cdef readonly int32_t highest

    def __cinit__(self, asked):
        cdef tuple listed
        cdef Py_ssize_t at
        cdef klamm_commit *row
        self.highest = -1
        if type(asked) is TopicCommits:
            self.copy(asked)
            return
        listed = tuple(asked)
        self.make_rows(len(listed))
        for at in range(self.count):
            each = listed[at]
            row = self.rows + at
            row.partition = each.partition_index
            row.offset = each.committed_offset
            row.leader_epoch = each.committed_leader_epoch
            self.widen(row.partition, at == 0)
            metadata = each.committed_metadata
            if metadata:
                self.keep_metadata(at, metadata)

    cdef int make_rows(self, Py_ssize_t count) except -1:
        if count > 0:
            self.rows = <klamm_commit *>PyMem_Malloc(count * sizeof(klamm_commit))
            if self.rows == NULL:
                raise MemoryError()
            self.count = count
        return 0

    cdef int copy(self, TopicCommits other) except -1:
        cdef Py_ssize_t at
        self.make_rows(other.count)
        if other.count:
            memcpy(self.rows, other.rows, other.count * sizeof(klamm_commit))
        self.lowest, self.highest = other.lowest, other.highest
        for at in range(other.count if other.metadata != NULL else 0):
            if other.metadata[at] != NULL:
                self.keep_metadata(at, <object>other.metadata[at])
        return 0

    cdef void widen(self, int32_t partition, bint is_first) noexcept:
        """Take a partition into the range."""
        if is_first or partition < self.lowest:
            self.lowest = partition
        if is_first or partition > self.highest:
            self.highest = partition

    cdef int keep_metadata(self, Py_ssize_t at, str metadata) except -1:
        cdef void *moved
        if self.metadata == NULL:
            moved = PyMem_Realloc(self.rows, self.count * (sizeof(klamm_commit) + sizeof(PyObject *)))
            if moved == NULL:
                raise MemoryError()
            self.rows = <klamm_commit *>moved
            self.metadata = <PyObject **>(self.rows + self.count)
            memset(self.metadata, 0, self.count * sizeof(PyObject *))
        Py_INCREF(metadata)
        self.metadata[at] = <PyObject *>metadata
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t at
        if self.metadata != NULL:
            for at in range(self.count):
                Py_XDECREF(self.metadata[at])
        PyMem_Free(self.rows)

    @property
    def has_metadata(self):
        return self.metadata != NULL

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t at
        return iter([new_commit(self, at) for at in range(self.count)])

    def __getitem__(self, Py_ssize_t at):
        if not 0 <= at < self.count:
            raise IndexError(f"partition {at} of {self.count}")
        return new_commit(self, at)

    def partitions(self):
        cdef Py_ssize_t at
        return [self.rows[at].partition for at in range(self.count)]

    def partition_bytes(self):
        """Their numbers as bytes: those of other partitions, or in another order, are different."""
        cdef Py_ssize_t at
        cdef bytes numbers = PyBytes_FromStringAndSize(NULL, self.count * sizeof(int32_t))
        cdef uint8_t *out = <uint8_t *>PyBytes_AS_STRING(numbers)
        for at in range(self.count):
            out = klamm_put_32(out, <uint32_t>self.rows[at].partition)
        return numbers


cdef inline PyObject *metadata_at(TopicCommits commits, Py_ssize_t at):
    return NULL if commits.metadata == NULL else commits.metadata[at]


cdef inline object text_or_empty(PyObject *text):
    return "" if text == NULL else <object>text


cdef object new_commit(TopicCommits commits, Py_ssize_t at):
    cdef object commit = klamm_new_tuple(<PyTypeObject *>PartitionCommit, 4)
    put(commit, 0, commits.rows[at].partition)
    put(commit, 1, commits.rows[at].offset)
    put(commit, 2, commits.rows[at].leader_epoch)
    put(commit, 3, text_or_empty(metadata_at(commits, at)))
    PyObject_GC_UnTrack(commit)  # text and numbers: nothing for the collector
    return commit


cdef object stored(klamm_entry *entry):
    """Its offset in the log, and what was committed."""
    cdef object committed = klamm_new_tuple(<PyTypeObject *>OffsetCommitValue, 6)
    put(committed, 0, entry.offset)
    put(committed, 1, entry.leader_epoch)
    put(committed, 2, text_or_empty(entry.metadata))
    put(committed, 3, entry.commit_ms)
    put(committed, 4, entry.expire_ms)
    put(committed, 5, <object>entry.topic_id)
    PyObject_GC_UnTrack(committed)  # text, bytes and numbers: nothing for the collector
    cdef tuple pair = (entry.log_offset, committed)
    PyObject_GC_UnTrack(pair)
    return pair


cdef inline klamm_entry *found(klamm_table *table, int64_t partition):
    """A partition's entry, or NULL; also for a number that no partition has."""
    return NULL if partition != <int32_t>partition else klamm_find(table, <int32_t>partition, 0)


@cython.final
cdef class Replaced:
    """The values of partitions before a commit; other partitions are absent."""

    cdef klamm_table table

    def __dealloc__(self):
        klamm_clear(&self.table)

    def __contains__(self, int64_t partition):
        return found(&self.table, partition) != NULL

    def get(self, int64_t partition):
        """The value of the partition; None when it had none, or is absent."""
        cdef klamm_entry *entry = found(&self.table, partition)
        return None if entry == NULL or entry.topic_id == NULL else stored(entry)


@cython.final
cdef class OffsetTable:
    """The offsets of one topic that one group has committed, by partition."""

    cdef klamm_table table

    def __dealloc__(self):
        klamm_clear(&self.table)

    def __sizeof__(self):
        cdef size_t entries = self.table.capacity * sizeof(klamm_entry)
        return object.__sizeof__(self) + entries + self.table.slots * sizeof(uint32_t)

    def __len__(self):
        return self.table.count

    def __contains__(self, int64_t partition):
        return found(&self.table, partition) != NULL

    def __eq__(self, other):
        if not isinstance(other, OffsetTable):
            return NotImplemented
        return same_tables(&self.table, &(<OffsetTable>other).table)

    def partitions(self):
        """In ascending order."""
        cdef uint32_t at
        cdef list partitions = [self.table.entries[at].partition for at in range(self.table.count)]
        partitions.sort()
        return partitions

    def items(self):
        """By partition, in ascending order."""
        cdef uint32_t at
        cdef list items = [
            (self.table.entries[at].partition, stored(&self.table.entries[at])) for at in range(self.table.count)
        ]
        items.sort()
        return items

    def partitions_of_other_topics(self, bytes topic_id not None):
        """Those whose offset was committed for a topic of another id; in ascending order."""
        cdef uint32_t at
        cdef object other
        cdef list partitions = []
        for at in range(self.table.count):
            other = <object>self.table.entries[at].topic_id
            if other is not topic_id and other != topic_id and other != ZERO_ID:
                partitions.append(self.table.entries[at].partition)
        partitions.sort()
        return partitions

    def get(self, int64_t partition):
        cdef klamm_entry *entry = found(&self.table, partition)
        return None if entry == NULL else stored(entry)

    def put(self, int32_t partition, int64_t log_offset, committed):
        # Everything is read before anything is changed.
        cdef int64_t offset, commit_ms, expire_ms
        cdef int32_t leader_epoch
        cdef str metadata
        cdef bytes topic_id
        offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
        if metadata is None or topic_id is None:
            raise TypeError("metadata and a topic id are text and bytes, never None")
        store_entry(
            &self.table, 0, partition, log_offset, offset, leader_epoch, commit_ms, expire_ms,
            <PyObject *>metadata if metadata else NULL, topic_id,
        )

    def remove(self, int64_t partition):
        """Whether there was something to remove."""
        return partition == <int32_t>partition and klamm_remove(&self.table, <int32_t>partition) != 0

    def replaced_by(self, TopicCommits commits not None):
        """What these commits will replace."""
        cdef Replaced replaced = Replaced.__new__(Replaced)
        cdef klamm_entry *before
        cdef klamm_entry *entry
        cdef Py_ssize_t at
        cdef uint32_t guess = 0
        cdef int32_t partition
        make_room(&replaced.table, commits.count)
        for at in range(commits.count):
            partition = commits.rows[at].partition
            before = klamm_find(&self.table, partition, guess)
            entry = klamm_entry_of(&replaced.table, partition, replaced.table.count)
            if entry == NULL:
                raise MemoryError()
            if before != NULL:
                guess = before - self.table.entries + 1
                klamm_set(
                    entry, before.log_offset, before.offset, before.leader_epoch, before.commit_ms,
                    before.expire_ms, before.metadata, before.topic_id,
                )
        return replaced

    def store(
        self, TopicCommits commits not None, int64_t log_offset, int64_t commit_ms, int64_t expire_ms,
        bytes topic_id not None,
    ):
        """Store commits whose records are consecutive in the log, from this offset on."""
        cdef klamm_commit *row
        cdef Py_ssize_t at
        cdef uint32_t guess = 0
        if log_offset > INT64_MAX - commits.count:
            raise OverflowError(f"{commits.count} records from log offset {log_offset} exceed 64 bits")
        if self.table.count == 0:
            make_room(&self.table, commits.count)
        for at in range(commits.count):
            row = commits.rows + at
            guess = store_entry(
                &self.table, guess, row.partition, log_offset + at, row.offset, row.leader_epoch, commit_ms,
                expire_ms, metadata_at(commits, at), topic_id,
            )


cdef int make_room(klamm_table *table, Py_ssize_t count) except -1:
    if count > INT32_MAX // 2:  # what the index of a table can count
        raise OverflowError(f"{count} partitions of one topic")
    if count > table.capacity and klamm_resize(table, count):
        raise MemoryError()
    return 0


cdef inline uint32_t store_entry(
    klamm_table *table, uint32_t guess, int32_t partition, int64_t log_offset, int64_t offset,
    int32_t leader_epoch, int64_t commit_ms, int64_t expire_ms, PyObject *metadata, bytes topic_id,
) except 0:
    """Store one partition; returns a guess of the next entry."""
    cdef klamm_entry *entry = klamm_entry_of(table, partition, guess)
    if entry == NULL:
        raise MemoryError()
    klamm_set(
        entry, log_offset, offset, leader_epoch, commit_ms, expire_ms, metadata, <PyObject *>topic_id
    )
    return entry - table.entries + 1


cdef bint same_tables(klamm_table *one, klamm_table *other) except -1:
    cdef klamm_entry *a
    cdef klamm_entry *b
    cdef uint32_t at
    if one.count != other.count:
        return False
    for at in range(one.count):
        a = one.entries + at
        b = klamm_find(other, a.partition, at)
        if b == NULL or a.log_offset != b.log_offset or a.offset != b.offset:
            return False
        if a.leader_epoch != b.leader_epoch or a.commit_ms != b.commit_ms or a.expire_ms != b.expire_ms:
            return False
        if <object>a.topic_id != <object>b.topic_id:
            return False
        if a.metadata != b.metadata and text_or_empty(a.metadata) != text_or_empty(b.metadata):
            return False
    return True

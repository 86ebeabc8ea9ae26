# A batch that grows record by record. Included by _core.pyx, after _region.pxi.

cdef class BatchBuilder:
    """Builds one batch. Records are encoded when added; offsets begin at 0, times are relative."""

    cdef Out out
    cdef int64_t *times_ms
    cdef Py_ssize_t times_capacity
    cdef Py_ssize_t limit_bytes
    cdef bint is_released
    cdef readonly Py_ssize_t record_count
    cdef readonly int64_t base_timestamp_ms
    cdef readonly int64_t max_timestamp_ms

    def __cinit__(self, Py_ssize_t limit_bytes):
        self.limit_bytes = limit_bytes
        self.base_timestamp_ms = -1
        self.max_timestamp_ms = -1

    def __dealloc__(self):
        free(self.out.data)
        free(self.times_ms)

    @property
    def size_bytes(self):
        """The size of the records, uncompressed."""
        return self.out.size

    def append(self, timestamp_ms, key, value, headers=()):
        """Add a record; returns its index, or -1 if the batch is full. The first record always fits."""
        cdef int64_t when_ms
        cdef Py_ssize_t index = self.record_count
        cdef Py_ssize_t room = self.limit_bytes - self.out.size if index else PY_SSIZE_T_MAX
        if self.is_released:
            return -1
        try:
            when_ms = timestamp_ms
        except OverflowError:
            raise ValueError(f"timestamp {timestamp_ms} has more than 64 bits") from None
        if index == 0:
            self.base_timestamp_ms = self.max_timestamp_ms = when_ms
        if index == self.times_capacity:
            self.more_times()
        if not put_fields(
            &self.out,
            room,
            klamm_wrapping_difference(when_ms, self.base_timestamp_ms),
            index,
            as_bytes(key),
            as_bytes(value),
            headers,
        ):
            return -1
        self.times_ms[index] = when_ms
        if when_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = when_ms
        self.record_count = index + 1
        return index

    cdef int more_times(self) except -1:
        cdef Py_ssize_t capacity = max(<Py_ssize_t>16, self.times_capacity * 2)
        cdef int64_t *moved = <int64_t *>realloc(self.times_ms, capacity * sizeof(int64_t))
        if moved == NULL:
            raise MemoryError()
        self.times_ms = moved
        self.times_capacity = capacity
        return 0

    def region(self):
        """The records so far, one after the other."""
        return PyByteArray_FromStringAndSize(<char *>self.out.data, self.out.size)

    def timestamp_of(self, Py_ssize_t index):
        """The timestamp of a record; also after `release`."""
        if not 0 <= index < self.record_count:
            raise IndexError(f"record {index} of {self.record_count}")
        return self.times_ms[index]

    def release(self):
        """Release the bytes; nothing can be added any more."""
        self.is_released = True
        free(self.out.data)
        self.out.data = NULL
        self.out.size = self.out.capacity = 0

# A batch that grows record by record. Included by _core.pyx, after _region.pxi.

cdef class BatchBuilder:
    """Builds one batch. Records are encoded when added; offsets begin at 0, times are relative."""

    cdef Out out
    cdef int64_t *times_ms
    cdef Py_ssize_t times_capacity
    cdef Py_ssize_t limit_bytes
    cdef readonly bint is_closed
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
        """Add a record; returns its index, or -1 if the batch is full or closed. The first always fits."""
        return self.add(timestamp_ms, key, value, headers)

    cdef Py_ssize_t add(self, object timestamp_ms, object key, object value, object headers) except -2:
        cdef int64_t when_ms
        cdef Py_ssize_t index, room
        cdef list named = named_headers(headers)
        key = as_bytes(key)
        value = as_bytes(value)
        try:
            when_ms = timestamp_ms
        except OverflowError:
            raise ValueError(f"timestamp {timestamp_ms} has more than 64 bits") from None
        # From here on no Python code runs: another thread sees the batch before this record, or with it.
        if self.is_closed:
            return -1
        index = self.record_count
        room = self.limit_bytes - self.out.size if index else PY_SSIZE_T_MAX
        if index == 0:
            self.base_timestamp_ms = self.max_timestamp_ms = when_ms
        if index == self.times_capacity:
            self.more_times()
        if not put_fields(
            &self.out,
            room,
            klamm_wrapping_difference(when_ms, self.base_timestamp_ms),
            index,
            key,
            value,
            named,
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

    def close(self):
        """Accept no more records."""
        self.is_closed = True

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
        self.is_closed = True
        free(self.out.data)
        self.out.data = NULL
        self.out.size = self.out.capacity = 0


cdef class Place:
    """Where a record is: its batch, and its index there. A producer's futures are such places."""

    cdef readonly object _batch
    cdef readonly Py_ssize_t _index

    def __init__(self, batch, Py_ssize_t index):
        self._batch = batch
        self._index = index


@cython.final
cdef class OpenBatches:
    """The batches that take records, each under a name; a record that was added is answered with its place.

    `append` needs no lock: a builder adds a record in one step, and not once it is closed.
    """

    cdef dict batches  # name -> (builder, batch)
    cdef object kind

    def __init__(self, kind):
        if not issubclass(kind, Place):
            raise TypeError(f"{kind} is not a kind of Place")
        self.batches = {}
        self.kind = kind

    def __setitem__(self, name, batch):
        cdef BatchBuilder builder = batch.builder
        self.batches[name] = (builder, batch)

    def get(self, name):
        """The batch of this name, or None."""
        found = self.batches.get(name)
        return None if found is None else (<tuple>found)[1]

    def pop(self, name):
        """Remove the batch of this name; it, or None."""
        found = self.batches.pop(name, None)
        return None if found is None else (<tuple>found)[1]

    def append(self, name, timestamp_ms, key, value):
        """Add a record without headers to the batch of this name; its place, or None if there is no room."""
        cdef PyObject *found = PyDict_GetItemWithError(self.batches, name)
        cdef Py_ssize_t index
        cdef Place place
        if found == NULL:
            return None
        entry = <tuple>found
        index = (<BatchBuilder>(<tuple>entry)[0]).add(timestamp_ms, key, value, ())
        if index < 0:
            return None
        place = <Place>klamm_new_object(<PyTypeObject *>self.kind, ())
        place._batch = (<tuple>entry)[1]
        place._index = index
        return place

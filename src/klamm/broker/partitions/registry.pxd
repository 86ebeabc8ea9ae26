cimport cython


cdef class Partition:
    cdef public object _log
    cdef public PartitionRegistry _registry
    cdef public object _told
    cdef public object counters
    cdef public object error_code
    cdef public long long flush_failures
    cdef public object held
    cdef public bint is_journaled
    cdef public bint is_sealed
    cdef public object leader_epoch
    cdef public object name
    cdef public object partition
    cdef public object topic
    cdef public object topic_id
    cdef public dict watchers

    cpdef changed(self)
    cpdef release(self)


cdef class PartitionRegistry:
    cdef public object logs
    cdef public object _loop
    cdef public dict _topics
    cdef public list opening_watchers
    cdef public dict _changed
    cdef public dict flushed_by_time
    cdef public object tallies

    @cython.locals(partitions=dict)
    cpdef Partition get(self, object topic, object partition)
    cpdef wake_soon(self, Partition partition)
    @cython.locals(partition=Partition)
    cpdef wake(self)

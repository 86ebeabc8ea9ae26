cimport cython

from klamm.coordinator.runtime.coordinator cimport ShardedCoordinator
from klamm.coordinator.runtime.outcome cimport Context
from klamm.coordinator.runtime.shard cimport Shard
from klamm.protocol.messages.offset_commit cimport OffsetCommitRequest


cdef class GroupCoordinator(ShardedCoordinator):
    cdef public object _config
    cdef public object _make_machine
    cdef public object _topics
    cdef public object _commit_answers
    cdef public object written

    @cython.locals(shard=Shard)
    cpdef _member_request(self, object request, Context context)
    @cython.locals(shard=Shard, screened=OffsetCommitRequest)
    cpdef _commit(self, OffsetCommitRequest request, Context context)

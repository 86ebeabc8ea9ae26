from klamm.coordinator.runtime.outcome cimport Context


cdef class ShardedCoordinator:
    cdef public object _send
    cdef public object _error_response
    cdef public object shards
    cdef public object partition_for
    cdef public dict _handlers

    cpdef handle(self, object request, Context context)
    cpdef _to_shard(self, object key, object request, Context context)
    cpdef _refuse(self, object request, object error_code, Context context)

from klamm.coordinator.runtime.coordinator cimport ShardedCoordinator
from klamm.coordinator.runtime.outcome cimport Context


cdef class TransactionCoordinator(ShardedCoordinator):
    cdef public object _config
    cdef public object _topics

    cpdef add(self, object request, Context context)

cimport cython

from klamm.broker.coordinators.host cimport CoordinatorHost
from klamm.broker.net.context cimport HeldResponse
from klamm.broker.partitions.flusher cimport Flusher
from klamm.broker.partitions.registry cimport Partition, PartitionRegistry
from klamm.coordinator.runtime.shard cimport Shard


cdef class _Verified(HeldResponse):
    cpdef keep(self, object response)


cdef class Transactions(CoordinatorHost):
    cdef public object _services
    cdef public set _tasks
    cdef public object topic
    cdef public object counts

    cpdef bint act_early(self, object shard, object action)
    @cython.locals(partitions=PartitionRegistry, flusher=Flusher, decided=Partition, partition=Partition, found=list)
    cpdef object _ordered(self, object transactional_id, object followers)
    cpdef _write_markers(self, object shard, object order, Partition after=*)

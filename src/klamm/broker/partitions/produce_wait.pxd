cimport cython

from klamm.broker.net.context cimport HeldResponse
from klamm.broker.partitions.deadlines cimport Deadlines
from klamm.broker.partitions.registry cimport Partition
from klamm.protocol.messages.produce cimport PartitionProduceResponse, ProduceResponse


cpdef refuse(PartitionProduceResponse line, object error_code)
@cython.locals(line=PartitionProduceResponse)
cpdef name_leaders(object image, object listener, ProduceResponse response, object lines)


cdef class SingleWait(HeldResponse):
    cdef public object _context
    cdef public Partition _partition
    cdef public ProduceResponse _produced
    cdef public object _services
    cdef public long long flush_failures
    cdef public long long last_offset
    cdef public PartitionProduceResponse line
    cdef public object timeout_ms


cdef class ProduceWait(HeldResponse):
    cdef public object _context
    cdef public object _lines
    cdef public ProduceResponse _produced
    cdef public object _services
    cdef public dict _waiting
    cdef public object timeout_ms

    @cython.locals(batch=HeldBatch)
    cpdef hold(self, Partition partition, PartitionProduceResponse line, long long last_offset)
    cpdef settle(self, HeldBatch batch, object error_code)
    cpdef _end(self)


cdef class HeldBatch:
    cdef public ProduceWait _wait
    cdef public long long flush_failures
    cdef public long long last_offset
    cdef public PartitionProduceResponse line

    cpdef release(self, object error_code)

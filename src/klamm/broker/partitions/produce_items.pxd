cimport cython

from klamm.broker.partitions.registry cimport Partition, PartitionRegistry
from klamm.protocol.messages.produce cimport (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)


cdef class Item:
    cdef public object batch
    cdef public object checked_for
    cdef public object guard
    cdef public object header
    cdef public bint is_corrupt
    cdef public bint is_too_long
    cdef public bint is_unknown
    cdef public Partition partition
    cdef public PartitionProduceResponse response
    cdef public object topic

    cpdef refuse(self, object error_code, object message=*)


cpdef bint is_of_transaction(object header)
@cython.locals(
    item=Item, first=Item, topic=TopicProduceData, data=PartitionProduceData, by_topic=dict, items=dict,
    responses=list, repeated=list, answers=list, answer=PartitionProduceResponse,
    partitions=PartitionRegistry, partition=Partition, place=tuple,
)
cpdef tuple items_of(object services, ProduceRequest request)
@cython.locals(partition=Partition)
cpdef bint _is_plain(object services, Item item, object records, bint allows_zstd, object timestamp_ms)
cpdef _read_batch(Item item, PartitionProduceData data, bint allows_zstd)
@cython.locals(item=Item, first=Item, flagged=list)
cpdef check_request(ProduceRequest request, object items)
cpdef bint _has_unknown_codec(Item item)
@cython.locals(item=Item)
cpdef check_acks(ProduceRequest request, object items)

cimport cython

from klamm.broker.partitions.flusher cimport Flusher
from klamm.broker.partitions.produce_items cimport Item
from klamm.broker.partitions.produce_wait cimport ProduceWait
from klamm.broker.partitions.registry cimport Partition
from klamm.protocol.messages.produce cimport (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)


@cython.locals(topic=TopicProduceData, response=ProduceResponse, items=list, unverified=list)
cpdef object handle(object services, object context, ProduceRequest request)
@cython.locals(item=Item, partition=Partition, is_checked=bint)
cpdef list _unverified(object services, ProduceRequest request, list items)
@cython.locals(item=Item, adds=bint, beginning=_Beginning)
cpdef object _verify_and_append(
    object services, object context, ProduceRequest request, ProduceResponse response, list items,
    list unverified,
)


cdef class _Beginning:
    cdef public list begun
    cdef public object context
    cdef public list items
    cdef public list names
    cdef public object producer_id
    cdef public ProduceRequest request
    cdef public ProduceResponse response
    cdef public object services


@cython.locals(
    item=Item, wait=ProduceWait, line=PartitionProduceResponse, partition=Partition,
    last_offset=cython.longlong, acks=cython.long,
)
cpdef object _append_all(
    object services, object context, ProduceRequest request, ProduceResponse response, object items
)
@cython.locals(
    partition=Partition, line=PartitionProduceResponse, response=ProduceResponse, is_transactional=bint,
    acks=cython.long,
)
cpdef object _handle_one(
    object services, object context, ProduceRequest request, TopicProduceData topic,
    PartitionProduceData data, object guard=*
)
cpdef bint _waits(long acks, Partition partition, long long last_offset)
cpdef bint _is_written(object log)
@cython.locals(answer=PartitionProduceResponse, partition=Partition, flusher=Flusher)
cpdef long long _append(
    object services, object context, Item item, object now_ms, object timestamp_ms, bint write_later
) except? -2

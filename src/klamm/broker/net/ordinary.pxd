cimport cython

from klamm.broker.net.produce_elements cimport read_batches, write_produced
from klamm.protocol.messages.end_txn cimport EndTxnRequest, EndTxnResponse
from klamm.protocol.messages.produce cimport (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)


cdef class ProduceDecoder:
    cdef public object _decode

    cpdef decode(self, bytes frame, Py_ssize_t position)


@cython.locals(
    end=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t, count=Py_ssize_t, partition_count=Py_ssize_t, topics=list,
    topic_id=bytes,
)
cdef ProduceRequest _read_produce(bytes frame, Py_ssize_t position)


cdef class ProduceEncoder:
    cdef public object _encode

    @cython.locals(topic=TopicProduceResponse, parts=list)
    cpdef list encode(self, ProduceResponse response)


@cython.locals(each=PartitionProduceResponse)
cdef bint _are_plain(object lines) except -1


cdef class EndTxnDecoder:
    cdef public object _decode
    cdef public object _bumps_epoch
    cdef public object _knows_producer_fenced

    @cython.locals(end=Py_ssize_t, size=Py_ssize_t, start=Py_ssize_t, stop=Py_ssize_t, raw=bytes)
    cpdef decode(self, bytes frame, Py_ssize_t position)


cdef class EndTxnEncoder:
    cpdef list encode(self, EndTxnResponse response)

from klamm.protocol.message cimport Message, Request


cdef class EndTxnRequest(Request):
    cdef public object transactional_id
    cdef public object producer_id
    cdef public object producer_epoch
    cdef public object committed
    cdef public object knows_producer_fenced
    cdef public object bumps_epoch


cdef class EndTxnResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code
    cdef public object producer_id
    cdef public object producer_epoch

from klamm.protocol.message cimport Message, Request


cdef class AddOffsetsToTxnRequest(Request):
    cdef public object transactional_id
    cdef public object producer_id
    cdef public object producer_epoch
    cdef public object group_id
    cdef public object knows_producer_fenced


cdef class AddOffsetsToTxnResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code

from klamm.protocol.message cimport Message, Request


cdef class HeartbeatRequest(Request):
    cdef public object group_id
    cdef public object generation_id
    cdef public object member_id
    cdef public object group_instance_id


cdef class HeartbeatResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code

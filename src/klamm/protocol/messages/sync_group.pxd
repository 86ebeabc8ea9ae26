from klamm.protocol.message cimport Message, Request


cdef class SyncGroupRequestAssignment(Message):
    cdef public object member_id
    cdef public object assignment


cdef class SyncGroupRequest(Request):
    cdef public object group_id
    cdef public object generation_id
    cdef public object member_id
    cdef public object group_instance_id
    cdef public object protocol_type
    cdef public object protocol_name
    cdef public object assignments
    cdef public object must_name_protocol


cdef class SyncGroupResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code
    cdef public object protocol_type
    cdef public object protocol_name
    cdef public object assignment

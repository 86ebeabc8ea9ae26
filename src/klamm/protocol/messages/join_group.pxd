from klamm.protocol.message cimport Message, Request


cdef class JoinGroupRequestProtocol(Message):
    cdef public object name
    cdef public object metadata


cdef class JoinGroupRequest(Request):
    cdef public object group_id
    cdef public object session_timeout_ms
    cdef public object rebalance_timeout_ms
    cdef public object member_id
    cdef public object group_instance_id
    cdef public object protocol_type
    cdef public object protocols
    cdef public object reason
    cdef public object must_know_member_id
    cdef public object knows_skip_assignment
    cdef public object knows_protocol_type
    cdef public object has_rebalance_timeout


cdef class JoinGroupResponseMember(Message):
    cdef public object member_id
    cdef public object group_instance_id
    cdef public object metadata


cdef class JoinGroupResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code
    cdef public object generation_id
    cdef public object protocol_type
    cdef public object protocol_name
    cdef public object leader
    cdef public object skip_assignment
    cdef public object member_id
    cdef public object members

from klamm.protocol.message cimport Message, Request


cdef class TxnOffsetCommitRequestPartition(Message):
    cdef public object partition_index
    cdef public object committed_offset
    cdef public object committed_leader_epoch
    cdef public object committed_metadata


cdef class TxnOffsetCommitRequestTopic(Message):
    cdef public object name
    cdef public object partitions


cdef class TxnOffsetCommitRequest(Request):
    cdef public object transactional_id
    cdef public object group_id
    cdef public object producer_id
    cdef public object producer_epoch
    cdef public object generation_id
    cdef public object member_id
    cdef public object group_instance_id
    cdef public object topics
    cdef public object knows_member
    cdef public object knows_load_in_progress
    cdef public object knows_transaction_abortable
    cdef public object adds_offsets


cdef class TxnOffsetCommitResponsePartition(Message):
    cdef public object partition_index
    cdef public object error_code


cdef class TxnOffsetCommitResponseTopic(Message):
    cdef public object name
    cdef public object partitions


cdef class TxnOffsetCommitResponse(Message):
    cdef public object throttle_time_ms
    cdef public object topics

from klamm.protocol.message cimport Message, Request


cdef class OffsetCommitRequestPartition(Message):
    cdef public object partition_index
    cdef public object committed_offset
    cdef public object committed_leader_epoch
    cdef public object committed_metadata


cdef class OffsetCommitRequestTopic(Message):
    cdef public object topic_id
    cdef public object name
    cdef public object partitions


cdef class OffsetCommitRequest(Request):
    cdef public object group_id
    cdef public object generation_id_or_member_epoch
    cdef public object member_id
    cdef public object group_instance_id
    cdef public object retention_time_ms
    cdef public object topics
    cdef public object knows_group_id_not_found
    cdef public object uses_topic_ids


cdef class OffsetCommitResponsePartition(Message):
    cdef public object partition_index
    cdef public object error_code


cdef class OffsetCommitResponseTopic(Message):
    cdef public object topic_id
    cdef public object name
    cdef public object partitions


cdef class OffsetCommitResponse(Message):
    cdef public object throttle_time_ms
    cdef public object topics

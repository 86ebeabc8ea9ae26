from klamm.protocol.message cimport Message, Request


cdef class PartitionProduceData(Message):
    cdef public object index
    cdef public object records


cdef class TopicProduceData(Message):
    cdef public object topic_id
    cdef public object name
    cdef public object partition_data


cdef class ProduceRequest(Request):
    cdef public object transactional_id
    cdef public object acks
    cdef public object timeout_ms
    cdef public object topic_data
    cdef public object allows_zstd
    cdef public object uses_topic_ids
    cdef public object knows_transaction_abortable
    cdef public object adds_partitions


cdef class BatchIndexAndErrorMessage(Message):
    cdef public object batch_index
    cdef public object batch_index_error_message


cdef class LeaderIdAndEpoch(Message):
    cdef public object leader_id
    cdef public object leader_epoch


cdef class PartitionProduceResponse(Message):
    cdef public object index
    cdef public object error_code
    cdef public object base_offset
    cdef public object log_append_time_ms
    cdef public object log_start_offset
    cdef public object record_errors
    cdef public object error_message
    cdef public object current_leader


cdef class TopicProduceResponse(Message):
    cdef public object topic_id
    cdef public object name
    cdef public object partition_responses


cdef class NodeEndpoint(Message):
    cdef public object node_id
    cdef public object host
    cdef public object port
    cdef public object rack


cdef class ProduceResponse(Message):
    cdef public object responses
    cdef public object throttle_time_ms
    cdef public object node_endpoints

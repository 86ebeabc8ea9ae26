from klamm.protocol.message cimport Message, Request


cdef class AddPartitionsToTxnTopic(Message):
    cdef public object name
    cdef public object partitions


cdef class AddPartitionsToTxnTransaction(Message):
    cdef public object transactional_id
    cdef public object producer_id
    cdef public object producer_epoch
    cdef public object verify_only
    cdef public object topics


cdef class AddPartitionsToTxnRequest(Request):
    cdef public object transactions
    cdef public object v3_and_below_transactional_id
    cdef public object v3_and_below_producer_id
    cdef public object v3_and_below_producer_epoch
    cdef public object v3_and_below_topics
    cdef public object is_batched
    cdef public object knows_producer_fenced


cdef class AddPartitionsToTxnPartitionResult(Message):
    cdef public object partition_index
    cdef public object partition_error_code


cdef class AddPartitionsToTxnTopicResult(Message):
    cdef public object name
    cdef public object results_by_partition


cdef class AddPartitionsToTxnResult(Message):
    cdef public object transactional_id
    cdef public object topic_results


cdef class AddPartitionsToTxnResponse(Message):
    cdef public object throttle_time_ms
    cdef public object error_code
    cdef public object results_by_transaction
    cdef public object results_by_topic_v3_and_below

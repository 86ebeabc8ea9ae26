cimport cython


cpdef tuple encode_record(object record, bint is_flexible, dict known=*)
cpdef bytes encode_key(str transactional_id)
@cython.locals(has_next=bint)
cpdef bytes encode_value(object stored, bint is_flexible, dict known=*)
@cython.locals(topics=dict, numbers=list)
cpdef dict _by_topic(object partitions)
@cython.locals(numbers=list, parts=list, raw=bytes)
cpdef bytes _encode_compact_topics(dict topics)

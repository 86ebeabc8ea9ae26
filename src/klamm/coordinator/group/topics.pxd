cimport cython

from klamm.protocol.messages.offset_commit cimport OffsetCommitRequest, OffsetCommitRequestTopic


@cython.locals(topic=OffsetCommitRequestTopic, uses_topic_ids=bint)
cpdef tuple screen_commit(OffsetCommitRequest request, object directory)

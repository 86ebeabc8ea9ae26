cdef class CommitAnswers:
    cdef public dict _made

    cpdef object of(self, object topic_id, object topic, object commits)

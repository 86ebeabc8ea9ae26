cdef class Message:
    pass


cdef class Request(Message):
    pass

cimport cython

from klamm.protocol.messages.produce cimport PartitionProduceResponse


@cython.locals(end=Py_ssize_t, size=Py_ssize_t, stop=Py_ssize_t, following=Py_ssize_t, tags=Py_ssize_t, partitions=list)
cpdef tuple read_batches(bint is_flexible, bytes buffer, Py_ssize_t position, Py_ssize_t count)
@cython.locals(value=Py_ssize_t, is_size=bint)
cpdef Py_ssize_t _skip_tags(bytes buffer, Py_ssize_t position, Py_ssize_t count) except -1
@cython.locals(each=PartitionProduceResponse, parts=list)
cpdef bytes write_produced(object encode, object responses)

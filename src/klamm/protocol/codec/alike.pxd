cimport cython

from klamm.protocol.messages.join_group cimport JoinGroupResponse
from klamm.protocol.messages.sync_group cimport SyncGroupResponse


cdef class AlikeDecoder:
    cdef public object _decode
    cdef public Py_ssize_t _fixed_bytes
    cdef public tuple _known
    cdef public object _message
    cdef public list _names
    cdef public Py_ssize_t _place

    @cython.locals(
        last=tuple, start=bytes, rest=bytes, raw=bytes, before=tuple, after=tuple,
        member_at=Py_ssize_t, end=Py_ssize_t,
    )
    cpdef decode(self, bytes frame, Py_ssize_t position)


cdef class AlikeJoinEncoder:
    cdef public object _encode
    cdef public tuple _known

    @cython.locals(last=tuple, start=bytes, raw=bytes, size_bytes=Py_ssize_t)
    cpdef list encode(self, JoinGroupResponse response)


cdef bint _are_joins_alike(JoinGroupResponse known, JoinGroupResponse response)


cdef class AlikeSyncEncoder:
    cdef public object _encode
    cdef public tuple _known

    @cython.locals(last=tuple, start=bytes, size_bytes=Py_ssize_t)
    cpdef list encode(self, SyncGroupResponse response)


cdef bint _are_syncs_alike(SyncGroupResponse known, SyncGroupResponse response)

cimport cython


@cython.locals(parts=list, length=cython.longlong)
cpdef bytes encode_frame(object number, object sequence, object entries)

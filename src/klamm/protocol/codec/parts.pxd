cimport cython


@cython.locals(length=Py_ssize_t, end=Py_ssize_t)
cpdef tuple compact_string(bytes buffer, Py_ssize_t position, object name)
cpdef tuple compact_string_or_null(bytes buffer, Py_ssize_t position, object name)

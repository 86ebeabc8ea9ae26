# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled core of the records layer. `_pure` is the same in Python, and its reference in tests.

Everything it reads may come off a wire: pointers move only through `_wire.h`, which knows where the
buffer ends. The interpreter's lock is let go where nothing but plain buffers is touched for long.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, Py_buffer, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from klamm.protocol.errors import DecodeError
from klamm.records import arrow as _arrow
from klamm.records import layout as _layout


cdef extern from "Python.h":
    object PyTuple_New(Py_ssize_t size)
    void PyTuple_SET_ITEM(object of_tuple, Py_ssize_t at, object item)
    object PyUnicode_DecodeUTF8(const char *data, Py_ssize_t size, const char *errors)
    void PyObject_GC_UnTrack(object tracked)
    const Py_ssize_t PY_SSIZE_T_MAX

cdef extern from *:
    """
    static inline PyObject *klamm_new_tuple(PyTypeObject *type, Py_ssize_t size) {
        return type->tp_alloc(type, size);
    }
    static inline PyObject *klamm_new_object(PyTypeObject *type, PyObject *no_arguments) {
        return type->tp_new(type, no_arguments, NULL);
    }
    """
    object klamm_new_tuple(PyTypeObject *of_type, Py_ssize_t size)
    object klamm_new_object(PyTypeObject *of_type, object no_arguments)

cdef extern from "_crc32c.h":
    int klamm_crc_init()
    uint32_t klamm_crc32c(uint32_t value, const uint8_t *data, size_t size) nogil
    uint32_t klamm_crc32c_portable(uint32_t value, const uint8_t *data, size_t size) nogil

cdef extern from "_wire.h":
    ctypedef struct klamm_record:
        int64_t timestamp_delta
        int32_t offset_delta
        int32_t key_size
        int32_t value_size
        int32_t header_count
        const uint8_t *key
        const uint8_t *value
        const uint8_t *headers

    uint32_t klamm_u32(const uint8_t *at) nogil
    int32_t klamm_i32(const uint8_t *at) nogil
    int16_t klamm_i16(const uint8_t *at) nogil
    int64_t klamm_i64(const uint8_t *at) nogil
    int64_t klamm_wrapping_sum(int64_t a, int64_t b) nogil
    int64_t klamm_wrapping_difference(int64_t a, int64_t b) nogil
    const uint8_t *klamm_field(
        const uint8_t *at, const uint8_t *end, const uint8_t **field, int32_t *size
    ) nogil
    int klamm_varint_size(int64_t value) nogil
    uint8_t *klamm_put_varint(uint8_t *out, int64_t value) nogil
    const uint8_t *klamm_parse_record(const uint8_t *at, const uint8_t *end, klamm_record *record) nogil
    uint32_t klamm_murmur2(const uint8_t *data, size_t size) nogil


HAS_CRC_INSTRUCTION = bool(klamm_crc_init())

cdef object Record = _layout.Record
cdef object BatchHeader = _layout.BatchHeader

# Below this, releasing the interpreter's lock costs more than it gains.
cdef Py_ssize_t UNLOCKED_BYTES = 64 * 1024
cdef Py_ssize_t MIN_RECORD_BYTES = _layout.MIN_RECORD_BYTES


def crc32c(data, uint32_t value=0):
    """CRC-32C (Castagnoli), unsigned; `value` continues an earlier checksum."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return checksum(value, <const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def crc32c_portable(data, uint32_t value=0):
    """The same by tables, as processors without the instruction do it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return klamm_crc32c_portable(value, <const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef uint32_t checksum(uint32_t value, const uint8_t *data, Py_ssize_t size):
    if size < UNLOCKED_BYTES:
        return klamm_crc32c(value, data, size)
    with nogil:
        value = klamm_crc32c(value, data, size)
    return value


def murmur2(key):
    """The hash Kafka's clients choose partitions with, signed like Java's int."""
    cdef Py_buffer view
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    try:
        return <int32_t>klamm_murmur2(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef inline void put(object of_tuple, Py_ssize_t at, object item):
    """Set an item of a new tuple; the tuple owns the item from now on."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(of_tuple, at, item)


cdef class View:
    """The bytes of a buffer, held while this object lives; None stands for no bytes."""

    cdef Py_buffer view
    cdef bint is_held
    cdef const uint8_t *data
    cdef Py_ssize_t size

    def __cinit__(self, buffer):
        self.is_held = False
        self.data = NULL
        self.size = 0
        if buffer is not None:
            PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
            self.is_held = True
            self.data = <const uint8_t *>self.view.buf
            self.size = self.view.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


include "_walk.pxi"
include "_region.pxi"
include "_builder.pxi"
include "_columns_in.pxi"
include "_columns_out.pxi"
include "_offsets.pxi"
include "_offset_table.pxi"
include "_offset_records.pxi"
include "_commit_wire.pxi"
include "_singles.pxi"

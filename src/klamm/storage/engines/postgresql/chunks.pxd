cimport cython

from klamm.storage.engines.postgresql.tail cimport TailBatch


@cython.locals(batch=TailBatch, size_bytes=Py_ssize_t, chunks=list, group=list)
cpdef object chunks_of(object partition_id, object leader_epoch, object batches, Py_ssize_t limit_bytes=*)
@cython.locals(first=TailBatch, last=TailBatch, batch=TailBatch, max_timestamp_ms=cython.longlong)
cdef object _chunk(object partition_id, object leader_epoch, object group)

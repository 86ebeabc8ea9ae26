cimport cython

from klamm.storage.engines.segments.sync cimport SegmentSyncTicket


cdef class JournalFile:
    cdef public object _due
    cdef public long long allocated_bytes
    cdef public long long end
    cdef public object handle
    cdef public dict logs
    cdef public object number
    cdef public object path
    cdef public object slot
    cdef public long long written


cdef class JournalRound:
    cdef public object _files
    cdef public object _handle
    cdef public JournalFile file
    cdef public object sequence
    cdef public list tickets


cdef class Journal:
    cdef public object _files
    cdef public object _log_directory
    cdef public object directory
    cdef public object _node_id
    cdef public long long _file_bytes
    cdef public long long _round_bytes
    cdef public Py_ssize_t _max_logs
    cdef public object _left
    cdef public object _number
    cdef public object _sequence
    cdef public object _full
    cdef public set _old
    cdef public object _free
    cdef public JournalFile _active
    cdef public JournalRound _round
    cdef public list _cuts
    cdef public bint _has_tail_to_cut
    cdef public bint _ends_file
    cdef public bint _has_directory
    cdef public object leaves_out

    @cython.locals(ticket=SegmentSyncTicket, file=JournalFile, chosen=list)
    cpdef JournalRound start_round(self, object tickets, object after=*)
    @cython.locals(ticket=SegmentSyncTicket, size_bytes=cython.longlong, chosen=list, others=list)
    cpdef list _chosen(self, object tickets)
    @cython.locals(file=JournalFile, ticket=SegmentSyncTicket)
    cpdef JournalFile _with_room(self, object tickets)
    @cython.locals(position=cython.longlong, end=cython.longlong, written=cython.longlong)
    cpdef _write(self, JournalFile file, bytes frame)
    @cython.locals(ticket=SegmentSyncTicket)
    cpdef write_segments(self, JournalRound started)
    @cython.locals(finished=JournalRound, file=JournalFile, ticket=SegmentSyncTicket)
    cpdef finish_round(self)


@cython.locals(ticket=SegmentSyncTicket, entries=list)
cpdef list _entries_of(list tickets)

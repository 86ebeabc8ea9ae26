cimport cython

from klamm.broker.net.dispatch cimport Endpoint
from klamm.broker.net.sender cimport ResponseSender
from klamm.protocol.framing cimport FrameReader
from klamm.protocol.headers cimport RequestHeaders


cdef class Connection:
    cdef public object _broken
    cdef public object _context
    cdef public object _dispatcher
    cdef public object _guard
    cdef public bint _has_turn
    cdef public RequestHeaders _headers
    cdef public object _idle
    cdef public object _intake
    cdef public bint _is_pumping
    cdef public object _loop
    cdef public object _memory
    cdef public object _mute
    cdef public object _now_ms
    cdef public object _on_lost
    cdef public object _on_made
    cdef public object _outbox
    cdef public object _overlapping
    cdef public object _parked
    cdef public FrameReader _reader
    cdef public object _refusals
    cdef public ResponseSender _sender
    cdef public object _services
    cdef public object _state
    cdef public object _transport
    cdef public object _unanswered
    cdef public object _undecided
    cdef public object active_at_ms
    cdef public object client_ip
    cdef public object find_endpoint
    cdef public object peer

    @cython.locals(is_usual=bint)
    cpdef data_received(self, bytes data)
    cpdef _take_in(self, bytes data)
    @cython.locals(sender=ResponseSender)
    cpdef _pump(self)
    @cython.locals(endpoint=Endpoint)
    cpdef _decide(self, bytes frame)
    cpdef turn_soon(self)
    @cython.locals(endpoint=Endpoint, is_plain=bint)
    cpdef _answer(self)
    cpdef _put(self, Endpoint endpoint, object correlation_id, object response)

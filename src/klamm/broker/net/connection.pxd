cimport cython

from klamm.broker.net.context cimport HeldResponse
from klamm.broker.net.dispatch cimport Endpoint
from klamm.broker.net.memory cimport RequestMemory, Share
from klamm.broker.net.outbox cimport Outbox
from klamm.broker.net.sender cimport Sender
from klamm.protocol.framing cimport FrameReader
from klamm.protocol.headers cimport RequestHeaders


cdef class Connection:
    cdef public object _broken
    cdef public object _context
    cdef public object _dispatcher
    cdef public object _find_endpoint
    cdef public bint _has_turn
    cdef public RequestHeaders _headers
    cdef public object _idle
    cdef public bint _is_lost
    cdef public bint _is_pumping
    cdef public object _loop
    cdef public RequestMemory _memory
    cdef public object _now_ms
    cdef public object _on_lost
    cdef public object _on_made
    cdef public Outbox _outbox
    cdef public object _overlapping
    cdef public HeldResponse _parked
    cdef public FrameReader _reader
    cdef public bint _reading_is_paused
    cdef public object _refusals
    cdef public Sender _sender
    cdef public object _services
    cdef public Share _share
    cdef public bint _takes_no_more
    cdef public object _transport
    cdef public object _unanswered
    cdef public object _undecided
    cdef public object active_at_ms
    cdef public object client_ip
    cdef public object peer

    @cython.locals(memory=RequestMemory, is_usual=bint)
    cpdef data_received(self, bytes data)
    cpdef _take_in(self, bytes data)
    @cython.locals(sender=Sender)
    cpdef _pump(self)
    cpdef bint _may_decide(self)
    cpdef bint _must_wait(self, bytes frame)
    @cython.locals(endpoint=Endpoint, held=HeldResponse)
    cpdef _decide(self, bytes frame)
    cpdef turn_soon(self)
    @cython.locals(is_usual=bint)
    cpdef take_turn(self)
    @cython.locals(held=HeldResponse, endpoint=Endpoint, memory=RequestMemory, is_plain=bint)
    cpdef _answer(self)
    cpdef _put(self, Endpoint endpoint, object correlation_id, object response)

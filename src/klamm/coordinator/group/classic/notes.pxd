cimport cython

from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member
from klamm.coordinator.runtime.outcome cimport Context
from klamm.protocol.messages.join_group cimport JoinGroupRequest


cdef class IdHandedOut:
    cdef public object group_id
    cdef public Member member


cdef class MemberAdded:
    cdef public object group_id
    cdef public Member member
    cdef public JoinGroupRequest request
    cdef public Context context


cdef class MemberRejoined:
    cdef public object group_id
    cdef public Member member
    cdef public JoinGroupRequest request
    cdef public object token


cdef class SyncParked:
    cdef public object group_id
    cdef public Member member
    cdef public object token


cpdef _park_sync(ClassicMembership live, SyncParked note)
cpdef _hand_out(ClassicMembership live, IdHandedOut note)
cpdef _sync(ClassicMembership live, object note)

@cython.locals(member=Member)
cpdef _assign(ClassicMembership live, object note)

@cython.locals(member=Member, request=JoinGroupRequest, context=Context)
cpdef _add(ClassicMembership live, MemberAdded note)

@cython.locals(member=Member, request=JoinGroupRequest)
cpdef _rejoin(ClassicMembership live, MemberRejoined note)

@cython.locals(member=Member)
cpdef _start_generation(ClassicMembership live, object note)

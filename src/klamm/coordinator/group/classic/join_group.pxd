cimport cython

from klamm.coordinator.group.classic.draft cimport Draft
from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.protocol.messages.join_group cimport JoinGroupRequest


@cython.locals(group=Group, live=ClassicMembership, draft=Draft, outcome=Outcome)
cpdef Outcome join_group(GroupState state, JoinGroupRequest request, Context context)
cdef object _join_error(ClassicMembership live, JoinGroupRequest request)
cdef bint _offers_a_common_protocol(ClassicMembership live, JoinGroupRequest request)

@cython.locals(member=Member)
cdef Outcome _hand_out_id(Group group, JoinGroupRequest request, Context context)

@cython.locals(member=Member, is_last=bint)
cdef Outcome _join_others(Group group, ClassicMembership live, JoinGroupRequest request, Context context)

@cython.locals(member=Member, context=Context)
cdef Outcome _add(Draft draft, ClassicMembership live, JoinGroupRequest request)

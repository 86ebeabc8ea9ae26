cimport cython

from klamm.coordinator.group.classic.draft cimport Draft
from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome


@cython.locals(member=Member, is_expected=bint, draft=Draft)
cpdef Outcome complete_join(GroupState state, ClassicMembership live, Context context, tuple replies=*)

cimport cython

from klamm.coordinator.group.classic.membership cimport ClassicMembership, Member


@cython.locals(member=Member)
cpdef bint has_room(ClassicMembership live, object member_id, object max_size)

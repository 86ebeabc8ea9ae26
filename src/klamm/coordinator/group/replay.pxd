cimport cython

from klamm.coordinator.group.state cimport Group, GroupState, StagedCommit


@cython.locals(count=cython.longlong)
cpdef object replay_all(GroupState state, object records, object offset, object written)

@cython.locals(group=Group, staged=list, first=StagedCommit, last=StagedCommit, durable_offset=cython.longlong)
cdef _store_block(GroupState state, object block, object offset)

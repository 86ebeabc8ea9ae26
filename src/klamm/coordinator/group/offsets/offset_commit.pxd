cimport cython

from klamm.coordinator.group.offsets.commit_answers cimport CommitAnswers
from klamm.coordinator.group.state cimport Group, GroupState
from klamm.coordinator.runtime.outcome cimport Context, Outcome
from klamm.protocol.messages.offset_commit cimport OffsetCommitRequest, OffsetCommitRequestTopic


@cython.locals(group=Group, outcome=Outcome, is_first=bint)
cpdef Outcome offset_commit(GroupState state, OffsetCommitRequest request, Context context)

cdef object _commit_error(Group group, OffsetCommitRequest request)

@cython.locals(topic=OffsetCommitRequestTopic, answers=CommitAnswers)
cdef tuple _records(GroupState state, OffsetCommitRequest request, Context context)

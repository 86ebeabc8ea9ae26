"""How a join phase begins, grows and ends."""

from __future__ import annotations

from klamm.coordinator.group.phases import Phase
from klamm.protocol.errors import ErrorCode
from unit.coordinator.driver import World


def test_an_old_client_joins_in_one_step_and_leads_alone() -> None:
    world = World()
    call = world.join()
    world.pass_ms(2_999)
    assert not call.is_answered
    world.pass_ms(1)
    assert call.error is ErrorCode.none
    assert (call.response.generation_id, call.response.leader) == (1, call.response.member_id)
    assert [member.member_id for member in call.response.members] == [call.response.member_id]
    assert world.phase() is Phase.COMPLETING

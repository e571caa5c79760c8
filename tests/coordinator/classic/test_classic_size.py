"""Large groups: what a rebalance and a heartbeat cost, with room for a slow machine (measured: a thirtieth)."""

import time

from barnabas.core.errors import ErrorCode

MEMBERS = 500
HEARTBEATS = 7_000


def test_a_rebalance_of_500_members_takes_less_than_a_second_of_the_processor(world):
    members = world.stable(MEMBERS)
    started = time.process_time()

    answers = [world.join(member) for member in members]
    world.assign(members)

    assert time.process_time() - started < 1
    assert {answer.result.generation_id for answer in answers} == {2}
    assert (world.state, len(world.group.members)) == ("Stable", MEMBERS)


def test_a_second_of_heartbeats_of_20_000_members_takes_less_than_half_of_one(world):
    (member,) = world.stable()
    started = time.process_time()

    codes = {world.heartbeat(member, 1) for _ in range(HEARTBEATS)}

    assert time.process_time() - started < 0.5
    assert codes == {ErrorCode.NONE}
    assert world.clock.waiting == 1

"""Large groups stay one group with one timer a member.
What they cost is in docs/benchmarks.md (`bench.groups`).
"""

from barnabas.core.errors import ErrorCode

MEMBERS = 500
HEARTBEATS = 7_000


def test_a_rebalance_of_500_members(world):
    members = world.stable(MEMBERS)

    answers = [world.join(member) for member in members]
    world.assign(members)

    assert {answer.result.generation_id for answer in answers} == {2}
    assert (world.state, len(world.group.members)) == ("Stable", MEMBERS)


def test_many_heartbeats_leave_one_timer(world):
    (member,) = world.stable()

    codes = {world.heartbeat(member, 1) for _ in range(HEARTBEATS)}

    assert codes == {ErrorCode.NONE}
    assert world.clock.waiting == 1

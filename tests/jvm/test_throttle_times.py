"""How long clients wait: a genuine broker and ours, under the same ten shapes of load."""

import pytest
from throttle_shapes import SHAPES, THROTTLING_QUOTA_EXCEEDED, throttle_times

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]


@pytest.mark.usefixtures("users_forgotten")
def test_clients_wait_as_long_as_on_a_genuine_broker(kafka39, broker):
    theirs = throttle_times(int(kafka39.rpartition(":")[2]))
    mine = throttle_times(broker.port)

    for side in (theirs, mine):
        wrong = {name: [each for each in found if not each.is_right] for name, found in side.items()}
        assert {name: found for name, found in wrong.items() if found} == {}
    outcomes = [
        {name: [each.outcome for each in found] for name, found in side.items()} for side in (theirs, mine)
    ]
    assert outcomes[1] == outcomes[0]
    # Each shape is more than its client may.
    assert len(mine) == len(SHAPES)
    assert all(found[-1].said_ms > 0 for found in mine.values())
    assert [outcome != 0 for outcome in outcomes[1]["fetches_above_the_quota"]] == [True] * 3 + [False] * 5
    refused = [0, THROTTLING_QUOTA_EXCEEDED, THROTTLING_QUOTA_EXCEEDED]
    assert outcomes[1]["topics_of_a_new_client"] == refused

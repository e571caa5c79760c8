"""How long clients wait: a genuine broker and ours, under the same ten shapes of load."""

import pytest
from throttle_shapes import SHAPES, throttle_times

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

SLACK_MS = 500
"""What the two runs may differ in their own time, beside a tenth of the wait."""
OF_TOPICS_MS = 2500
"""The same where topics are made, which takes its time off the wait."""


def close(mine, theirs, slack_ms):
    return abs(mine - theirs) <= slack_ms + 0.1 * max(mine, theirs)


def differences(name, mine, theirs):
    """(ours, theirs) where they are not alike."""
    if name.startswith("topics"):
        pairs = zip(mine, theirs, strict=True)
        return [
            pair
            for pair in pairs
            if pair[0][1] != pair[1][1] or not close(pair[0][0], pair[1][0], OF_TOPICS_MS)
        ]
    if name.startswith(("a_large_fetch", "fetches")):
        given = [[size for _, size in found] for found in (mine, theirs)]
        if given[0] != given[1]:
            return given
        mine, theirs = ([wait for wait, _ in found] for found in (mine, theirs))
    return [pair for pair in zip(mine, theirs, strict=True) if not close(*pair, SLACK_MS)]


def test_clients_wait_as_long_as_on_a_genuine_broker(kafka39, broker):
    theirs = throttle_times(int(kafka39.rpartition(":")[2]))
    mine = throttle_times(broker.port)

    found = {name: differences(name, mine[name], theirs[name]) for name in mine}
    assert {name: pairs for name, pairs in found.items() if pairs} == {}
    assert len(mine) == len(SHAPES)
    assert max(mine["one_large_request"]) > 9000
    assert mine["more_time_than_it_may"] == [1000]

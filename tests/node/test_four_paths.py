"""Each of the four paths of a request takes its own listener, between brokers of ours."""

from barnabas.protocol.api import ApiKey
from four_paths import CONTROL, INTER, OUTSIDE, Roles, judge, misdirected, tapped, walk
from listener_taps import Call, ListenerTaps

ROLES = Roles(controller=1, leader=2, follower=3)


def test_each_path_takes_its_listener(join_cluster):
    with ListenerTaps() as taps:
        brokers = {number: tapped(taps, number) for number in ROLES}
        servers = {}
        for number, listeners in brokers.items():
            options = [part for each in listeners.settings().items() for part in ("--set", "=".join(each))]
            servers[number] = join_cluster(number, *options, port=listeners.bound[OUTSIDE])
            servers[number].wait_until_ready()
        walk(brokers, ROLES, servers[ROLES.leader].stop)
        assert "not_handed_over" not in servers[ROLES.leader].tail()
        for number in (ROLES.follower, ROLES.controller):
            assert servers[number].stop() == 0, servers[number].tail()
        judge(taps, ROLES)


def test_a_request_on_another_listener_is_noticed():
    right = [
        Call(1, CONTROL, ApiKey.ALTER_PARTITION, "2"),
        Call(1, CONTROL, ApiKey.API_VERSIONS, "2"),
        Call(1, INTER, ApiKey.FETCH, "broker-2-fetcher-0"),
        Call(1, OUTSIDE, ApiKey.FETCH, "consumer"),
    ]
    wrong = [
        Call(1, INTER, ApiKey.LEADER_AND_ISR, "2"),
        Call(1, CONTROL, ApiKey.CONTROLLED_SHUTDOWN, "2"),
        Call(1, OUTSIDE, ApiKey.FETCH, "broker-2-fetcher-0"),
        Call(1, INTER, ApiKey.FETCH, "consumer"),
    ]
    assert list(misdirected(right + wrong)) == wrong

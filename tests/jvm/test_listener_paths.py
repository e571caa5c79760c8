"""Each of the four paths of a request takes its own listener, between brokers of ours and genuine ones."""

import kafka_harness
import pytest

from four_paths import OUTSIDE, Roles, judge, tapped, walk
from listener_taps import ListenerTaps

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(240)]

OURS = 2


@pytest.fixture
def taps():
    with ListenerTaps() as opened:
        yield opened


@pytest.fixture
def start(request, zookeeper, server_folder, serve, taps):
    """Starts a broker, ours or a genuine one, behind taps: its listeners, and its process."""
    name = request.node.callspec.id
    folder, connect = server_folder / f"paths-{name}", f"{zookeeper}/paths-{name}"
    folder.mkdir()
    started = []

    def begin(number):
        listeners = tapped(taps, number)
        settings = listeners.settings() | {"zookeeper.connect": connect}
        if number == OURS:
            options = [part for each in settings.items() for part in ("--set", "=".join(each))]
            server = serve(folder / "2", "--id", "2", *options, port=listeners.bound[OUTSIDE])
        else:
            server = kafka_harness.start_broker(folder / str(number), connect, number, settings)
            server.port = listeners.bound[OUTSIDE]
        started.append(server)
        return listeners, server

    yield begin
    for server in started:
        if server.process.poll() is None:
            server.kill()


def wait_until_up(server):
    (server.wait_until_listening if isinstance(server, kafka_harness.Server) else server.wait_until_ready)()


@pytest.mark.parametrize(
    "roles",
    [
        pytest.param(Roles(controller=1, leader=OURS, follower=3), id="jvm-controller"),
        pytest.param(Roles(controller=OURS, leader=1, follower=3), id="our-controller"),
    ],
)
def test_each_path_takes_its_listener(start, taps, roles):
    brokers, servers = {}, {}
    brokers[roles.controller], servers[roles.controller] = start(roles.controller)
    wait_until_up(servers[roles.controller])
    for number in (roles.leader, roles.follower):
        brokers[number], servers[number] = start(number)
    for number in (roles.leader, roles.follower):
        wait_until_up(servers[number])

    walk(brokers, roles, servers[roles.leader].stop)
    judge(taps, roles)

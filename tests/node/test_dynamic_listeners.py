"""Listeners and limits of connections that change while a broker runs."""

import contextlib
import select
import socket

import pytest

from barnabas.admin.admin import Admin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.client import Producer
from barnabas.core.config import Source
from barnabas.core.errors import KafkaError
from live_settings import shown
from serving import free_port
from waiting import until

ALL = ConfigResource.all_brokers()
API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def listeners_of(server, **added):
    """The settings of a broker with these listeners beside those that it was started with."""
    ports = {**server.ports, **added}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in ports),
    }


def is_answered(sock, seconds=20.0):
    """Whether a request on this connection gets an answer within the time."""
    try:
        sock.sendall(API_VERSIONS)
        return bool(select.select([sock], [], [], seconds)[0]) and sock.recv(1) != b""
    except ConnectionError:
        return False


def test_a_listener_is_opened_registered_and_closed_again(two_brokers, join_cluster):
    ports = {server: free_port() for server in two_brokers}
    brokers = dict(enumerate(two_brokers, start=1))
    for broker_id, server in brokers.items():
        with Admin(server.bootstrap) as admin:
            admin.configs.alter({ConfigResource.broker(broker_id): listeners_of(server, EXTRA=ports[server])})
        until(lambda server=server: is_open(ports[server]))

    # Each broker names the other's new endpoint: the controller has sent UpdateMetadata.
    for port in ports.values():
        with Admin(f"127.0.0.1:{port}") as admin:
            until(lambda admin=admin: known_ports(admin) == set(ports.values()))

    first, second = two_brokers
    with Admin(first.bootstrap) as admin:
        admin.configs.alter({ConfigResource.broker(1): dict.fromkeys(listeners_of(first))})
        until(lambda: not is_open(ports[first]))
    with Admin(f"127.0.0.1:{ports[second]}") as admin:
        until(lambda: known_ports(admin) == {ports[second]})

    # What was set is there after a restart.
    assert second.stop() == 0
    again = join_cluster(2, port=second.port, listeners=("INTERNAL", "CLIENTS"))
    again.wait_until_ready()
    with Admin(f"127.0.0.1:{ports[second]}") as admin:
        value, source = shown(admin, ConfigResource.broker(2), "listeners")
    assert (f"EXTRA://127.0.0.1:{ports[second]}" in value, source) == (True, Source.DYNAMIC_BROKER)
    assert again.stop() == 0


def test_the_shared_port_follows_the_first_listener_for_clients(join_cluster):
    """It was gone with its listener, and stayed away when that came back; the next start failed."""
    shared, again = free_port(), free_port()
    options = ("--set", f"barnabas.bootstrap.port={shared}")
    server = join_cluster(1, *options, listeners=("INTERNAL", "CLIENTS"))
    server.wait_until_ready()
    internal, clients = server.ports.values()

    def named():
        """The port that the shared one names: that of the listener that it stands for."""
        with Admin(f"127.0.0.1:{shared}") as admin:
            return known_ports(admin)

    def alter(settings):
        with Admin(f"127.0.0.1:{internal}") as admin:
            admin.configs.alter({ConfigResource.broker(1): settings})

    assert named() == {clients}
    without = {"listeners": f"INTERNAL://127.0.0.1:{internal}"}
    without |= {"advertised.listeners": without["listeners"]}
    alter(without)
    until(lambda: named() == {internal})
    assert server.stop() == 0
    server = join_cluster(
        1, *options, "--set", f"port={clients}", port=clients, listeners=("INTERNAL", "CLIENTS")
    )
    server.ports = {"INTERNAL": internal, "CLIENTS": clients}
    server.wait_until_ready()
    both = f"INTERNAL://127.0.0.1:{internal},CLIENTS://127.0.0.1:{again}"
    alter({"listeners": both, "advertised.listeners": both})
    until(lambda: named() == {again})
    assert server.stop() == 0


def is_open(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def known_ports(admin):
    return {broker.port for broker in admin.cluster.describe().brokers}


def test_other_names_for_the_same_sockets_are_advertised(join_cluster):
    server = join_cluster(1)
    server.wait_until_ready()
    with Admin(server.bootstrap) as admin:
        own = ConfigResource.broker(1)
        admin.configs.alter({own: {"advertised.listeners": f"PLAINTEXT://localhost:{server.port}"}})
        until(lambda: [broker.host for broker in admin.cluster.describe().brokers] == ["localhost"])
    assert server.stop() == 0


def test_a_change_that_an_open_listener_cannot_take_is_refused_whole(join_cluster):
    server = join_cluster(1, listeners=("INTERNAL", "CLIENTS"))
    server.wait_until_ready()
    internal, clients = server.ports.values()
    taken = server.port
    own = ConfigResource.broker(1)
    as_it_is = listeners_of(server)
    with Admin(server.bootstrap) as admin:
        for settings, words in (
            (listeners_of(server, EXTRA=taken), "two listeners on the same port"),
            ({"listeners": as_it_is["listeners"] + ",NEW://127.0.0.1:0"}, "No security protocol defined"),
            (
                {"listeners": f"CLIENTS://127.0.0.1:{clients}"},
                "inter.broker.listener.name must be a listener",
            ),
            (
                {"listeners": f"INTERNAL://127.0.0.1:{internal},CLIENTS://127.0.0.1:{free_port()}"},
                r"Host and port cannot be updated for existing listener ListenerName\(CLIENTS\)",
            ),
            (
                {"listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SSL"},
                "a TLS listener has a key",
            ),
            (
                {"listener.name.clients.log.dir": "/x"},
                "Configs cannot be updated dynamically for existing listener",
            ),
            (
                {"listener.name.clients.max.connections": "0"},
                "Invalid listener.name.clients.max.connections 0",
            ),
            ({"listener.name.clients.max.connections": "many"}, "Not a number of type INT"),
            ({"max.connections.per.ip.overrides": "here"}, "not of the form address:count"),
        ):
            with pytest.raises(KafkaError, match=words):
                admin.configs.alter({own: {**settings, "message.max.bytes": "2000"}})
        with pytest.raises(KafkaError, match="broker id must be specified"):
            admin.configs.alter({ALL: {"listener.name.clients.log.dir": "/x"}})
        with (
            socket.create_server(("127.0.0.1", 0)) as other,
            pytest.raises(KafkaError, match=r"Socket server failed to bind to 127\.0\.0\.1"),
        ):
            admin.configs.alter({own: listeners_of(server, EXTRA=other.getsockname()[1])})
        assert shown(admin, own, "message.max.bytes") == ("1048588", Source.DEFAULT)
        assert is_open(internal)
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max.connections", "3"),
        ("max.connections.per.ip", "3"),
        ("max.connections.per.ip.overrides", "127.0.0.1:3"),
        ("listener.name.clients.max.connections", "3"),
        ("max.connection.creation.rate", "1"),
        ("listener.name.clients.max.connection.creation.rate", "1"),
    ],
)
def test_limits_of_connections_change_at_once(limited, key, value):
    served = 40 if key.endswith("rate") else 6
    with Admin(f"127.0.0.1:{limited.ports['INTERNAL']}") as admin:
        admin.configs.alter({ALL: {key: value}})
        until(lambda: key in admin.configs.describe(ALL)[ALL])
        assert all_answered(limited.port, served, 0.5) is False
        admin.configs.alter({ALL: {key: None}})
        until(lambda: key not in admin.configs.describe(ALL)[ALL])
        assert all_answered(limited.port, served, 20)


@pytest.fixture(scope="module")
def limited(serve, tmp_path_factory):
    """A broker that measures how fast connections come in one window of 30 seconds:
    it lets 30 come at once.
    """
    rate = ("--set", "quota.window.num=1", "--set", "quota.window.size.seconds=30")
    server = serve(
        tmp_path_factory.mktemp("limited") / "data", "--id", "1", *rate, listeners=("INTERNAL", "CLIENTS")
    )
    server.wait_until_ready()
    yield server
    assert server.stop() == 0


def all_answered(port, count, seconds):
    """Whether so many connections at once are all served, each within the time."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            if not is_answered(sock, seconds):
                return False
        return True


def test_more_fetchers_and_fewer_go_on_copying(two_brokers):
    first, second = two_brokers
    with Admin(first.bootstrap) as admin, Producer(first.bootstrap, acks="all") as producer:
        settings = {"min.insync.replicas": "2"}
        admin.topics.create(NewTopic("t", assignment={n: [1, 2] for n in range(6)}, configs=settings))
        for fetchers in ("2", "4", "2"):
            with Admin(second.bootstrap) as own:
                own.configs.alter({ConfigResource.broker(2): {"num.replica.fetchers": fetchers}})
                expected = (fetchers, Source.DYNAMIC_BROKER)
                until(
                    lambda own=own, expected=expected: (
                        shown(own, ConfigResource.broker(2), "num.replica.fetchers") == expected
                    )
                )
            for partition in range(6):
                producer.send("t", b"record", partition=partition)
            producer.flush()
        with (
            Admin(second.bootstrap) as own,
            pytest.raises(KafkaError, match="should not be greater than double the current value 2"),
        ):
            own.configs.alter({ConfigResource.broker(2): {"num.replica.fetchers": "5"}})

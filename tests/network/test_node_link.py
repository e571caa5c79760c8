import asyncio
from random import Random

import pytest

from barnabas.core.chunks import materialize
from barnabas.network.client import NetworkClient
from barnabas.network.connection_states import ConnectionState
from barnabas.network.errors import (
    ConnectionSetupTimedOutError,
    DisconnectedError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from barnabas.network.metadata_updater import ManualMetadataUpdater
from barnabas.network.node_link import ClientSettings, Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import decode_request_header, encode_response
from barnabas.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse

SERVED = [
    ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=4),
    ApiVersion(api_key=ApiKey.METADATA, min_version=4, max_version=9),
]


class FakeChannel:
    """What the link asks of a channel, and a broker at its other end that answers when told."""

    def __init__(self, link, response_bytes_max):
        self.link = link
        self.attempts = 0
        self.closed = 0
        self.blocked = False
        self.sent = []
        self.deadlines = []

    def connect(self, node):
        self.attempts += 1

    def write(self, chunks):
        frame = materialize(chunks)[4:]
        self.sent.append((decode_request_header(frame)[0], frame))

    def writable(self):
        return not self.blocked

    def close(self):
        self.closed += 1

    def wake_by(self, deadline_ms):
        self.deadlines.append(deadline_ms)

    def answer(self, response, now, *, index=0, version=None):
        header, _ = self.sent.pop(index)
        chunks = encode_response(
            header.correlation_id, response, header.api_version if version is None else version
        )
        self.link.received(memoryview(materialize(chunks))[4:], now)


class FakeSelector:
    """Channels without sockets, and time at hand."""

    def __init__(self):
        self.clock = self
        self.now = 0.0

    def monotonic_ms(self):
        return self.now

    def channel(self, link, response_bytes_max):
        return FakeChannel(link, response_bytes_max)

    async def close(self):
        pass


class Updater(ManualMetadataUpdater):
    """Notes which nodes were lost."""

    def __init__(self, nodes):
        super().__init__(nodes)
        self.lost = []

    def handle_server_disconnect(self, node, error):
        self.lost.append((node.id, str(error)))


class Client:
    """A network client of some nodes."""

    def __init__(self, nodes=1, **settings):
        settings = {"max_in_flight": 2, **settings}
        self.selector = FakeSelector()
        self.nodes = {n: Node(n, f"host{n}", 9092) for n in range(nodes)}
        self.updater = Updater(self.nodes.values())
        self.network = NetworkClient(self.selector, self.updater, ClientSettings(**settings), Random(3))

    def link(self, node_id=0):
        return self.network.link(self.nodes[node_id])

    def channel(self, node_id=0):
        return self.link(node_id)._channel

    def call(self, now=0.0, node_id=0, request=None, version=None, **options):
        self.selector.now = now
        versions = None if version is None else (version, version)
        return self.network.request(
            self.nodes[node_id], request or MetadataRequest(), versions=versions, **options
        )

    def least_loaded_nodes(self, now=0.0, times=20):
        """The ids of the nodes that are chosen in so many attempts."""
        self.selector.now = now
        return {self.network.least_loaded_node().id for _ in range(times)}

    def make_ready(self, node_id=0, now=0.0, served=SERVED):
        link, channel = self.link(node_id), self.channel(node_id)
        link.connect(now)
        link.established(now)
        channel.answer(ApiVersionsResponse(api_keys=served), now)
        assert link.state.state is ConnectionState.READY


def metadata(throttle_ms=0):
    return MetadataResponse(throttle_time_ms=throttle_ms, cluster_id="c")


def test_the_first_call_connects_asks_for_versions_and_is_sent():
    client = Client()
    call = client.call()
    link, channel = client.link(), client.channel()

    assert channel.attempts == 1
    assert link.state.state is ConnectionState.CONNECTING
    link.established(1.0)
    assert link.state.state is ConnectionState.CHECKING_API_VERSIONS
    header, frame = channel.sent[0]
    assert (header.api_key, header.api_version) == (ApiKey.API_VERSIONS, ApiVersionsRequest.max_version)
    _, offset = decode_request_header(frame)
    asked, _ = ApiVersionsRequest.decode(frame, header.api_version, offset)
    assert asked.client_software_name == "barnabas"
    channel.answer(ApiVersionsResponse(api_keys=SERVED), 2.0)
    assert link.state.state is ConnectionState.READY
    assert channel.sent[0][0].api_key == ApiKey.METADATA
    assert channel.sent[0][0].api_version == 9, "the highest that both know"
    channel.answer(metadata(), 3.0)
    assert call.result().cluster_id == "c"


def test_an_old_broker_is_asked_again_with_what_it_knows():
    client = Client()
    client.call()
    link, channel = client.link(), client.channel()
    link.established(0.0)
    old = ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])

    channel.answer(old, 0.0, version=0)

    assert channel.sent[0][0].api_version == 2
    channel.answer(ApiVersionsResponse(api_keys=SERVED), 0.0)
    assert link.state.state is ConnectionState.READY


def test_a_very_old_broker_is_asked_again_in_version_0():
    client = Client()
    client.call()
    client.link().established(0.0)

    client.channel().answer(ApiVersionsResponse(error_code=35), 0.0, version=0)

    assert client.channel().sent[0][0].api_version == 0


def test_a_broker_that_refuses_version_0_too_is_left():
    client = Client()
    call = client.call()
    client.link().established(0.0)
    client.channel().answer(ApiVersionsResponse(error_code=35), 0.0, version=0)

    client.channel().answer(ApiVersionsResponse(error_code=35), 0.0, version=0)

    assert client.link().state.state is ConnectionState.DISCONNECTED
    with pytest.raises(DisconnectedError, match="UNSUPPORTED_VERSION"):
        call.result()


@pytest.mark.parametrize("version", [5, 9, 32767])
def test_a_broker_that_refuses_the_version_that_it_names_is_left(version):
    client = Client()
    call = client.call()
    client.link().established(0.0)
    named = [ApiVersion(api_key=18, min_version=0, max_version=version)]

    client.channel().answer(ApiVersionsResponse(error_code=35, api_keys=named), 0.0, version=0)

    assert client.link().state.state is ConnectionState.DISCONNECTED
    with pytest.raises(DisconnectedError, match="UNSUPPORTED_VERSION"):
        call.result()


def test_a_broker_that_names_a_version_below_all_is_asked_in_version_0():
    client = Client()
    client.call()
    client.link().established(0.0)
    named = [ApiVersion(api_key=18, min_version=-9, max_version=-5)]

    client.channel().answer(ApiVersionsResponse(error_code=35, api_keys=named), 0.0, version=0)

    assert client.channel().sent[0][0].api_version == 0


def test_any_other_error_of_api_versions_closes():
    client = Client()
    client.call()
    client.link().established(0.0)

    client.channel().answer(ApiVersionsResponse(error_code=42), 0.0)

    assert client.channel().closed == 1
    assert client.link().state.state is ConnectionState.DISCONNECTED


def test_without_discovery_requests_go_out_at_once():
    client = Client(discover_versions=False)
    client.call(version=5)
    client.call()
    client.link().established(0.0)

    assert [header.api_version for header, _ in client.channel().sent] == [5, MetadataRequest.max_version]


def test_no_more_in_flight_than_allowed_and_the_rest_in_order():
    client = Client()
    client.make_ready()
    calls = [client.call() for _ in range(4)]

    assert len(client.channel().sent) == 2
    client.channel().answer(metadata(), 0.0)
    assert calls[0].done
    assert not calls[1].done
    assert len(client.channel().sent) == 2
    ids = [header.correlation_id for header, _ in client.channel().sent]
    assert ids == sorted(ids)
    for _ in range(3):
        client.channel().answer(metadata(), 0.0)
    assert all(call.done for call in calls)


def test_nothing_is_sent_while_the_socket_is_full():
    client = Client()
    client.make_ready()
    client.channel().blocked = True
    client.call()
    assert not client.channel().sent

    client.channel().blocked = False
    client.link().advance(0.0)

    assert len(client.channel().sent) == 1


def test_a_response_out_of_turn_closes_the_connection():
    client = Client()
    client.make_ready()
    first, second = client.call(), client.call()

    client.channel().answer(metadata(), 0.0, index=1)

    assert client.channel().closed == 1
    with pytest.raises(
        DisconnectedError, match=r"Correlation id for response \(2\) does not match request \(1"
    ):
        first.result()
    assert isinstance(second.error, DisconnectedError)


def test_a_response_that_nobody_asked_for_closes_the_connection():
    client = Client()
    client.make_ready()

    client.link().received(memoryview(b"\0\0\0\7"), 0.0)

    assert client.link().state.state is ConnectionState.DISCONNECTED


@pytest.mark.parametrize("garbage", [b"", b"\0\0", b"\0\0\0\1\xff\xff\xff\xff\xff\xff"])
def test_a_response_that_is_none_closes_the_connection(garbage):
    client = Client()
    client.make_ready()
    call, other = client.call(), client.call()

    client.link().received(memoryview(garbage), 0.0)

    assert isinstance(call.error, ProtocolError | DisconnectedError)
    assert isinstance(other.error, DisconnectedError)
    assert client.channel().closed == 1


def test_a_lost_connection_fails_everything_sent_or_not():
    client = Client()
    client.make_ready()
    calls = [client.call() for _ in range(3)]

    client.link().lost(DisconnectedError("reset"), 5.0)

    assert [str(call.error) for call in calls] == ["reset"] * 3
    assert client.link().versions is None


def test_the_next_call_waits_for_the_backoff():
    client = Client(reconnect_backoff_ms=50, reconnect_backoff_max_ms=50)
    client.make_ready()
    client.link().lost(DisconnectedError("reset"), 100.0)

    call = client.call(now=120.0)

    assert client.channel().attempts == 1
    assert client.channel().deadlines[-1] == 150.0
    client.link().expire(150.0)
    assert client.channel().attempts == 2
    assert not call.done


def test_an_overdue_response_closes_the_connection():
    client = Client()
    client.make_ready()
    slow, other = client.call(timeout_ms=100), client.call(timeout_ms=1000)
    assert client.channel().deadlines[-2:] == [100, 1000]

    client.link().expire(100.0)
    assert not slow.done
    client.link().expire(100.1)

    assert isinstance(slow.error, RequestTimedOutError)
    assert isinstance(other.error, RequestTimedOutError)
    assert client.channel().closed == 1


def test_a_call_that_could_not_be_sent_in_time_fails_alone():
    client = Client(max_in_flight=1)
    client.make_ready()
    sent = client.call()
    waiting = client.call(timeout_ms=100)

    client.link().expire(101.0)

    assert isinstance(waiting.error, RequestTimedOutError)
    assert not sent.done
    assert client.link().state.state is ConnectionState.READY


def test_the_request_timeout_counts_from_sending():
    client = Client(max_in_flight=1)
    client.make_ready()
    client.call()
    second = client.call(timeout_ms=100)
    client.channel().answer(metadata(), 90.0)

    client.link().expire(150.0)

    assert not second.done


def test_a_connection_that_does_not_come_about():
    client = Client(setup_timeout_ms=100, setup_timeout_max_ms=100)
    call = client.call()
    assert 100 in client.channel().deadlines

    client.link().expire(100.0)
    assert not call.done
    client.link().expire(100.1)

    assert isinstance(call.error, ConnectionSetupTimedOutError)
    assert client.channel().closed == 1


def test_a_throttled_node_is_left_alone_and_that_time_does_not_count():
    client = Client()
    client.make_ready()
    client.call()
    pending = client.call(timeout_ms=1000)
    client.channel().answer(metadata(throttle_ms=500), 10.0)
    later = client.call(now=10.0)

    assert len(client.channel().sent) == 1
    assert client.channel().deadlines[-1] == 510.0
    client.link().expire(1400.0)
    assert len(client.channel().sent) == 2
    assert not pending.done
    assert not later.done


def test_old_versions_leave_throttling_to_the_broker():
    client = Client()
    client.make_ready()
    client.call(version=5)
    client.channel().answer(metadata(throttle_ms=500), 10.0)

    assert client.link().state.is_ready(10.0)


def test_an_idle_connection_is_closed():
    client = Client(idle_ms_max=1000)
    client.make_ready(now=0.0)
    client.call(now=500.0)
    client.channel().answer(metadata(), 600.0)

    assert client.link().next_deadline_ms(600.0) == 1600.0
    client.link().expire(1599.0)
    assert client.link().state.state is ConnectionState.READY
    client.link().expire(1600.0)
    assert client.link().state.state is ConnectionState.DISCONNECTED


def test_an_api_that_the_node_does_not_serve():
    client = Client()
    client.make_ready()

    call = client.call(request=InitProducerIdRequest())

    assert isinstance(call.error, UnsupportedVersionError)
    assert client.link().load == 0


def test_versions_without_overlap():
    client = Client()
    client.make_ready(served=[ApiVersion(api_key=ApiKey.METADATA, min_version=90, max_version=99)])

    call = client.call()

    with pytest.raises(
        UnsupportedVersionError, match=r"METADATA with version in range \[0,\d+\]. The supp.*\[90,99\]"
    ):
        call.result()


def test_a_request_that_cannot_be_encoded_fails_alone():
    client = Client()
    client.make_ready()

    call = client.call(request=MetadataRequest(topics="nonsense"))

    assert isinstance(call.error, ProtocolError)
    assert not client.call().done


def test_no_response_is_expected_for_some():
    client = Client()
    client.make_ready()

    call = client.call(expects_response=False)

    assert call.done
    assert call.result() is None
    assert client.link().load == 0


def test_a_call_may_lead_to_the_next():
    client = Client(max_in_flight=1)
    client.make_ready()
    following = []
    client.call().when_done(lambda _: following.append(client.call()))

    client.channel().answer(metadata(), 0.0)

    assert not following[0].done
    assert len(client.channel().sent) == 1


class TestLeastLoadedNode:
    def test_none_is_known(self):
        assert Client(nodes=0).network.least_loaded_node() is None

    def test_a_ready_node_without_calls_wins(self):
        client = Client(nodes=3)
        client.make_ready(1)
        client.make_ready(2)
        client.call(node_id=2)

        assert client.least_loaded_nodes() == {1}

    def test_else_the_ready_node_with_fewest_calls(self):
        client = Client(nodes=3, max_in_flight=5)
        for node_id, calls in ((0, 3), (1, 1), (2, 2)):
            client.make_ready(node_id)
            for _ in range(calls):
                client.call(node_id=node_id)

        assert client.least_loaded_nodes() == {1}

    def test_else_one_that_is_connecting(self):
        client = Client(nodes=3)
        client.link(2).connect(0.0)

        assert client.least_loaded_nodes() == {2}

    def test_else_the_one_tried_longest_ago(self):
        client = Client(nodes=3)
        for node_id, when in ((0, 30.0), (1, 10.0), (2, 20.0)):
            client.link(node_id).connect(when)
            client.link(node_id).lost(DisconnectedError("x"), when)

        assert client.least_loaded_nodes(now=5000.0) == {1}

    def test_one_that_does_not_become_ready_is_taken_last(self):
        client = Client(nodes=2)
        client.link(0).connect(0.0)
        assert client.least_loaded_nodes(now=999.0) == {0}
        assert client.least_loaded_nodes(now=1000.0) == {1}
        # With no other one left it is the one to wait for.
        client.link(1).connect(1000.0)
        assert client.least_loaded_nodes(now=1500.0) == {1}
        assert client.least_loaded_nodes(now=2500.0) <= {0, 1}

    def test_one_that_does_not_become_ready_is_not_taken_for_one_that_is_busy(self):
        client = Client(nodes=2, max_in_flight=1)
        client.make_ready(1)
        client.link(0).connect(0.0)
        client.call(now=2000.0, node_id=1)
        assert client.network.least_loaded_node() is None

    def test_none_while_all_back_off(self):
        client = Client(nodes=2)
        for node_id in (0, 1):
            client.link(node_id).connect(0.0)
            client.link(node_id).lost(DisconnectedError("x"), 0.0)

        client.selector.now = 10.0
        assert client.network.least_loaded_node() is None

    def test_any_node_at_first(self):
        client = Client(nodes=3)

        assert client.least_loaded_nodes(times=50) == {0, 1, 2}


def test_the_connection_of_a_retired_node_ends_when_its_last_call_is_answered():
    client = Client(nodes=2)
    for node_id in range(2):
        client.make_ready(node_id)
    busy, idle = client.link(0), client.link(1)
    call = client.call(node_id=0)

    client.network.retire(0)
    client.network.retire(1)

    assert idle.state.state is ConnectionState.DISCONNECTED
    assert not call.done
    busy._channel.answer(metadata(), 0.0)
    assert call.result().cluster_id == "c"
    assert busy.state.state is ConnectionState.DISCONNECTED
    assert client.link(0) is not busy
    assert client.updater.lost == []


def test_a_node_at_another_address_has_another_link():
    client = Client()
    client.make_ready()
    before = client.link()
    call = client.call()

    client.nodes[0] = Node(0, "host0", 9092, "rack")
    assert client.link() is before
    client.nodes[0] = Node(0, "elsewhere", 9092, "rack")

    assert client.link() is not before
    assert "has moved" in str(call.error)
    assert repr(client.link()) == "<NodeLink 0 DISCONNECTED in_flight=0 waiting=0>"


def test_a_call_that_follows_one_of_a_moved_node_at_once_takes_the_new_link():
    client = Client()
    client.make_ready()
    following = []
    client.call().when_done(lambda _: following.append(client.call()))

    client.nodes[0] = Node(0, "elsewhere", 9092, "rack")
    moved = client.call()

    assert [call.done for call in [*following, moved]] == [False, False]
    assert client.network.in_flight_request_count(0) == 2


def test_the_updater_hears_of_lost_connections_but_not_of_closed_ones():
    client = Client(nodes=2)
    client.make_ready(0)
    client.make_ready(1)

    client.link(0).lost(DisconnectedError("reset"), 0.0)
    client.network.disconnect(1)

    assert client.updater.lost == [(0, "reset")]


def test_a_node_beside_the_cluster_is_never_the_least_loaded():
    client = Client()
    client.nodes[7] = Node(7, "coordinator", 9092)
    client.make_ready(7)

    assert client.least_loaded_nodes() == {0}


def test_requests_not_answered_yet_are_counted():
    client = Client(max_in_flight=1)
    assert client.network.in_flight_request_count(0) == 0
    client.make_ready()
    client.call()
    client.call()

    assert client.network.in_flight_request_count(0) == 2


def test_a_call_is_sent_in_the_highest_version_within_its_bounds():
    client = Client()
    client.make_ready()
    client.network.request(client.nodes[0], MetadataRequest(), versions=(5, 7))

    assert client.channel().sent[0][0].api_version == 7


def test_closing_fails_what_waits():
    client = Client(nodes=2)
    calls = [client.call(node_id=0), client.call(node_id=1)]

    asyncio.run(client.network.close())

    assert [str(call.error) for call in calls] == ["the client is closed"] * 2


def test_closing_fails_what_a_retired_node_has_still_to_answer():
    client = Client()
    client.make_ready()
    channel, call = client.channel(), client.call()
    client.network.retire(0)

    asyncio.run(client.network.close())

    assert str(call.error) == "the client is closed"
    assert channel.closed == 1


def test_an_updater_may_ask_again_as_soon_as_it_hears_of_the_loss():
    client = Client()
    client.make_ready()
    lost, following = client.call(), []
    client.updater.handle_server_disconnect = lambda *_: following.append(client.call())

    client.link().lost(DisconnectedError("reset"), 0.0)

    assert lost.done
    assert not following[0].done

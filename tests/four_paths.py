"""The four paths of a request, walked in a cluster of three brokers, and the listener that each takes in
Kafka 3.9.

Controller to broker and broker to controller: the control plane. Broker to broker, and ControlledShutdown:
the inter-broker listener. Client to broker: the clients' one, as it was asked. The brokers may be ours or
genuine ones.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from barnabas.admin.admin import Admin
from barnabas.admin.types import NewTopic
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import RequestHeader, decode_response, encode_request
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from listener_taps import Call, ListenerTaps
from serving import free_port
from waiting import until

INTER, CONTROL, OUTSIDE = LISTENERS = ("INTER", "CONTROL", "OUTSIDE")

CONTROLLER_TO_BROKER = {ApiKey.LEADER_AND_ISR, ApiKey.UPDATE_METADATA, ApiKey.STOP_REPLICA}
BROKER_TO_CONTROLLER = {ApiKey.ALTER_PARTITION, ApiKey.ALLOCATE_PRODUCER_IDS}
CLIENT_TO_BROKER = {ApiKey.METADATA, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP}

RECORDS = 10
TP = TopicPartition("four-paths", 0)


class Listeners(NamedTuple):
    """The listeners of one broker, each behind a tap."""

    bound: dict[str, int]
    advertised: dict[str, int]

    @property
    def bootstrap(self) -> str:
        """Where clients come."""
        return f"127.0.0.1:{self.advertised[OUTSIDE]}"

    def settings(self) -> dict[str, str]:
        """The keys of the broker's configuration."""
        return {
            "listeners": _endpoints(self.bound),
            "advertised.listeners": _endpoints(self.advertised),
            "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
            "inter.broker.listener.name": INTER,
            "control.plane.listener.name": CONTROL,
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }


def tapped(taps: ListenerTaps, broker: int) -> Listeners:
    """Listeners for a broker that is about to start."""
    bound = {name: free_port() for name in LISTENERS}
    return Listeners(bound, taps.before(broker, bound))


def _endpoints(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


class Roles(NamedTuple):
    """Who is what while the paths are walked: three brokers."""

    controller: int
    leader: int
    follower: int


def walk(brokers: Mapping[int, Listeners], roles: Roles, stop_leader: Callable[[], object]) -> None:
    """Has every path taken: records, a group, a replica that is added, a topic that goes, a leader that
    stops.
    """
    leader = brokers[roles.leader].bootstrap
    with Admin(leader) as admin:
        admin.topics.create(NewTopic(TP.topic, assignment={0: [roles.leader, roles.follower]}))
        init_producer_id(leader)
        with Producer(leader, acks="all") as producer:
            for number in range(RECORDS):
                producer.send(TP.topic, b"%d" % number)
        with Consumer(leader, group_id="four-paths", auto_offset_reset="earliest") as consumer:
            consumer.subscribe([TP.topic])
            read: list[object] = []
            while len(read) < RECORDS:
                read += consumer.poll(timeout_ms=10_000)
        admin.partitions.reassign({TP: [roles.leader, roles.follower, roles.controller]})
        until(lambda: set(admin.topics.describe([TP.topic])[TP.topic].partitions[0].isr) == set(roles))
        admin.topics.delete(TP.topic)
    stop_leader()


def init_producer_id(bootstrap: str) -> None:
    """Asks this broker itself: it has to fetch a block of ids from the controller."""
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        stream = connection.makefile("rb")

        def granted() -> bool:
            header = RequestHeader(ApiKey.INIT_PRODUCER_ID, 1, 7, "four-paths")
            connection.sendall(b"".join(encode_request(header, InitProducerIdRequest(transactional_id=None))))
            answer = stream.read(int.from_bytes(stream.read(4), "big"))
            _, response = decode_response(ApiKey.INIT_PRODUCER_ID, 1, answer)
            assert isinstance(response, InitProducerIdResponse)
            # A genuine broker has the client ask again while it has no block.
            assert response.error_code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return response.error_code == ErrorCode.NONE

        until(granted)


def judge(taps: ListenerTaps, roles: Roles) -> None:
    """Every request came on its listener, and none of the four paths is missing."""
    controller, leader, follower = roles
    wrong = sorted(set(misdirected(taps.calls)))
    assert not wrong, wrong
    assert taps.seen(leader, CONTROL, sender=controller) >= CONTROLLER_TO_BROKER
    assert taps.seen(follower, CONTROL, sender=controller) >= CONTROLLER_TO_BROKER
    assert taps.seen(controller, CONTROL, sender=leader) >= BROKER_TO_CONTROLLER
    assert taps.seen(leader, INTER, sender=follower) >= {ApiKey.FETCH}
    assert taps.seen(controller, INTER, sender=leader) >= {ApiKey.CONTROLLED_SHUTDOWN}
    clients = set[ApiKey]().union(*(taps.seen(broker, OUTSIDE, sender=None) for broker in roles))
    assert clients >= CLIENT_TO_BROKER


def misdirected(calls: list[Call]) -> Iterator[Call]:
    """The requests that came on another listener than Kafka 3.9 sends them to."""
    for call in calls:
        if call.from_broker is None:
            right = OUTSIDE
        elif call.api in CONTROLLER_TO_BROKER | BROKER_TO_CONTROLLER:
            right = CONTROL
        else:
            right = INTER
        if call.listener != right and call.api is not ApiKey.API_VERSIONS:
            yield call

"""Requests are held to the quotas of their client: what counts, who waits, what is not given."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.network.peer import ListenerId
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.security.quota_managers import QuotaManagers
from broker_world import batch
from standing_clock import Clock

CLIENT = ("", "test")


class SlowAuthorizer:
    """The time that a request takes."""

    def __init__(self, clock):
        self.clock = clock
        self.takes_ms = 0
        self.allows = True

    def authorize(self, *args, **kwargs):
        self.clock.now_ms += self.takes_ms
        return self.allows

    def authorize_any(self, *args):
        return self.allows


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def quotas(clock):
    return QuotaManagers(clock.monotonic_ms)


@pytest.fixture
def authorizer(clock):
    return SlowAuthorizer(clock)


@pytest.fixture
def world(make_world, clock, quotas, authorizer):
    world = make_world(quotas=quotas, clock=clock, authorizer=authorizer)
    world.create(partitions=2)
    return world


def limit(quotas, manager, bound, names=CLIENT):
    manager.update_quota(*names, bound)
    quotas.enabled = True


def fetch(world, topic="orders", *, session=(0, -1), replica_id=-1, max_bytes=1 << 20):
    asked = FetchTopic(
        topic=topic,
        partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)],
    )
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[] if session[1] > 0 else [asked],
    )
    return world.send(request, 12)


def muted_ms(world):
    until = world.control.muted_until
    return 0 if until is None else until - world.clock.monotonic_ms()


def test_without_quotas_nothing_is_measured(world, quotas):
    world.produce()
    fetch(world)
    assert [list(each.buckets()) for each in (quotas.produce, quotas.fetch, quotas.request)] == [[], [], []]


def test_a_producer_above_its_bytes_waits_and_is_muted(world, quotas):
    limit(quotas, quotas.produce, 1)
    answer = world.produce()

    size = quotas.produce.bucket("User:ANONYMOUS", "test").rate.total()
    assert size > 100
    assert answer.throttle_time_ms == int((size / 10 - 1) * 10_000 + 0.5)
    assert muted_ms(world) == answer.throttle_time_ms
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert quotas.produce.bucket("User:ANONYMOUS", "test").throttle_time_ms == answer.throttle_time_ms


def test_each_request_of_a_connection_is_held_to_the_quotas_of_its_own_client_id(world, quotas):
    limit(quotas, quotas.produce, 1, ("", "greedy"))
    request = MetadataRequest(topics=None)
    produce = world.produce

    assert produce(client_id="greedy").throttle_time_ms > 0
    assert produce(client_id="modest").throttle_time_ms == 0
    assert produce(client_id="greedy").throttle_time_ms > 0
    assert world.send(request, 9, client_id=None).throttle_time_ms == 0
    limit(quotas, quotas.produce, None, ("", "greedy"))
    assert produce(client_id="greedy").throttle_time_ms == 0


def test_who_has_logged_in_is_not_held_to_what_its_connection_was_before(world, quotas):
    """Each client asks for the versions first, and its quotas are looked up then, as ANONYMOUS."""
    limit(quotas, quotas.produce, 1, ("ANONYMOUS", ""))
    assert world.produce().throttle_time_ms > 0
    world.peer.principal = "User:alice"
    assert world.produce().throttle_time_ms == 0


def test_a_log_in_is_held_to_no_quota(world, quotas):
    """All strangers would share one quota with everybody who is about to log in."""
    limit(quotas, quotas.request, 0.01)
    world.peer.listener = ListenerId("SASL", "SASL_PLAINTEXT")
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    world.send(request, 3)
    assert list(quotas.request.buckets()) == []

    world.peer.principal = "User:alice"
    world.send(request, 3)
    assert len(list(quotas.request.buckets())) == 1


def test_acks_0_is_held_to_its_bytes_and_not_to_its_time(world, quotas, authorizer):
    limit(quotas, quotas.request, 0.001)
    authorizer.takes_ms = 3
    assert world.produce(acks=0) is None
    assert world.control.muted_until is None
    assert quotas.exempt.total() == pytest.approx(0.3)

    limit(quotas, quotas.produce, 1)
    assert world.produce(acks=0) is None
    assert muted_ms(world) > 0


@pytest.mark.parametrize(
    ("request_", "version"),
    [(ListOffsetsRequest(replica_id=-1, topics=[]), 6), (MetadataRequest(topics=None), 9)],
    ids=["ListOffsets", "Metadata"],
)
def test_the_time_of_any_request_counts(world, quotas, authorizer, request_, version):
    limit(quotas, quotas.request, 0.01)
    authorizer.takes_ms = 7
    answer = world.send(request_, version)

    used = quotas.request.bucket("User:ANONYMOUS", "test").rate.total()
    assert used == pytest.approx(0.7 if isinstance(request_, MetadataRequest) else 0)
    assert answer.throttle_time_ms == (1000 if used else 0)


def test_the_longer_wait_counts(world, quotas, authorizer):
    authorizer.takes_ms = 10
    limit(quotas, quotas.request, 0.09)
    limit(quotas, quotas.produce, 1)
    answer = world.produce()
    assert answer.throttle_time_ms > 1000, "the bytes"

    limit(quotas, quotas.produce, 1e9)
    assert world.produce().throttle_time_ms == 1000, "the time"


def test_a_throttled_fetch_gets_nothing_and_is_not_counted(world, quotas):
    world.produce()
    whole = fetch(world).responses[0].partitions[0].records
    limit(quotas, quotas.fetch, 1)

    held = fetch(world, max_bytes=1000)
    assert held.responses == []
    assert held.throttle_time_ms > 0
    assert muted_ms(world) == held.throttle_time_ms
    bucket = quotas.fetch.bucket("User:ANONYMOUS", "test")
    assert bucket.rate.total() == 0

    limit(quotas, quotas.fetch, 1000)
    given = fetch(world)
    assert bytes(given.responses[0].partitions[0].records) == bytes(whole)
    assert given.throttle_time_ms == 0
    assert bucket.rate.total() == pytest.approx(len(whole) + 74, abs=10)


def test_a_throttled_fetch_takes_nothing_from_its_session(world, quotas):
    session = fetch(world, session=(0, 0)).session_id
    assert session
    world.produce()
    limit(quotas, quotas.fetch, 1)
    held = fetch(world, session=(session, 1))
    assert (held.session_id, held.responses, held.throttle_time_ms > 0) == (session, [], True)

    limit(quotas, quotas.fetch, None)
    assert fetch(world, session=(session, 2)).responses[0].partitions[0].records


def test_a_full_fetch_that_is_throttled_opens_no_session(world, quotas):
    world.produce()
    limit(quotas, quotas.fetch, 1)
    assert fetch(world, session=(0, 0)).session_id == 0
    assert len(world.sessions) == 0


def test_bytes_of_a_fetch_that_was_too_slow_are_not_counted(world, quotas, authorizer):
    world.produce()
    limit(quotas, quotas.fetch, 1e9)
    limit(quotas, quotas.request, 0.001)
    authorizer.takes_ms = 5
    assert fetch(world).responses == []
    assert quotas.fetch.bucket("User:ANONYMOUS", "test").rate.total() == 0


def test_a_consumer_gets_no_more_than_its_quota_lets_it_ever_have(world, quotas):
    for _ in range(4):
        world.produce(records=batch(100))
    size = len(fetch(world).responses[0].partitions[0].records) / 4
    limit(quotas, quotas.fetch, size / 4)  # 2.5 batches in ten seconds
    assert fetch(world).responses == [], "a little too much, with what goes with the records"
    world.clock.advance(500)
    assert len(fetch(world).responses[0].partitions[0].records) == int(2.5 * size)


def test_followers_are_exempt(world, quotas, authorizer):
    world.create("copied", replicas=(1, 2), isr=(1,))
    world.produce("copied")
    limit(quotas, quotas.fetch, 1)
    limit(quotas, quotas.request, 0.001)
    authorizer.takes_ms = 5
    answer = fetch(world, "copied", replica_id=2)
    assert answer.responses[0].partitions[0].records
    assert world.control.muted_until is None
    assert quotas.exempt.total() > 0


def test_what_brokers_ask_is_exempt_unless_it_is_refused(world, quotas, authorizer):
    limit(quotas, quotas.request, 0.001)
    authorizer.takes_ms = 5
    request = LeaderAndIsrRequest(controller_id=1, controller_epoch=1, broker_epoch=7)
    world.send(request, 4)
    assert world.control.muted_until is None
    assert quotas.exempt.total() == pytest.approx(0.5)

    authorizer.allows = False
    world.send(request, 4)
    assert muted_ms(world) == 1000


# --- mutations


def create_topics(world, names, version, partitions=1, *, validate_only=False):
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return world.send(CreateTopicsRequest(topics=topics, timeout_ms=0, validate_only=validate_only), version)


def test_topics_beyond_the_quota_are_refused_one_by_one(world, quotas):
    limit(quotas, quotas.mutations, 1)
    answer = create_topics(world, ["a", "b", "c"], 6, partitions=13)

    codes = {topic.name: topic.error_code for topic in answer.topics}
    assert codes == {
        "a": ErrorCode.REQUEST_TIMED_OUT,
        "b": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        "c": ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
    assert answer.topics[1].error_message is None
    assert answer.throttle_time_ms == 2000
    assert muted_ms(world) == 2000


def test_old_clients_are_not_refused_but_wait(world, quotas):
    limit(quotas, quotas.mutations, 1)
    answer = create_topics(world, ["a", "b"], 5, partitions=13)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.REQUEST_TIMED_OUT}
    assert answer.throttle_time_ms == 15_000


def test_what_is_only_validated_costs_nothing(world, quotas):
    limit(quotas, quotas.mutations, 1)
    create_topics(world, ["a"], 6, partitions=100, validate_only=True)
    assert create_topics(world, ["a"], 6).topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize(("version", "strict"), [(2, False), (3, True)])
def test_new_partitions_count(world, quotas, version, strict):
    limit(quotas, quotas.mutations, 1)
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=22, assignments=None)], timeout_ms=0
    )
    first = world.send(request, version)  # 20 of 11
    assert first.results[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert first.throttle_time_ms == (0 if strict else 9000)
    second = world.send(request, version)
    refused = second.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused == strict
    assert second.throttle_time_ms == (9000 if strict else 11_000) or not strict


@pytest.mark.parametrize(("version", "strict"), [(4, False), (5, True)])
def test_deletions_count_their_partitions(world, quotas, version, strict):
    world.create("many", 20)
    limit(quotas, quotas.mutations, 1)

    def delete(name):
        topics = [DeleteTopicState(name=name)] if version >= 6 else []
        return world.send(DeleteTopicsRequest(topic_names=[name], topics=topics, timeout_ms=0), version)

    first = delete("many")
    assert first.throttle_time_ms == (0 if strict else 9000)
    second = delete("orders")
    refused = second.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert refused == strict
    assert second.throttle_time_ms == (9000 if strict else 11_000)


def test_topics_that_are_made_on_demand_count_and_nobody_waits(world, quotas):
    limit(quotas, quotas.mutations, 1)
    names = [MetadataRequestTopic(name=f"new-{number}") for number in range(15)]
    answer = world.send(MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
    assert answer.throttle_time_ms == 0
    assert quotas.mutations.bucket("User:ANONYMOUS", "test").tokens.tokens == -4

"""What one client knows of a cluster: how metadata is asked for, repeated and refused."""

import asyncio
import contextlib
import gc

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.config import PRODUCER_CONFIG, client_config
from barnabas.client.coordinator_link import COORDINATOR_ID_BASE, CoordinatorLink
from barnabas.client.errors import ClientTimeoutError
from barnabas.client.retries import Attempts, Deadline
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.backoff import ExponentialBackoff
from barnabas.network.errors import DisconnectedError, RebootstrapRequiredError
from barnabas.network.node_link import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponseTopic
from fake_cluster import hangup
from serving import free_port


@contextlib.asynccontextmanager
async def cluster_of(broker, **more):
    options = {
        "bootstrap_servers": broker.bootstrap,
        "retry_backoff_ms": 5,
        "retry_backoff_max_ms": 20,
        **more,
    }
    made = Cluster(client_config(PRODUCER_CONFIG, options), in_flight_max=5)
    try:
        yield made
    finally:
        await made.close()


def test_a_refresh_in_the_background_is_repeated_until_there_is_an_answer(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            answered = asyncio.Event()
            cluster.watch(lambda _metadata, _topics: answered.set())
            broker.faults[ApiKey.METADATA].extend([hangup, hangup])
            cluster.refresh_soon()
            await answered.wait()
            assert len(broker.requests(ApiKey.METADATA)) == 3
            assert set(cluster.metadata.brokers) == {1}

    run(scenario())


# --- topics that are new


def asked_for(broker):
    return [
        sorted(topic.name for topic in request.topics or ()) for request in broker.requests(ApiKey.METADATA)
    ]


def test_a_new_topic_is_asked_for_without_those_that_are_known(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            for name in ("a", "b", "c"):
                broker.add_topic(name, 2)
                assert len((await cluster.topic(name, Deadline(10_000))).partitions) == 2
            assert asked_for(broker)[-2:] == [["b"], ["c"]]
            assert set(cluster.metadata.topics) == {"a", "b", "c"}
            assert {cluster.metadata.names[broker.topic_id(name)] for name in "abc"} == {"a", "b", "c"}

            await cluster.refresh()
            assert asked_for(broker)[-1] == ["a", "b", "c"]

    run(scenario())


def test_topics_that_are_new_at_one_moment_share_a_request_and_later_ones_do_not_wait_for_it(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            await cluster.refresh()
            names = [f"t{number:02}" for number in range(20)]
            for name in (*names, "late"):
                broker.add_topic(name, 1)
            together = [asyncio.create_task(cluster.topic(name, Deadline(10_000))) for name in names]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            late = asyncio.create_task(cluster.topic("late", Deadline(10_000)))
            assert [(await task).name for task in (*together, late)] == [*names, "late"]
            assert asked_for(broker)[1:] == [names, ["late"]]

    run(scenario())


def test_what_is_asked_of_new_topics_does_not_make_the_others_younger(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker.add_topic("new", 1)
            await cluster.refresh()
            await asyncio.sleep(0.05)
            age_ms = cluster.age_ms
            await cluster.topic("new", Deadline(10_000))
            assert cluster.age_ms >= age_ms

    run(scenario())


def test_watchers_hear_which_topics_are_news(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker.add_topic("a", 1)
            broker.add_topic("b", 1)
            await cluster.topic("a", Deadline(10_000))
            news = []
            cluster.watch(lambda _metadata, topics: news.append(sorted(topics)))
            await cluster.topic("b", Deadline(10_000))
            await cluster.refresh()
            assert news == [["b"], ["a", "b"]]

    run(scenario())


@contextlib.asynccontextmanager
async def introduced_late(broker, cluster, name):
    """The topic was asked for; the block calls what it gets for the answer to come."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def answer_late(request, node_id):
        asked.set()
        await go_on.wait()
        return broker._metadata(request, node_id)

    broker.faults[ApiKey.METADATA].append(answer_late)
    asking = asyncio.create_task(cluster.topic(name, Deadline(10_000)))
    await asked.wait()
    try:
        yield asking, go_on.set
    finally:
        go_on.set()
        await asking


def test_a_view_of_all_topics_stays_complete_when_a_new_one_is_added(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker.add_topic("a")
            await cluster.topic("a", Deadline(10_000))
            broker.add_topic("new")
            async with introduced_late(broker, cluster, "new") as (asking, answer):
                cluster.need_all(True)
                # Another broker is asked for all, and answers first.
                cluster.update(broker._metadata(MetadataRequest(topics=None), 2), complete=True)
                assert cluster.is_complete
                answer()
                await asking
                assert cluster.is_complete
            assert set(cluster.metadata.topics) == {"a", "new"}

    run(scenario())


def test_an_answer_about_a_new_topic_is_no_view_of_the_cluster_after_a_new_start(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker.add_topic("a")
            await cluster.topic("a", Deadline(10_000))
            broker.add_topic("new")
            views = []
            async with introduced_late(broker, cluster, "new") as (asking, answer):
                cluster.watch(lambda metadata, _topics: views.append(set(metadata.topics)))
                cluster._rebootstrap(DisconnectedError("lost"))
                answer()
                await asking
            assert [view for view in views if "a" not in view] == []
            assert set(cluster.metadata.topics) == {"a", "new"}

    run(scenario())


# --- what a person reads


def test_many_that_wait_for_lost_brokers_are_one_line(run, fake, caplog):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            for outage in (1, 2):
                await cluster.connect(Deadline(10_000))
                caplog.clear()  # by an answer to what the last outage has left, it may have waited once more
                broker.faults[ApiKey.METADATA].extend([hangup] * 60)
                names = [f"t{outage}-{number}" for number in range(8)]
                outcomes = await asyncio.gather(
                    *(cluster.topic(name, Deadline(500)) for name in names), return_exceptions=True
                )
                assert {type(one) for one in outcomes} == {ClientTimeoutError}
                broker.faults[ApiKey.METADATA].clear()
                lines = [one for one in caplog.messages if one.startswith("client.waiting")]
                assert len(lines) == 1, lines

    run(scenario())


# --- whom a client means (KIP-1242), and where it starts again (KIP-899)


def mistaken(request, node_id):
    return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)


def test_a_broker_is_told_that_it_and_no_other_is_meant_once_its_cluster_is_known(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            await cluster.refresh()
            await cluster.refresh()

            asked = broker.requests(ApiKey.API_VERSIONS)
            assert [(one.cluster_id, one.node_id) for one in asked] == [(None, -1), ("fake", 1)]

    run(scenario())


def test_where_another_broker_is_at_the_address_the_bootstrap_servers_are_asked_again(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            await cluster.refresh()
            seen = []
            cluster.watch(lambda metadata, _topics: seen.append(metadata))
            broker.faults[ApiKey.API_VERSIONS].append(mistaken)
            with pytest.raises(RebootstrapRequiredError):
                await cluster.refresh()
            assert cluster.metadata.brokers == {}
            await cluster.refresh()

            assert set(cluster.metadata.brokers) == {1}
            assert [set(metadata.brokers) for metadata in seen] == [{1}] * len(seen)
            asked = [one.node_id for one in broker.requests(ApiKey.API_VERSIONS)]
            assert asked[:3] == [-1, 1, -1]

    run(scenario())


def test_who_is_told_to_start_again_and_must_not_stays_with_the_brokers_it_knows(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker, metadata_recovery_strategy="none") as cluster:
            await cluster.refresh()
            broker.faults[ApiKey.API_VERSIONS].append(mistaken)
            with pytest.raises(RebootstrapRequiredError):
                await cluster.refresh()
            assert set(cluster.metadata.brokers) == {1}

    run(scenario())


@pytest.mark.parametrize(("strategy", "answered"), [("rebootstrap", True), ("none", False)])
def test_a_client_whose_brokers_have_all_moved_starts_again_from_its_bootstrap_servers(
    run, fake, strategy, answered
):
    async def scenario():
        options = {
            "metadata_recovery_strategy": strategy,
            "metadata_recovery_rebootstrap_trigger_ms": 0,
        }
        async with fake() as broker, cluster_of(broker, **options) as cluster:
            here = broker.ports[1]
            broker.ports[1] = free_port()
            await cluster.refresh()
            broker.ports[1] = here
            with pytest.raises(DisconnectedError):
                await cluster.refresh()

            if answered:
                await cluster.refresh()
                assert cluster.metadata.brokers[1].port == here
            else:
                with pytest.raises(DisconnectedError):
                    await cluster.refresh()

    run(scenario())


def test_a_topic_that_may_not_be_used_is_asked_for_once(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker._topic = lambda name: MetadataResponseTopic(
                name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions=[]
            )
            with pytest.raises(KafkaError, match=r"\(topic secret\)") as refused:
                await cluster.topic("secret", Deadline(10_000))
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert len(broker.requests(ApiKey.METADATA)) == 1

    run(scenario())


def test_a_broker_that_knows_no_brokers_yet_takes_nothing_away(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            broker.add_topic("t")
            known = await cluster.topic("t", Deadline(10_000))
            broker.hidden = {1}
            await cluster.refresh()
            assert set(cluster.metadata.brokers) == {1}
            assert cluster.metadata.topics == {"t": known}

    run(scenario())


def test_a_broker_that_is_lost_leads_to_fresh_metadata(run, fake):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            await cluster.refresh()
            answered = asyncio.Event()
            cluster.watch(lambda _metadata, _topics: answered.set())
            broker.faults[ApiKey.INIT_PRODUCER_ID].append(hangup)
            with pytest.raises(DisconnectedError):
                await cluster.send(1, InitProducerIdRequest(), InitProducerIdResponse)
            await answered.wait()

    run(scenario())


def test_a_refresh_that_fails_when_its_caller_is_gone_leaves_no_error_behind(run, fake, caplog):
    async def scenario():
        async with fake() as broker, cluster_of(broker) as cluster:
            asked, go_on = asyncio.Event(), asyncio.Event()

            async def answer_late(request, node_id):
                asked.set()
                await go_on.wait()
                return hangup(request, node_id)

            broker.faults[ApiKey.METADATA].append(answer_late)
            caller = asyncio.create_task(cluster.refresh())
            await asked.wait()
            caller.cancel()
            await asyncio.gather(caller, return_exceptions=True)
            asking = [each for each in asyncio.all_tasks() if "Cluster._ask" in repr(each)]
            go_on.set()
            await asyncio.wait(asking)  # which does not look at what they raised

    run(scenario())
    gc.collect()
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_attempts_end_where_the_deadline_leaves_no_time_for_a_pause(run):
    async def scenario():
        grows = ExponentialBackoff(initial_ms=1, max_ms=60_000, uniform=lambda low, high: 1.0, multiplier=100)
        attempts = Attempts(grows, Deadline(5_000))
        assert await attempts.another()
        assert await attempts.another()
        assert not await attempts.another(), "a pause of ten seconds does not fit"
        assert attempts.failed == 2

    run(scenario(), seconds=3)


class StumblingCluster:
    """Answers a look-up of a coordinator at the third attempt."""

    def __init__(self):
        self.answers = [
            DisconnectedError("no broker"),
            KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE),
            FindCoordinatorResponse(node_id=3, host="h", port=1),
        ]
        self.pauses = []
        self.backoff = self

    async def ask_any(self, request, answer, *, versions):
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def after(self, attempts):
        self.pauses.append(attempts)
        return 0

    async def refresh(self):
        raise DisconnectedError("no broker")


def test_a_coordinator_is_looked_up_again_after_pauses_that_grow(run):
    async def scenario():
        cluster = StumblingCluster()
        link = CoordinatorLink(cluster, "g", lambda: None)
        await link.find()
        assert cluster.pauses == [0, 1]
        assert link.node == Node(COORDINATOR_ID_BASE - 3, "h", 1)

    run(scenario())

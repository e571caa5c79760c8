"""A consumer in its group, against a scripted coordinator:
rounds, heartbeats, commits, and what goes wrong.
"""

import asyncio
import contextlib

import pytest
from fake_group import serve_group

from barnabas.client import (
    AsyncConsumer,
    ClientTimeoutError,
    CommitFailedError,
    GroupError,
    NoOffsetError,
    OffsetAndMetadata,
    TopicPartition,
)
from barnabas.core.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.consumer_protocol import ConsumerProtocolSubscription
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.metadata import MetadataResponseTopic
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse
from barnabas.records.batch import build_batch
from barnabas.records.record import Record

FAST = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "fetch_max_wait_ms": 10,
    "heartbeat_interval_ms": 20,
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 60_000,
    "group_id": "g",
}
T = [TopicPartition("t", number) for number in range(4)]


def fill(cluster, partition, *values):
    records = [Record(index, 1000 + index, None, value.encode(), ()) for index, value in enumerate(values)]
    cluster.append("t", partition, build_batch(records))


class Diary:
    """The calls of listeners."""

    def __init__(self):
        self.lines = []

    def listeners(self):
        return {
            name: lambda partitions, name=name: self.lines.append(
                (name[3:], [tp.partition for tp in partitions])
            )
            for name in ("on_assigned", "on_revoked", "on_lost")
        }


class Members:
    """Consumers that poll all the time."""

    def __init__(self):
        self.failures = []
        self._tasks = []

    def add(self, consumer, records=None):
        self._tasks.append(asyncio.create_task(self._poll(consumer, records)))
        return self._tasks[-1]

    async def _poll(self, consumer, records):
        while True:
            try:
                found = await consumer.poll(50)
            except BarnabasError as error:
                self.failures.append(error)
                return
            if records is not None:
                records += found

    async def stop(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


async def until(condition, seconds=20):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def world(fake, nodes=1, partitions=4):
    async with fake(nodes) as cluster:
        cluster.add_topic("t", partitions)
        members = Members()
        try:
            yield cluster, serve_group(cluster), members
        finally:
            await members.stop()


@contextlib.asynccontextmanager
async def consumer(cluster, **options):
    one = AsyncConsumer(cluster.bootstrap, **{**FAST, **options})
    try:
        yield one
    finally:
        await one.close(timeout_ms=500)


async def poll_until(one, condition, seconds=20):
    """Polls until the condition holds; what was read."""
    records = []
    async with asyncio.timeout(seconds):
        while not condition():
            records += await one.poll(20)
    return records


def test_a_member_joins_reads_commits_and_leaves(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            fill(cluster, 0, "a", "b")
            diary = Diary()
            async with consumer(cluster) as one:
                one.subscribe(["t"], **diary.listeners())
                assert one.subscription() == {"t"}
                records = await poll_until(one, lambda: one.lag(T[0]) == 0 if one.assignment() else False)
                assert [record.value for record in records] == [b"a", b"b"]
                assert one.assignment() == set(T)
                assert one.group_metadata() == ("g", 1, "m1", None)
                await one.commit()
                assert group.offsets["t", 0] == (2, "", 0)
                assert (await one.committed([T[0]]))[T[0]] == OffsetAndMetadata(2, "", 0)
            assert diary.lines == [("assigned", [0, 1, 2, 3]), ("revoked", [0, 1, 2, 3])]
            assert group.members == {}
            (leave,) = cluster.requests(ApiKey.LEAVE_GROUP)
            assert leave.members[0].reason == "the consumer is being closed"

    run(scenario())


def test_what_is_committed_is_where_the_next_one_begins(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            fill(cluster, 0, *map(str, range(10)))
            group.offsets["t", 0] = (7, "note", 0)
            async with consumer(cluster) as one:
                one.subscribe("t")
                records = await poll_until(one, lambda: one.lag(T[0]) == 0 if one.assignment() else False)
                assert [record.offset for record in records] == [7, 8, 9]
            assert group.offsets["t", 0] == (10, "", 0), "closing commits"

    run(scenario())


def test_an_eager_group_gives_up_everything_before_it_divides_again(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, members):
            first, second = Diary(), Diary()
            async with consumer(cluster) as one, consumer(cluster) as two:
                one.subscribe("t", **first.listeners())
                members.add(one)
                await until(lambda: len(one.assignment()) == 4)
                two.subscribe("t", **second.listeners())
                members.add(two)
                await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
                assert first.lines == [
                    ("assigned", [0, 1, 2, 3]),
                    ("revoked", [0, 1, 2, 3]),
                    ("assigned", [0, 1]),
                ]
                assert second.lines == [("assigned", [2, 3])]
                assert group.protocol == "range"
                await members.stop()

    run(scenario())


def test_a_cooperative_group_moves_only_what_has_to_move(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, members):
            options = {"partition_assignment_strategy": "cooperative-sticky"}
            first, second = Diary(), Diary()
            async with consumer(cluster, **options) as one, consumer(cluster, **options) as two:
                one.subscribe("t", **first.listeners())
                members.add(one)
                await until(lambda: len(one.assignment()) == 4)
                two.subscribe("t", **second.listeners())
                members.add(two)
                await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
                await until(lambda: group.generation == 3 and not group.rebalancing)
                assert first.lines[:2] == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3])]
                assert all(line == ("assigned", []) for line in first.lines[2:])
                assert ("assigned", [2, 3]) in second.lines
                await members.stop()

    run(scenario())


def test_a_member_goes_on_reading_what_it_keeps_while_others_join(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _members):
            options = {"partition_assignment_strategy": "cooperative-sticky"}
            async with consumer(cluster, **options) as one:
                one.subscribe("t")
                await poll_until(one, lambda: len(one.assignment()) == 4)
                group.expect = 2
                one.enforce_rebalance("because")
                await poll_until(one, lambda: bool(group.joining))
                fill(cluster, 3, "x")
                records = []
                while not records:
                    records = await one.poll(20)
                assert [record.value for record in records] == [b"x"]
                assert group.generation == 1
                assert cluster.requests(ApiKey.JOIN_GROUP)[-1].reason == "because"

    run(scenario())


def test_the_leader_divides_again_when_a_topic_grows(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, metadata_max_age_ms=30) as one:
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            cluster.add_topic("t", 6)
            await poll_until(one, lambda: len(one.assignment()) == 6)
            assert group.generation == 2
            await one.poll(100)
            assert group.generation == 2

    run(scenario())


def test_the_leader_watches_the_topics_of_all_members(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, members):
            cluster.add_topic("u", 1)
            async with consumer(cluster, metadata_max_age_ms=30) as one, consumer(cluster) as two:
                one.subscribe("t")
                members.add(one)
                await until(lambda: len(one.assignment()) == 4)
                two.subscribe(["t", "u"])
                members.add(two)
                await until(lambda: ("u", 0) in two.assignment())
                assert group.leader == one.group_metadata().member_id
                cluster.add_topic("u", 3)
                await until(lambda: ("u", 2) in two.assignment())
                await members.stop()

    run(scenario())


def test_what_a_member_owns_is_sent_with_the_generation_it_is_from(run, fake):
    async def scenario():
        async with (
            world(fake) as (cluster, _, _),
            consumer(cluster, partition_assignment_strategy=["cooperative-sticky"]) as one,
        ):
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            first = one.group_metadata().generation_id
            one.enforce_rebalance()
            await poll_until(one, lambda: one.group_metadata().generation_id == first + 1)
            told = [
                ConsumerProtocolSubscription.from_bytes(request.protocols[0].metadata)
                for request in cluster.requests(ApiKey.JOIN_GROUP)
            ]
            assert (told[0].generation_id, told[0].owned_partitions) == (-1, [])
            assert told[-1].generation_id == first
            assert [(one.topic, list(one.partitions)) for one in told[-1].owned_partitions] == [
                ("t", [0, 1, 2, 3])
            ]

    run(scenario())


def test_a_leader_leaves_an_assignment_alone_that_still_stands(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster, group_instance_id="i") as one:

            async def still_stands(request, node_id):
                response = await cluster._handle(ApiKey.JOIN_GROUP, request, node_id)
                response.skip_assignment = True
                return response

            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            cluster.faults[ApiKey.JOIN_GROUP].append(still_stands)
            one.enforce_rebalance()
            with contextlib.suppress(GroupError):  # this coordinator forgets; a real one (KIP-814) does not
                await poll_until(one, lambda: len(cluster.requests(ApiKey.SYNC_GROUP)) == 2)
            first, second = cluster.requests(ApiKey.SYNC_GROUP)[:2]
            assert (len(first.assignments), second.assignments) == (1, [])

    run(scenario())


def test_nothing_is_handed_out_between_the_last_commit_and_an_eager_rebalance(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, heartbeat_interval_ms=5000) as one:
            fill(cluster, 0, "a", "b", "c")
            one.subscribe("t")
            records = []
            while not records:
                records = await one.poll(100, 1)
            cluster.faults[ApiKey.OFFSET_COMMIT].append(lambda request, node_id: None)
            one.enforce_rebalance()
            assert [await one.poll(20) for _ in range(3)] == [[], [], []]
            (commit,) = cluster.requests(ApiKey.OFFSET_COMMIT)
            committed = {
                t.partitions[0].partition_index: t.partitions[0].committed_offset for t in commit.topics
            }
            assert committed[0] == 1
            assert group.generation == 1

    run(scenario())


def test_a_pattern_takes_in_new_topics_and_leaves_out_others(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster, metadata_max_age_ms=30) as one:
            cluster.add_topic("other", 1)
            one.subscribe(pattern="t[0-9]*")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            cluster.add_topic("t7", 1)
            await poll_until(one, lambda: len(one.assignment()) == 5)
            assert one.subscription() == {"t", "t7"}

    run(scenario())


def test_a_subscription_may_change(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            cluster.add_topic("u", 1)
            diary = Diary()
            one.subscribe(["t"])
            await poll_until(one, lambda: len(one.assignment()) == 4)
            one.subscribe(["u"], **diary.listeners())
            await poll_until(one, lambda: one.assignment() == {("u", 0)})
            assert diary.lines == [("revoked", [0, 1, 2, 3]), ("assigned", [0])]
            await one.unsubscribe()
            assert (one.assignment(), one.subscription()) == (frozenset(), frozenset())
            one.assign([T[1]])
            with pytest.raises(BarnabasError, match="mutually exclusive"):
                one.subscribe("t")

    run(scenario())


def test_a_topic_that_does_not_exist_yet_is_waited_for(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            one.subscribe(["later"])
            await poll_until(one, lambda: len(cluster.requests(ApiKey.SYNC_GROUP)) == 1)
            cluster.add_topic("later", 2)
            await poll_until(one, lambda: len(one.assignment()) == 2)

    run(scenario())


def test_positions_are_committed_now_and_then_but_only_after_they_were_handed_out(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, auto_commit_interval_ms=10) as one:
            fill(cluster, 0, "a", "b", "c")
            one.subscribe("t")
            records = []
            while not records:
                records = await one.poll(100, 2)
            await asyncio.sleep(0.03)
            assert group.offsets.get(("t", 0), (0,))[0] == 0
            await one.poll(0, 1)
            await until(lambda: group.offsets.get(("t", 0), (0,))[0] == 2)

    run(scenario())


def test_without_automatic_commits_nothing_is_committed(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            fill(cluster, 0, "a")
            async with consumer(cluster, enable_auto_commit=False) as one:
                one.subscribe("t")
                await poll_until(one, lambda: one.lag(T[0]) == 0 if one.assignment() else False)
            assert group.offsets == {}

    run(scenario())


def test_commit_callbacks_come_in_order_with_later_polls(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            told = []

            async def callback(offsets, error):
                told.append((offsets[T[0]].offset, error))

            one.assign([T[0]])
            one.commit_async({T[0]: 1}, callback)
            one.commit_async({T[0]: OffsetAndMetadata(2, "note")}, callback)
            assert told == []
            await one.commit({T[1]: 5})
            assert told == [(1, None), (2, None)]
            assert group.offsets["t", 0] == (2, "note", -1)
            (request, *_) = cluster.requests(ApiKey.OFFSET_COMMIT)
            assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")

    run(scenario())


def test_commits_name_topics_by_id_where_one_is_known(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            one.assign([T[0]])
            await one.commit({T[0]: 1})
            await one._cluster.refresh()
            cluster.faults[ApiKey.OFFSET_COMMIT].append(commit_answer(ErrorCode.UNKNOWN_TOPIC_ID))
            await one.commit({T[0]: 2})

            assert group.offsets["t", 0][0] == 2
            by_name, *by_id = [request.topics[0] for request in cluster.requests(ApiKey.OFFSET_COMMIT)]
            assert [(topic.name, topic.topic_id) for topic in by_id] == [("", cluster.topic_id("t"))] * 2
            assert by_name.name == "t" or by_name.topic_id == cluster.topic_id("t")

    run(scenario())


def test_a_member_that_was_thrown_out_hears_that_its_partitions_are_lost_and_comes_back(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, members), consumer(cluster) as one:
            diary = Diary()
            one.subscribe("t", **diary.listeners())
            members.add(one)
            await until(lambda: len(one.assignment()) == 4)
            group.expel("m1")
            await until(lambda: one.group_metadata().member_id == "m2" and len(one.assignment()) == 4)
            assert [kind for kind, _ in diary.lines] == ["assigned", "lost", "assigned"]
            await members.stop()

    run(scenario())


def test_a_member_of_another_generation_hears_that_its_partitions_are_lost_and_keeps_its_id(run, fake):
    """Whoever is in the group now may have them, though the coordinator knows the member."""

    async def scenario():
        async with world(fake) as (cluster, group, members), consumer(cluster) as one:
            diary = Diary()
            one.subscribe("t", **diary.listeners())
            members.add(one)
            await until(lambda: len(one.assignment()) == 4)
            before = group.generation
            group.generation += 5
            await until(lambda: group.generation == before + 6 and len(one.assignment()) == 4)
            assert one.group_metadata().member_id == "m1"
            assert [kind for kind, _ in diary.lines] == ["assigned", "lost", "assigned"]
            await members.stop()

    run(scenario())


def test_without_a_listener_for_losses_a_loss_is_a_revocation(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            revoked = []
            one.subscribe("t", on_revoked=revoked.extend)
            await poll_until(one, lambda: len(one.assignment()) == 4)
            group.expel("m1")
            await poll_until(one, lambda: revoked == T)

    run(scenario())


def test_commits_of_a_member_that_was_thrown_out_fail(run, fake):
    async def scenario():
        async with (
            world(fake) as (cluster, group, _),
            consumer(cluster, heartbeat_interval_ms=5000, session_timeout_ms=30_000) as one,
        ):
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            group.expel("m1")
            with pytest.raises(CommitFailedError, match="kicked out of the group") as refused:
                await one.commit({T[0]: 3})
            assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID
            with pytest.raises(
                CommitFailedError, check=lambda error: error.code is ErrorCode.UNKNOWN_MEMBER_ID
            ):
                await one.commit({T[0]: 3})
            await poll_until(one, lambda: one.group_metadata().member_id == "m2")

    run(scenario())


def test_a_commit_during_a_rebalance_may_be_tried_again(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            group.expect = 2
            one.enforce_rebalance()
            await poll_until(one, lambda: bool(group.joining))
            with pytest.raises(KafkaError, match="undergoing a rebalance") as refused:
                await one.commit({T[0]: 3})
            assert refused.value.code is ErrorCode.REBALANCE_IN_PROGRESS

    run(scenario())


def test_a_member_that_does_not_poll_leaves(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, max_poll_interval_ms=80) as one:
            diary = Diary()
            one.subscribe("t", **diary.listeners())
            await poll_until(one, lambda: len(one.assignment()) == 4)
            await until(lambda: not group.members)
            (leave,) = cluster.requests(ApiKey.LEAVE_GROUP)
            assert leave.members[0].reason == "consumer poll timeout has expired."
            assert diary.lines == [("assigned", [0, 1, 2, 3])], "listeners are called by polls alone"
            await poll_until(one, lambda: len(diary.lines) >= 3)
            assert [kind for kind, _ in diary.lines[:3]] == ["assigned", "lost", "assigned"]

    run(scenario())


def test_one_long_poll_is_not_silence(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, max_poll_interval_ms=600) as one:
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            await one.poll(900)
            assert list(group.members) == ["m1"]

    run(scenario())


def test_the_coordinator_may_move(run, fake):
    async def scenario():
        async with world(fake, nodes=2) as (cluster, group, members), consumer(cluster) as one:
            one.subscribe("t")
            members.add(one)
            await until(lambda: len(one.assignment()) == 4)

            def not_coordinator(request, node_id):
                assert node_id == 1
                group.coordinator = 2
                return HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)

            nodes = []

            def heard(request, node_id):
                nodes.append(node_id)
                return group.heartbeat(request, node_id)

            cluster.faults[ApiKey.HEARTBEAT].extend([not_coordinator, heard])
            await until(lambda: nodes == [2])
            assert group.generation == 1, "who finds the coordinator again stays in its generation"
            await members.stop()

    run(scenario())


def test_a_silent_coordinator_is_looked_up_again(run, fake):
    async def scenario():
        async with (
            world(fake) as (cluster, group, members),
            consumer(cluster, session_timeout_ms=100) as one,
        ):
            one.subscribe("t")
            members.add(one)
            await until(lambda: len(one.assignment()) == 4)
            asked = len(cluster.requests(ApiKey.FIND_COORDINATOR))
            cluster.faults[ApiKey.HEARTBEAT].append(lambda request, node_id: None)
            await until(lambda: len(cluster.requests(ApiKey.FIND_COORDINATOR)) > asked)
            heartbeats = len(cluster.requests(ApiKey.HEARTBEAT))
            await until(lambda: len(cluster.requests(ApiKey.HEARTBEAT)) > heartbeats + 2)
            assert group.generation == 1
            await members.stop()

    run(scenario())


def test_a_round_may_take_longer_than_a_session(run, fake):
    async def scenario():
        async with (
            world(fake) as (cluster, group, members),
            consumer(cluster, session_timeout_ms=100) as one,
            consumer(cluster, session_timeout_ms=100) as two,
        ):
            one.subscribe("t")
            two.subscribe("t")
            members.add(one)
            await until(lambda: len(one.assignment()) == 4)
            asked = len(cluster.requests(ApiKey.FIND_COORDINATOR))
            group.expect, group.rebalancing = 2, True
            await until(lambda: group.joining)
            await asyncio.sleep(0.3)
            members.add(two)
            await until(lambda: len(one.assignment()) == len(two.assignment()) == 2)
            assert group.generation == 2
            assert len(cluster.requests(ApiKey.FIND_COORDINATOR)) == asked + 1
            await members.stop()

    run(scenario())


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_group_that_is_not_ready_is_waited_for(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            cluster.faults[ApiKey.FIND_COORDINATOR].extend(
                [
                    lambda request, node_id: FindCoordinatorResponse(
                        error_code=code, node_id=-1, host="", port=-1
                    )
                ]
                * 2
            )
            cluster.faults[ApiKey.JOIN_GROUP].extend(
                [
                    lambda request, node_id: JoinGroupResponse(
                        error_code=code, leader="", member_id="", protocol_name="", members=[]
                    )
                ]
                * 2
            )
            cluster.faults[ApiKey.OFFSET_FETCH].append(
                lambda request, node_id: OffsetFetchResponse(error_code=code, topics=[])
            )
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            assert await one.position(T[0]) == 0

    run(scenario())


@pytest.mark.parametrize(
    "code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION]
)
def test_a_sync_that_fails_is_followed_by_another_round(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            cluster.faults[ApiKey.SYNC_GROUP].append(
                lambda request, node_id: SyncGroupResponse(error_code=code, assignment=b"")
            )
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                cluster.faults[ApiKey.SYNC_GROUP][0] = lambda request, node_id: (
                    group.members.clear(),
                    SyncGroupResponse(error_code=code, assignment=b""),
                )[1]
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            assert one.group_metadata().generation_id == 2
            kept = code is not ErrorCode.UNKNOWN_MEMBER_ID
            assert one.group_metadata().member_id == ("m1" if kept else "m2")

    run(scenario())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_refusal_reaches_the_caller_and_the_next_poll_tries_again(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            cluster.faults[ApiKey.JOIN_GROUP].append(
                lambda request, node_id: JoinGroupResponse(
                    error_code=code, leader="", member_id="", protocol_name="", members=[]
                )
            )
            one.subscribe("t")
            with pytest.raises(GroupError, match=r"\(group g\)") as refused:
                await poll_until(one, lambda: False)
            assert refused.value.code is code
            await poll_until(one, lambda: len(one.assignment()) == 4)

    run(scenario())


def test_no_right_to_the_group_is_said_at_once(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            refused = FindCoordinatorResponse(
                error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED, node_id=-1, host="", port=-1
            )
            cluster.faults[ApiKey.FIND_COORDINATOR].extend([lambda request, node_id: refused] * 2)
            one.subscribe("t")
            with pytest.raises(
                GroupError,
                match="Group authorization failed",
                check=lambda error: error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ):
                await poll_until(one, lambda: False)
            with pytest.raises(
                GroupError,
                match="Group authorization failed",
                check=lambda error: error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ):
                await one.committed([T[0]])

    run(scenario())


def test_a_static_member_learns_that_it_is_fenced_and_does_not_leave(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _group, _), consumer(cluster, group_instance_id="i") as one:
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            assert one.group_metadata().group_instance_id == "i"
            cluster.faults[ApiKey.HEARTBEAT].append(
                lambda request, node_id: HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
            )
            with pytest.raises(GroupError) as fenced:
                await poll_until(one, lambda: False)
            assert fenced.value.code is ErrorCode.FENCED_INSTANCE_ID
            await one.close()
            assert cluster.requests(ApiKey.LEAVE_GROUP) == []

    run(scenario())


def commit_answer(code):
    def fault(request, node_id):
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return fault


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_commit_is_tried_again_where_that_helps(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            cluster.faults[ApiKey.OFFSET_COMMIT].extend([commit_answer(code)] * 2)
            await one.commit({T[0]: 3})
            assert group.offsets["t", 0][0] == 3
            looked_up = [api for api, _ in cluster.seen].count(ApiKey.FIND_COORDINATOR)
            assert looked_up == (3 if code in elsewhere else 1)

    elsewhere = {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
    run(scenario())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.INVALID_GROUP_ID,
    ],
)
def test_a_commit_that_is_refused_says_why(run, fake, code):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            cluster.faults[ApiKey.OFFSET_COMMIT].append(commit_answer(code))
            with pytest.raises(GroupError) as refused:
                await one.commit({T[0]: 3})
            assert refused.value.code is code

    run(scenario())


def test_a_coordinator_that_cannot_be_found_is_named_in_time(run, fake):
    async def scenario():
        async with fake(1) as cluster:
            missing = FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, host="", port=-1
            )
            serve_group(cluster)
            cluster.faults[ApiKey.FIND_COORDINATOR].extend([lambda request, node_id: missing] * 1000)
            async with consumer(cluster) as one:
                with pytest.raises(ClientTimeoutError, match="coordinator of group g was not found"):
                    await one.commit({T[0]: 3}, timeout_ms=60)

    run(scenario())


def test_closing_in_the_middle_of_a_round_does_not_wait_for_it(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            one = AsyncConsumer(cluster.bootstrap, **FAST)
            one.subscribe("t")
            await poll_until(one, lambda: len(one.assignment()) == 4)
            group.expect = 2
            one.enforce_rebalance()
            await poll_until(one, lambda: bool(group.joining))
            await one.close()
            assert group.members == {}

    run(scenario())


def test_what_a_listener_raises_reaches_the_caller_and_the_rebalance_goes_on(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:

            async def stumble(partitions):
                raise ZeroDivisionError

            one.subscribe("t", on_assigned=stumble)
            with pytest.raises(ZeroDivisionError):
                await poll_until(one, lambda: False)
            assert len(one.assignment()) == 4
            await one.poll(20)

    run(scenario())


def test_the_listener_for_what_was_assigned_is_called_though_the_one_before_it_raised(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, members):
            options = {"partition_assignment_strategy": "cooperative-sticky"}
            calls = []

            def assigned(partitions):
                calls.append("assigned")

            def revoked(partitions):
                calls.append("revoked")
                if calls.count("revoked") == 1:
                    raise ZeroDivisionError

            async with consumer(cluster, **options) as one, consumer(cluster, **options) as two:
                one.subscribe("t", on_assigned=assigned, on_revoked=revoked)
                await poll_until(one, lambda: len(one.assignment()) == 4)
                two.subscribe("t")
                members.add(two)
                with pytest.raises(ZeroDivisionError):
                    await poll_until(one, lambda: False)
                assert calls == ["assigned", "revoked", "assigned"]
                await members.stop()

    run(scenario())


def test_a_listener_may_seek_and_commit(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            fill(cluster, 0, *map(str, range(10)))
            one = AsyncConsumer(cluster.bootstrap, **FAST, enable_auto_commit=False)

            async def on_revoked(partitions):
                await one.commit({T[0]: 9})

            one.subscribe("t", on_assigned=lambda _: one.seek(T[0], 8), on_revoked=on_revoked)
            records = await poll_until(one, lambda: one.lag(T[0]) == 0 if one.assignment() else False)
            assert [record.offset for record in records] == [8, 9]
            await one.close()
            assert group.offsets["t", 0][0] == 9

    run(scenario())


def test_without_a_committed_offset_and_a_policy_the_caller_has_to_say_where(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster, auto_offset_reset="none") as one:
            group.offsets.update({("t", number): (0, "", -1) for number in range(3)})
            one.subscribe("t")
            with pytest.raises(NoOffsetError, match=r"t-3 \(no position\)"):
                await poll_until(one, lambda: False)
            one.seek(T[3], 0)
            assert [await one.position(tp) for tp in T] == [0, 0, 0, 0]

    run(scenario())


def test_out_of_range_goes_by_the_policy_not_back_to_what_is_committed(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            fill(cluster, 0, "a", "b")
            group.offsets["t", 0] = (99, "", -1)
            one.subscribe("t")
            records = []
            while len(records) < 2:
                records += await one.poll(100)
            assert [record.offset for record in records] == [0, 1]

    run(scenario())


def test_polling_without_waiting_gets_there_too(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            fill(cluster, 0, "a")
            one.subscribe("t")
            records = []
            async with asyncio.timeout(20):
                while not records:
                    records = await one.poll()
            assert records[0].value == b"a"

    run(scenario())


def test_a_partition_that_is_paused_stays_so_through_a_cooperative_rebalance(run, fake):
    async def scenario():
        options = {"partition_assignment_strategy": "cooperative-sticky"}
        async with world(fake) as (cluster, _, _), consumer(cluster, **options) as one:
            rounds = []

            def on_assigned(assigned):
                rounds.append(assigned)
                one.pause(*assigned)

            one.subscribe("t", on_assigned=on_assigned)
            await poll_until(one, lambda: len(rounds) == 1)
            one.enforce_rebalance()
            await poll_until(one, lambda: len(rounds) == 2)
            assert rounds == [T, []]
            assert one.paused() == set(T)

    run(scenario())


def test_a_topic_that_may_not_be_read_is_named(run, fake):
    async def scenario():
        async with world(fake) as (cluster, _, _), consumer(cluster) as one:
            refused = MetadataResponseTopic(
                name="secret", error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partitions=[]
            )
            known = cluster._topic
            cluster._topic = lambda name: refused if name == "secret" else known(name)
            one.subscribe(["t", "secret"])
            with pytest.raises(KafkaError, match=r"\(topic secret\)") as failed:
                await poll_until(one, lambda: False)
            assert failed.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(scenario())


def test_cancelling_a_poll_leaves_the_member_whole(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _), consumer(cluster) as one:
            one.subscribe("t")
            for _ in range(30):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(one.poll(1000), 0.003)
            await poll_until(one, lambda: len(one.assignment()) == 4)
            assert list(group.members) == ["m1"]

    run(scenario())


def test_an_old_coordinator_is_asked_in_its_own_words(run, fake):
    async def scenario():
        async with world(fake) as (cluster, group, _):
            cluster.versions.update(
                {ApiKey.OFFSET_FETCH: (1, 5), ApiKey.JOIN_GROUP: (0, 4), ApiKey.SYNC_GROUP: (0, 2)}
            )
            group.offsets["t", 0] = (0, "", -1)
            async with consumer(cluster) as one:
                one.subscribe("t")
                await poll_until(one, lambda: len(one.assignment()) == 4)
                assert await one.position(T[0]) == 0

    run(scenario())


def test_what_cannot_work_is_refused_at_once(run, fake):
    for options in (
        {"partition_assignment_strategy": "best"},
        {"heartbeat_interval_ms": 50_000},
        {"partition_assignment_strategy": ""},
    ):
        with pytest.raises(ConfigError):
            AsyncConsumer("127.0.0.1:1", group_id="g", **options)
    with pytest.raises(ConfigError, match=r"default group id \(null\)"):
        AsyncConsumer("127.0.0.1:1", enable_auto_commit=True)

    async def scenario():
        one = AsyncConsumer("127.0.0.1:1")
        with pytest.raises(
            KafkaError, match=r"valid group\.id", check=lambda error: error.code is ErrorCode.INVALID_GROUP_ID
        ):
            one.subscribe("t")
        with pytest.raises(
            KafkaError, match=r"valid group\.id", check=lambda error: error.code is ErrorCode.INVALID_GROUP_ID
        ):
            await one.commit({})
        async with consumer(type("Nowhere", (), {"bootstrap": "127.0.0.1:1"})) as one:
            with pytest.raises(BarnabasError, match="topics or to a pattern"):
                one.subscribe([])
            with pytest.raises(BarnabasError, match="Invalid offset: -1"):
                await one.commit({T[0]: -1})

    run(scenario())

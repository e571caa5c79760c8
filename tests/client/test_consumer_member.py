"""A consumer in a group of the protocol ``consumer``, against a scripted coordinator: what it gives up, takes
and tells, and what goes wrong.
"""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest
from fake_group import serve_group
from test_group_rounds import FAST, Diary, Members, fill, poll_until, until

from barnabas.client import AsyncConsumer, GroupError
from barnabas.client.group import consumer_member
from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fake_cluster import hangup

OPTIONS = {name: value for name, value in FAST.items() if name != "heartbeat_interval_ms"}


class Coordinator:
    """A group with one member, whose target a test sets; offsets are the other protocol's."""

    def __init__(self, cluster):
        self.offsets = serve_group(cluster)
        self.interval_ms = 20
        self.joins = 0
        self.owned = None
        """What the member has told last, as numbers of one topic."""
        self.refusals = []
        self.left = []
        self._cluster = cluster
        self._epoch = 0
        self._target = ()
        self._is_news = False
        cluster.versions[ApiKey.CONSUMER_GROUP_HEARTBEAT] = (0, 1)
        cluster._consumer_group_heartbeat = self._heartbeat

    def give(self, *numbers):
        """The member is to own these partitions of topic t."""
        self._target, self._is_news = numbers, True
        self._epoch += 1

    def _heartbeat(self, request, node_id):
        if request.member_epoch < 0:
            self.left.append(request.member_epoch)
            return ConsumerGroupHeartbeatResponse(member_epoch=request.member_epoch)
        if self.refusals:
            return ConsumerGroupHeartbeatResponse(error_code=self.refusals.pop(0))
        if request.member_epoch == 0:
            self.joins += 1
            self._is_news = True
        if request.topic_partitions is not None:
            self.owned = sorted(number for topic in request.topic_partitions for number in topic.partitions)
        self.offsets.members[request.member_id] = request
        self.offsets.generation = self._epoch
        assignment = None
        if self._is_news:
            self._is_news = False
            topic = TopicPartitions(topic_id=self._cluster.topic_id("t"), partitions=list(self._target))
            assignment = Assignment(topic_partitions=[topic] if self._target else [])
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=self._epoch,
            heartbeat_interval_ms=self.interval_ms,
            assignment=assignment,
        )


@contextlib.asynccontextmanager
async def member(fake, given=(0, 1, 2, 3), listeners=None, **options):
    """A consumer that is to own these partitions, and does."""
    async with fake(1) as cluster:
        cluster.add_topic("t", 4)
        coordinator = Coordinator(cluster)
        coordinator.give(*given)
        one = AsyncConsumer(cluster.bootstrap, group_protocol="consumer", **{**OPTIONS, **options})
        one.subscribe("t", **(listeners or {}))
        try:
            await poll_until(one, lambda: numbers(one) == list(given))
            yield cluster, coordinator, one
        finally:
            await one.close(timeout_ms=500)


async def read(one, count):
    """Polls until there were so many records."""
    records = []
    async with asyncio.timeout(20):
        while len(records) < count:
            records += await one.poll(20)
    return records


def numbers(one):
    return sorted(tp.partition for tp in one.assignment())


def commits_answered(code):
    def answer(request, node_id):
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

    return answer


def test_what_was_taken_is_told_at_once(run, fake):
    async def scenario():
        async with fake(1) as cluster:
            cluster.add_topic("t", 4)
            coordinator = Coordinator(cluster)
            coordinator.interval_ms = 3_600_000
            coordinator.give(1, 2)
            async with AsyncConsumer(cluster.bootstrap, group_protocol="consumer", **OPTIONS) as one:
                one.subscribe("t")
                await poll_until(one, lambda: coordinator.owned == [1, 2])
                assert numbers(one) == [1, 2]
                assert one.group_metadata().generation_id == 1
            assert coordinator.left == [-1]

    run(scenario())


def test_positions_are_committed_before_partitions_are_given_up(run, fake):
    diary = Diary()

    async def scenario():
        async with member(fake, listeners=diary.listeners()) as (cluster, coordinator, one):
            for number in range(4):
                fill(cluster, number, "a", "b")
            await read(one, 8)
            cluster.seen.clear()
            coordinator.give(0, 1)
            await poll_until(one, lambda: coordinator.owned == [0, 1])
            order = [api for api, request in cluster.seen if _is_told(api, request)]
            assert order[:2] == [ApiKey.OFFSET_COMMIT, ApiKey.CONSUMER_GROUP_HEARTBEAT]
            assert {coordinator.offsets.offsets["t", number][0] for number in range(4)} == {2}
            assert diary.lines == [("assigned", [0, 1, 2, 3]), ("revoked", [2, 3]), ("assigned", [])]

    run(scenario())


def _is_told(api, request):
    told = api is ApiKey.CONSUMER_GROUP_HEARTBEAT and request.topic_partitions is not None
    return told or api is ApiKey.OFFSET_COMMIT


def test_nothing_is_handed_out_of_what_is_being_given_up(run, fake):
    async def scenario():
        async with member(fake) as (cluster, coordinator, one):
            may_commit, asked = asyncio.Event(), asyncio.Event()

            async def answer(request, node_id):
                asked.set()
                await may_commit.wait()
                return commits_answered(ErrorCode.NONE)(request, node_id)

            fill(cluster, 0, "first")
            await read(one, 1)
            cluster.faults[ApiKey.OFFSET_COMMIT].append(answer)
            coordinator.give(0)
            await poll_until(one, asked.is_set)
            for number in range(4):
                fill(cluster, number, str(number))
            records = await read(one, 1)
            records += await one.poll(50)
            assert {record.partition for record in records} <= {0}
            may_commit.set()
            records += await poll_until(one, lambda: coordinator.owned == [0])
            assert {record.partition for record in records} <= {0}

    run(scenario())


def test_what_is_not_given_up_after_all_is_read_on_and_committed_anew(run, fake):
    async def scenario():
        async with member(fake) as (cluster, coordinator, one):
            refusal = commits_answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            cluster.faults[ApiKey.OFFSET_COMMIT].extend([refusal] * 1000)
            coordinator.give(0)
            await poll_until(one, lambda: cluster.requests(ApiKey.OFFSET_COMMIT))
            coordinator.give(0, 1, 2, 3)
            await poll_until(one, lambda: one.group_metadata().generation_id == 3)
            cluster.faults[ApiKey.OFFSET_COMMIT].clear()
            fill(cluster, 3, "a", "b")
            assert len(await read(one, 2)) == 2
            coordinator.give(0)
            await poll_until(one, lambda: coordinator.owned == [0])
            assert coordinator.offsets.offsets["t", 3][0] == 2

    run(scenario())


def test_a_commit_in_the_epoch_of_before_is_made_again(run, fake):
    async def scenario():
        async with member(fake) as (cluster, coordinator, one):
            fill(cluster, 0, "a")
            await read(one, 1)
            cluster.faults[ApiKey.OFFSET_COMMIT].append(commits_answered(ErrorCode.STALE_MEMBER_EPOCH))
            await one.commit()
            assert coordinator.offsets.offsets["t", 0][0] == 1

    run(scenario())


def test_a_deleted_topic_holds_nothing_up(run, fake):
    async def scenario():
        async with member(fake) as (cluster, coordinator, one):
            fill(cluster, 0, "a")
            await read(one, 1)
            refusal = commits_answered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            cluster.faults[ApiKey.OFFSET_COMMIT].append(refusal)
            coordinator.give()
            await poll_until(one, lambda: coordinator.owned == [])
            assert len(cluster.requests(ApiKey.OFFSET_COMMIT)) == 1

    run(scenario())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_one_that_is_thrown_out_loses_everything_and_joins_again(run, fake, code):
    diary = Diary()

    async def scenario():
        async with member(fake, listeners=diary.listeners()) as (_, coordinator, one):
            coordinator.refusals.append(code)
            await poll_until(one, lambda: coordinator.joins == 2 and numbers(one) == [0, 1, 2, 3])
            assert diary.lines == [
                ("assigned", [0, 1, 2, 3]),
                ("lost", [0, 1, 2, 3]),
                ("assigned", [0, 1, 2, 3]),
            ]

    run(scenario())


def test_one_that_is_thrown_out_while_its_listener_runs_loses_the_rest(run, fake):
    lines = []

    async def scenario():
        async def on_revoked(partitions):
            lines.append(("revoked", [tp.partition for tp in partitions]))
            coordinator.refusals.append(ErrorCode.FENCED_MEMBER_EPOCH)
            await until(lambda: not coordinator.refusals)
            await until(lambda: one.group_metadata().generation_id < 0)

        listeners = {
            "on_revoked": on_revoked,
            "on_lost": lambda those: lines.append(("lost", [tp.partition for tp in those])),
        }
        async with member(fake, listeners=listeners) as (_, coordinator, one):
            coordinator.give(0, 1)
            await poll_until(one, lambda: coordinator.joins == 2 and numbers(one) == [0, 1])
            assert lines == [("revoked", [2, 3]), ("lost", [0, 1])]
            lines.clear()
            one._subscriptions.on_revoked = None

    run(scenario())


def test_a_topic_that_was_made_anew_is_another_topic(run, fake):
    diary = Diary()

    async def scenario():
        async with member(fake, (0,), diary.listeners(), metadata_max_age_ms=20) as (
            cluster,
            coordinator,
            one,
        ):
            cluster.ids["t"] = b"u" * 16
            while await one.topic_id("t") != b"u" * 16:
                await one.poll(20)
            coordinator.give(0)
            await poll_until(one, lambda: len(diary.lines) == 3)
            assert diary.lines == [("assigned", [0]), ("revoked", [0]), ("assigned", [0])]

    run(scenario())


def test_a_lost_connection_has_everything_told_again(run, fake):
    async def scenario():
        async with member(fake) as (cluster, _, one):
            cluster.seen.clear()
            cluster.faults[ApiKey.CONSUMER_GROUP_HEARTBEAT].append(hangup)
            told = lambda: [  # noqa: E731
                request
                for request in cluster.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)
                if request.subscribed_topic_names
            ]
            await poll_until(one, told)
            assert told()[0].subscribed_topic_names == ["t"]
            assert [topic.partitions for topic in told()[0].topic_partitions] == [[0, 1, 2, 3]]
            assert told()[0].member_epoch == 1

    run(scenario())


def test_a_topic_that_may_not_be_read_is_named_and_the_member_stays(run, fake):
    async def scenario():
        async with member(fake) as (_, coordinator, one):
            coordinator.refusals.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            members = Members()
            try:
                members.add(one)
                await until(lambda: members.failures)
            finally:
                await members.stop()
            (failure,) = members.failures
            assert isinstance(failure, GroupError)
            assert failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            await one.poll(50)
            assert (numbers(one), coordinator.joins) == ([0, 1, 2, 3], 1)

    run(scenario())


def test_one_that_cannot_be_in_the_group_says_so_at_each_poll(run, fake):
    async def scenario():
        async with member(fake) as (_, coordinator, one):
            coordinator.refusals.append(ErrorCode.GROUP_MAX_SIZE_REACHED)
            await until(lambda: not coordinator.refusals)
            await until(lambda: one.group_metadata().generation_id < 0)
            for _ in range(2):
                with pytest.raises(GroupError):
                    await one.poll(50)

    run(scenario())


def test_one_whose_caller_does_not_poll_leaves_and_comes_back(run, fake):
    diary = Diary()

    async def scenario():
        async with member(fake, (0,), diary.listeners(), max_poll_interval_ms=300) as (_, coordinator, one):
            await until(lambda: coordinator.left == [-1])
            assert numbers(one) == [0]
            await poll_until(one, lambda: coordinator.joins == 2 and numbers(one) == [0])
            assert diary.lines == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]

    run(scenario())


def test_a_static_member_says_that_it_will_be_back(run, fake):
    async def scenario():
        async with member(fake, group_instance_id="i") as (_, coordinator, one):
            await one.close()
            assert coordinator.left == [-2]

    run(scenario())


def test_another_subscription_is_told(run, fake):
    async def scenario():
        async with member(fake) as (cluster, coordinator, one):
            coordinator.interval_ms = 3_600_000
            cluster.add_topic("u")
            one.subscribe(["t", "u"])
            last = lambda: cluster.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)[-1]  # noqa: E731
            await poll_until(one, lambda: last().subscribed_topic_names == ["t", "u"])
            await one.unsubscribe()
            assert (numbers(one), coordinator.left) == ([], [-1])

    run(scenario())


def test_a_member_that_is_thrown_out_each_time_does_not_ask_without_end(run, fake, monkeypatch):
    """It joins again at once, and then only after the pause, which is an hour here."""
    backoff = SimpleNamespace(after=lambda _: 3_600_000)
    monkeypatch.setattr(consumer_member, "ExponentialBackoff", lambda **_: backoff)

    async def scenario():
        async with member(fake) as (_, coordinator, one):
            coordinator.refusals = [ErrorCode.UNKNOWN_MEMBER_ID] * 50
            await poll_until(one, lambda: len(coordinator.refusals) <= 48)
            for _ in range(20):
                await one.poll(5)
            assert len(coordinator.refusals) == 48

    run(scenario())

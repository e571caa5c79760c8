"""Our consumers as members of groups of both protocols on our own broker: sharing, dying, and a broker that
dies.
"""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys

import pytest

from barnabas.admin import Admin, AsyncAdmin, NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer, TopicPartition
from barnabas.client.errors import GroupError
from barnabas.core.errors import ConfigError

SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=500",
    "group.consumer.min.session.timeout.ms=500",
    "group.consumer.session.timeout.ms=1500",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=100",
    "group.consumer.migration.policy=bidirectional",
    "offsets.topic.num.partitions=3",
)
OPTIONS = [word for setting in SETTINGS for word in ("--set", setting)]
FAST = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500}
CLASSIC = {"session_timeout_ms": 1500, "heartbeat_interval_ms": 100}
CONSUMER = {"group_protocol": "consumer"}
MEMBER = """
import json, sys
from barnabas.client import Consumer
consumer = Consumer(sys.argv[1], group_id=sys.argv[2], **json.loads(sys.argv[4]))
consumer.subscribe([sys.argv[3]])
while True:
    consumer.poll(100)
    print(len(consumer.assignment()), flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve):
    one = serve(tmp_path_factory.mktemp("groups") / "data", *OPTIONS)
    one.wait_until_ready()
    yield one
    one.kill()


@pytest.fixture(params=[CLASSIC, CONSUMER], ids=["classic", "consumer"])
def protocol(request):
    """The options of a member of each protocol."""
    return request.param


@pytest.fixture
def topic(server, topic_name):
    name = topic_name("groups")
    with Admin(f"127.0.0.1:{server.port}") as admin:
        admin.topics.create(NewTopic(name, partitions=4))
    return name


async def fill(bootstrap, topic, numbers):
    async with AsyncProducer(bootstrap) as producer:
        for number in numbers:
            await producer.send(topic, str(number), partition=number % 4)


class Group:
    """Members that poll all the time, and what they have read."""

    def __init__(self, bootstrap, topic, **options):
        self.bootstrap, self.topic, self.options = bootstrap, topic, options
        self.values = []
        self.members = []
        self._tasks = []

    def join(self):
        one = AsyncConsumer(self.bootstrap, group_id=f"{self.topic}-group", **{**FAST, **self.options})
        one.subscribe([self.topic])
        self.members.append(one)
        self._tasks.append(asyncio.create_task(self._poll(one)))
        return one

    async def _poll(self, one):
        while True:
            self.values += [int(record.value) for record in await one.poll(200)]

    async def until(self, condition, seconds=30):
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)
                for task in self._tasks:
                    if task.done():
                        task.result()

    async def share(self):
        """Until every partition has one owner and everybody has some."""

        def shared():
            owned = [sorted(one.assignment()) for one in self.members]
            everything = sorted(tp for part in owned for tp in part)
            return everything == [(self.topic, number) for number in range(4)] and all(owned)

        await self.until(shared)

    async def stop_polling(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.stop_polling()
        for one in self.members:
            await one.close(timeout_ms=3000)


@pytest.mark.parametrize(
    "options",
    [
        *(
            CLASSIC | {"partition_assignment_strategy": strategy}
            for strategy in (["range", "cooperative-sticky"], "cooperative-sticky", "sticky", "roundrobin")
        ),
        CONSUMER,
        CONSUMER | {"group_remote_assignor": "range"},
    ],
)
def test_members_share_and_nothing_is_read_twice(run, server, topic, options):
    async def scenario():
        bootstrap = f"127.0.0.1:{server.port}"
        await fill(bootstrap, topic, range(100))
        async with Group(bootstrap, topic, **options) as group:
            group.join()
            await group.share()
            group.join()
            await group.share()
            await fill(bootstrap, topic, range(100, 200))
            await group.until(lambda: len(group.values) >= 200)
            await group.stop_polling()
        assert sorted(group.values) == list(range(200))
        async with AsyncConsumer(bootstrap, group_id=f"{topic}-group") as later:
            committed = await later.committed([TopicPartition(topic, number) for number in range(4)])
        assert {one.offset for one in committed.values()} == {50}

    run(scenario(), 60)


def test_a_member_that_dies_is_taken_over_after_its_session(run, server, topic, protocol):
    bootstrap = f"127.0.0.1:{server.port}"

    async def scenario(child):
        async with Group(bootstrap, topic, **protocol) as group:
            one = group.join()
            await group.until(lambda: len(one.assignment()) == 2)
            child.send_signal(signal.SIGKILL)
            await group.share()

    child = subprocess.Popen(
        [sys.executable, "-c", MEMBER, bootstrap, f"{topic}-group", topic, json.dumps(protocol)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert any(line.strip() == "4" for line in iter(child.stdout.readline, ""))
        run(scenario(child), 60)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_a_group_outlives_its_broker(run, serve, tmp_path, topic_name, protocol):
    topic = topic_name("outlived")
    server = serve(tmp_path / "data", *OPTIONS)
    server.wait_until_ready()
    bootstrap = f"127.0.0.1:{server.port}"
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic(topic, partitions=4))

    async def scenario():
        options = protocol | ({"session_timeout_ms": 10_000} if protocol is CLASSIC else {})
        async with Group(bootstrap, topic, auto_commit_interval_ms=100, **options) as group:
            for _ in range(2):
                group.join()
                await group.share()
            await fill(bootstrap, topic, range(100))
            await group.until(lambda: len(group.values) >= 100)
            ids = {one.group_metadata().member_id for one in group.members}
            server.kill()
            again = serve(tmp_path / "data", *OPTIONS, "--port", str(server.port))
            with contextlib.closing(contextlib.ExitStack()) as ending:
                ending.callback(again.kill)
                await asyncio.to_thread(again.wait_until_ready)
                await fill(bootstrap, topic, range(100, 200))
                await group.until(lambda: set(group.values) == set(range(200)))
                await group.share()
                assert {one.group_metadata().member_id for one in group.members} == ids
                await group.stop_polling()
                for one in group.members:
                    await one.close(timeout_ms=3000)

    run(scenario(), 60)


def test_a_topic_that_does_not_exist_yet_is_named_once_and_read_once_it_does(
    run, server, topic_name, caplog, protocol
):
    topic, bootstrap = topic_name("later"), f"127.0.0.1:{server.port}"

    async def scenario():
        async with AsyncConsumer(bootstrap, group_id=topic, **FAST, **protocol) as consumer:
            consumer.subscribe([topic])
            answers = []
            consumer._cluster.watch(lambda metadata, _topics: answers.append(metadata))
            # Further answers say the same, and lead to no further line.
            while not caplog.records or len(answers) < 4:
                assert await consumer.poll(timeout_ms=100) == []
            async with AsyncAdmin(bootstrap) as admin:
                await admin.topics.create(NewTopic(topic, partitions=1))
            await fill(bootstrap, topic, [0])
            while not (records := await consumer.poll(timeout_ms=100)):
                pass
            return records

    assert [record.value for record in run(scenario())] == [b"0"]
    (line,) = [each.getMessage() for each in caplog.records if each.name == "barnabas.client.group"]
    assert (
        line
        == f'topic.missing topic={topic} group={topic} advice="it is read once it exists; is the name right?"'
    )


def test_members_of_both_protocols_share_a_group(run, server, topic):
    """KIP-848's way from one protocol to the other: members are replaced one after the other."""

    async def scenario():
        bootstrap = f"127.0.0.1:{server.port}"
        await fill(bootstrap, topic, range(100))
        async with Group(bootstrap, topic, **CLASSIC) as group:
            group.join()
            await group.share()
            group.options = CONSUMER
            group.join()
            await group.share()
            await fill(bootstrap, topic, range(100, 200))
            await group.until(lambda: len(group.values) >= 200)
            await group.stop_polling()
        assert sorted(group.values) == list(range(200))

    run(scenario(), 60)


def test_a_member_whose_caller_does_not_poll_leaves_and_comes_back(run, server, topic):
    lost = []

    async def scenario():
        bootstrap = f"127.0.0.1:{server.port}"
        await fill(bootstrap, topic, range(100))
        options = FAST | CONSUMER | {"group_id": f"{topic}-group"}
        async with AsyncConsumer(bootstrap, **options, max_poll_interval_ms=600) as slow:
            slow.subscribe(topic, on_lost=lost.append)
            while len(slow.assignment()) < 4:
                await slow.poll(100)
            async with AsyncConsumer(bootstrap, **options) as other:
                other.subscribe(topic)
                # The slow one's caller is busy from here on.
                while len(other.assignment()) < 4:
                    await other.poll(100)
                assert not lost
                while len(slow.assignment()) != 2 or len(other.assignment()) != 2:
                    await slow.poll(50)
                    await other.poll(50)
        assert lost == [[TopicPartition(topic, number) for number in range(4)]]

    run(scenario(), 60)


def test_a_topic_that_is_made_anew_is_read_from_its_beginning(run, server, topic):
    async def scenario():
        bootstrap = f"127.0.0.1:{server.port}"
        await fill(bootstrap, topic, range(100))
        revoked = []
        async with (
            AsyncAdmin(bootstrap) as admin,
            AsyncConsumer(bootstrap, group_id=f"{topic}-group", **FAST, **CONSUMER) as consumer,
        ):
            consumer.subscribe(topic, on_revoked=revoked.extend)
            values = []
            while len(values) < 100:
                values += [int(record.value) for record in await consumer.poll(100)]
            await admin.topics.delete(topic)
            while len(revoked) < 4:
                await consumer.poll(100)
            await admin.topics.create(NewTopic(topic, partitions=4))
            await fill(bootstrap, topic, range(100, 110))
            while len(values) < 110:
                values += [int(record.value) for record in await consumer.poll(100)]
            assert sorted(values) == list(range(110))

    run(scenario(), 60)


async def polls_without_end(consumer):
    while True:
        await consumer.poll(100)


def test_a_broker_without_the_protocol_is_named(run, serve, tmp_path):
    server = serve(tmp_path / "data", "--set", "barnabas.api.profile=3.9")
    server.wait_until_ready()

    async def scenario():
        async with AsyncConsumer(f"127.0.0.1:{server.port}", group_id="g", **FAST, **CONSUMER) as consumer:
            consumer.subscribe("any")
            with pytest.raises(GroupError, match="The cluster does not support the new CONSUMER group"):
                await polls_without_end(consumer)

    run(scenario(), 30)


@pytest.mark.parametrize("option", ["session_timeout_ms", "heartbeat_interval_ms"])
def test_what_the_coordinator_chooses_cannot_be_set(option):
    with pytest.raises(ConfigError, match=r"cannot be set when group.protocol=CONSUMER"):
        AsyncConsumer("127.0.0.1:1", group_id="g", group_protocol="CONSUMER", **{option: 1000})

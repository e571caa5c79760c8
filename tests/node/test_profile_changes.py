"""``barnabas.api.profile=auto`` changes under clients that are at work, of the age of either profile.

The broker believes that its store is ZooKeeper: a Kafka 3.9 registers there and goes, more than once.
"""

import asyncio
import contextlib
import dataclasses
import itertools

import aiokafka
import pytest

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.broker_config import WITHOUT_FILE, broker_config
from barnabas.node.broker_node import BrokerNode, wait
from barnabas.node.environment import of_machine

TOPIC = "orders"
PARTITIONS = 3
KAFKA_39 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:1"],"jmx_port":-1,"port":1,"host":"127.0.0.1",'
    b'"version":5,"timestamp":"1700000000000"}'
)
"""It registers and is not reached, as one that has just begun to start."""


@contextlib.asynccontextmanager
async def broker(folder, ensemble):
    loop = asyncio.get_running_loop()
    config = broker_config(
        {
            **WITHOUT_FILE,
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(folder),
            "zookeeper.connect": "in-this-process:2181",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.min.heartbeat.interval.ms": "100",
            "group.consumer.heartbeat.interval.ms": "100",
        }
    )
    environment = dataclasses.replace(
        of_machine(config, loop), open_store=lambda: MemoryStore(ensemble, loop.call_soon)
    )
    node = BrokerNode(config, environment)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


@contextlib.asynccontextmanager
async def kafka_39(ensemble):
    """A broker of Kafka 3.9 is registered."""
    session = MemoryStore(ensemble, asyncio.get_running_loop().call_soon)
    await wait(session.start())
    await wait(session.create("/brokers/ids/22", KAFKA_39, ephemeral=True))
    try:
        yield
    finally:
        await wait(session.close())


def profile(node):
    return node.config["barnabas.api.profile"]


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the broker has no event for it
        await asyncio.sleep(0.01)


class Load:
    """Writers and readers of both ages, at work until they are stopped."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.written, self.read = [], {"today": [], "before": []}
        self._numbers = itertools.count()
        self._stopped = self._all_written = False

    @contextlib.asynccontextmanager
    async def at_work(self):
        async with asyncio.TaskGroup() as readers:
            readers.create_task(self.read_today())
            readers.create_task(self.read_before())
            async with asyncio.TaskGroup() as writers:
                writers.create_task(self.write_today())
                writers.create_task(self.write_before())
                yield
                self._stopped = True
            # Until here a record may be stored whose writer has not been told yet.
            self._all_written = True

    def newcomers(self, tasks):
        """Writers that meet the profile of this moment."""
        return [tasks.create_task(self.write_today(10)), tasks.create_task(self.write_before(10))]

    async def write_today(self, count=None):
        async with AsyncProducer(self.bootstrap) as producer:
            await self._write(lambda value: producer.send(TOPIC, value), count)

    async def write_before(self, count=None):
        """aiokafka names topics by their names, and looks for no feature."""
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            await self._write(lambda value: producer.send_and_wait(TOPIC, value), count)

    async def _write(self, send, count):
        for _ in itertools.repeat(0) if count is None else range(count):
            if self._stopped:
                return
            value = b"%d" % next(self._numbers)
            await send(value)
            self.written.append(value)
            await asyncio.sleep(0)

    async def read_today(self):
        options = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "today",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
        }
        async with AsyncConsumer(options) as consumer:
            consumer.subscribe([TOPIC])
            while not self._is_done("today"):
                self.read["today"] += [record.value for record in await consumer.poll(timeout_ms=100)]

    async def read_before(self):
        options = {"group_id": "before", "auto_offset_reset": "earliest"}
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, bootstrap_servers=self.bootstrap, **options)
        async with consumer:
            while not self._is_done("before"):
                found = await consumer.getmany(timeout_ms=100)
                self.read["before"] += [record.value for records in found.values() for record in records]

    def _is_done(self, group):
        return self._all_written and len(self.read[group]) >= len(self.written)

    def has_gone_on(self):
        """Whether each kind of reader has come further since this function was made."""
        before = {group: len(values) for group, values in self.read.items()}
        return lambda: all(len(values) > before[group] + 10 for group, values in self.read.items())


@pytest.mark.timeout(60)
def test_clients_of_both_ages_lose_nothing_while_the_profile_changes(run, tmp_path):
    async def scenario():
        ensemble = MemoryEnsemble()
        async with broker(tmp_path, ensemble) as node:
            bootstrap = f"127.0.0.1:{node.endpoints[0].port}"
            async with AsyncAdmin(bootstrap) as admin:
                await admin.topics.create(NewTopic(TOPIC, partitions=PARTITIONS))
            load = Load(bootstrap)
            async with load.at_work(), asyncio.TaskGroup() as tasks:
                await until(load.has_gone_on())
                for _ in range(2):
                    assert profile(node) == "4.4"
                    async with kafka_39(ensemble):
                        await until(lambda: profile(node) == "3.9")
                        await asyncio.gather(*load.newcomers(tasks))
                        await until(load.has_gone_on())
                    await until(lambda: profile(node) == "4.4")
                    await asyncio.gather(*load.newcomers(tasks))
                    await until(load.has_gone_on())
            for group, values in load.read.items():
                assert sorted(values) == sorted(load.written), group

    run(scenario(), 50)

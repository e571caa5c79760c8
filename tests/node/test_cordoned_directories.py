"""A broker whose directories are cordoned, at its start and while it runs (KIP-1066)."""

from contextlib import suppress
from itertools import count

import pytest

from barnabas.admin.admin import AsyncAdmin
from barnabas.admin.types import ConfigResource, NewTopic, ResourceType
from barnabas.core.errors import KafkaError
from barnabas.node.broker_node import BrokerNode

BROKER = ConfigResource(ResourceType.BROKER, "0")


def test_directories_are_cordoned_and_freed_and_the_start_remembers(run, tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    settings = {
        "broker.id": "0",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": f"{first},{second}",
        "num.partitions": "4",
    }

    async def on_broker(use):
        node = BrokerNode(settings)
        await node.start()
        try:
            async with AsyncAdmin(f"127.0.0.1:{node.endpoints[0].port}") as admin:
                return await use(admin)
        finally:
            await node.stop()

    async def where(admin, topic):
        described = (await admin.log_dirs.describe([0]))[0]
        return {
            path: (one.is_cordoned, sum(tp.topic == topic for tp in one.replicas))
            for path, one in described.items()
        }

    async def refused(admin):
        """Until the controller has heard that all directories are cordoned."""

        async def create_on():
            for number in count():
                await admin.topics.create(NewTopic(f"new-{number}-{id(admin)}"))

        with pytest.raises(KafkaError, match="have all their log directories cordoned"):
            await create_on()

    async def created(admin, topic):
        """Once the controller has heard that they are not."""
        with suppress(KafkaError):
            await admin.topics.create(NewTopic(topic))
            return
        await created(admin, topic)

    async def begin(admin):
        await admin.configs.alter({BROKER: {"cordoned.log.dirs": first}})
        await admin.topics.create(NewTopic("t"))
        assert await where(admin, "t") == {first: (True, 0), second: (False, 4)}
        await admin.configs.alter({BROKER: {"cordoned.log.dirs": "*"}})
        await refused(admin)

    async def go_on(admin):
        assert await where(admin, "t") == {first: (True, 0), second: (True, 4)}
        await refused(admin)
        await admin.configs.alter({BROKER: {"cordoned.log.dirs": None}})
        await created(admin, "u")
        described = await where(admin, "u")
        assert described[first][0] is described[second][0] is False
        assert described[first][1] > 0

    async def scenario():
        await on_broker(begin)
        await on_broker(go_on)

    run(scenario(), 60)

"""A broker inside another program, from few settings."""

from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.node.broker_node import BrokerNode


def test_a_broker_on_bare_defaults_has_groups_and_transactions(run, tmp_path):
    async def scenario():
        node = BrokerNode({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")})
        await node.start()
        try:
            at = f"127.0.0.1:{node.endpoints[0].port}"
            async with AsyncProducer(at, transactional_id="t") as producer, producer.transaction():
                await producer.send("t", b"one")
            async with AsyncConsumer(at, group_id="g", auto_offset_reset="earliest") as consumer:
                consumer.subscribe(["t"])
                while not (records := await consumer.poll(timeout_ms=100)):
                    pass
                await consumer.commit()
            return [record.value for record in records]
        finally:
            await node.stop()

    assert run(scenario(), 40) == [b"one"]

"""A bug that shows only when a rebalance comes between a record's work and its commit.

The coordinator refuses the commit, the member joins again, and what it had worked on is read and worked on a
second time. A container shows it once in a thousand runs; here the refusal is planted.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.client import Consumer, KafkaError, Producer
from barnabas.testing import Kafka

_spec = importlib.util.spec_from_file_location("copy", Path(__file__).parents[1] / "exactly_once_copy.py")
assert _spec is not None
assert _spec.loader is not None
exactly_once_copy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(exactly_once_copy)


def copy(bootstrap_servers: str, source: str, target: str) -> None:
    """The bug: the copy is stored, and then its offset is committed."""
    with (
        Producer(bootstrap_servers) as producer,
        Consumer(
            bootstrap_servers,
            group_id=f"copy-{source}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        consumer.subscribe(source)
        while records := consumer.poll(timeout_ms=2000):
            for record in records:
                producer.send(target, record.value.upper(), key=record.key)
            producer.flush()
            try:
                consumer.commit()
            except KafkaError as error:
                print("not committed:", error)


@pytest.mark.parametrize(
    "program", [pytest.param(copy, marks=pytest.mark.xfail(strict=True)), exactly_once_copy.main]
)
def test_an_order_is_copied_once(kafka: Kafka, program: Callable[[str, str, str], None]) -> None:
    """The group has gone on without this member when it commits the offset of its first copy.

    `examples/exactly_once_copy.py` has both in one transaction.
    """
    source, target = kafka.create_topic(), kafka.create_topic()
    with Producer(kafka.bootstrap_servers) as producer:
        producer.send(source, b"cup")
    refused = kafka.plant(
        apis=["OffsetCommit", "TxnOffsetCommit"], id=f"copy-{source}", error="ILLEGAL_GENERATION"
    )
    program(kafka.bootstrap_servers, source, target)
    assert refused.fired() == 1
    copies = kafka.records(target, isolation_level="read_committed")
    assert [record.value for record in copies] == [b"CUP"]

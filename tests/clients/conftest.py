"""What the tests of outside clients share: a topic of one's own.

BARNABAS_TEST_BOOTSTRAP=host:port points all of them at another broker; each was proved on a genuine one.
"""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.fixture(scope="session")
def admin(broker) -> Iterator[AdminClient]:
    """librdkafka's admin client, for what a test needs but does not judge."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    yield client
    del client


@pytest.fixture(scope="session")
def make_topic(admin, topic_name) -> Iterator[Callable[..., str]]:
    """Creates a topic of its own for a test; they are deleted when the session ends."""
    created: list[str] = []

    def make(stem: str, partitions: int = 1, **config: str) -> str:
        name = topic_name(stem)
        given = {key.replace("_", "."): value for key, value in config.items()}
        # The records are years old on purpose: without this, retention may come before the reader.
        wanted = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **given})
        admin.create_topics([wanted])[name].result(15)
        created.append(name)
        return name

    yield make
    for outcome in admin.delete_topics(created).values() if created else ():
        outcome.result(15)

"""Topics on a broker that may just have started."""

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from waiting import until

_MADE = (None, KafkaError.TOPIC_ALREADY_EXISTS)
_NOT_YET = (
    KafkaError.NOT_CONTROLLER,
    KafkaError.INVALID_REPLICATION_FACTOR,  # no broker has registered
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
)


def create_topics(bootstrap: str, *wanted: NewTopic) -> None:
    """Creates the topics and waits until each partition has a leader.

    A broker listens some time before its controller is there; an attempt that timed out may have made the
    topic. Each attempt has a client of its own: librdkafka may wait long for what it asked while the broker
    started.
    """
    left = list(wanted)

    def client() -> AdminClient:
        return AdminClient({"bootstrap.servers": bootstrap})

    def made() -> bool:
        admin = client()  # without a name it would be gone before its answers
        futures = admin.create_topics(left, request_timeout=10)
        codes = {name: _code(future) for name, future in futures.items()}
        assert all(code in _MADE + _NOT_YET for code in codes.values()), codes
        left[:] = [topic for topic in left if codes[topic.topic] not in _MADE]
        return not left

    def led() -> bool:
        there = client().list_topics(timeout=30).topics
        return all(
            topic.topic in there
            and there[topic.topic].error is None
            and len(there[topic.topic].partitions) == topic.num_partitions
            and all(partition.leader >= 0 for partition in there[topic.topic].partitions.values())
            for topic in wanted
        )

    until(made, lambda: f"not created: {[topic.topic for topic in left]}")
    until(led, "not every partition has a leader")


def _code(created: Future) -> int | None:
    try:
        created.result()
    except KafkaException as refused:
        return refused.args[0].code()
    return None

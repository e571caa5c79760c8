"""Topics that are created because a client asked for them (``AutoTopicCreationManager``).

In ZooKeeper mode the broker that is asked creates the topic itself and does not wait for the controller:
the answer says LEADER_NOT_AVAILABLE, and the client asks again. Internal topics have partitions, replicas and
configuration of their own.
"""

from collections.abc import Callable

from barnabas.broker.api_error import api_error
from barnabas.broker.topics import Topics
from barnabas.cluster.metadata.topics import NewTopic, not_counted
from barnabas.core.config import Config
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, validate_topic_name
from barnabas.core.pending import Pending

_log = EventLog("broker.auto_topics")

_AS_IF_CREATED = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT})


class AutoTopics:
    """Creates topics on demand, each by one request at a time."""

    __slots__ = ("_config", "_in_flight", "_topics")

    def __init__(self, topics: Topics, config: Config) -> None:
        self._topics = topics
        self._config = config
        self._in_flight: set[str] = set()

    def create(self, name: str, count: Callable[[int], None] = not_counted) -> Pending[ErrorCode]:
        """Creates a topic; what Metadata says of it. `count` is called with its partitions."""
        try:
            validate_topic_name(name)
        except KafkaError as error:
            return Pending.of(error.code)
        if name in self._in_flight:
            # Another request is creating it at this moment.
            return Pending.of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._in_flight.add(name)
        code: Pending[ErrorCode] = Pending()
        self._topics.create(self._new_topic(name), count=count).when_done(
            lambda done: self._created(name, done.error, code)
        )
        return code

    def _created(self, name: str, error: BaseException | None, code: Pending[ErrorCode]) -> None:
        self._in_flight.discard(name)
        found = ErrorCode.NONE
        if error is not None:
            found = api_error(_log, "topic.auto_creation_failed", error, topic=name).code
        code.complete(ErrorCode.LEADER_NOT_AVAILABLE if found in _AS_IF_CREATED else found)

    def _new_topic(self, name: str) -> NewTopic:
        config = self._config
        if name == GROUP_METADATA_TOPIC:
            return NewTopic(
                name,
                config["offsets.topic.num.partitions"],
                config["offsets.topic.replication.factor"],
                configs={
                    "cleanup.policy": "compact",
                    "segment.bytes": str(config["offsets.topic.segment.bytes"]),
                    "compression.type": "producer",
                },
            )
        if name == TRANSACTION_STATE_TOPIC:
            return NewTopic(
                name,
                config["transaction.state.log.num.partitions"],
                config["transaction.state.log.replication.factor"],
                configs={
                    "unclean.leader.election.enable": "false",
                    "compression.type": "uncompressed",
                    "cleanup.policy": "compact",
                    "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
                    "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
                },
            )
        return NewTopic(name, config["num.partitions"], config["default.replication.factor"])

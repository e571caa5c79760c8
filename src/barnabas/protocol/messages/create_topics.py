"""CreateTopics (19): new topics, counted or with assigned replicas (KIP-4, KIP-464)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import Uuid, int8, int16, int32


class CreatableReplicaAssignment(Struct):
    """The brokers that hold one partition, the preferred leader first."""

    partition_index: int32 = field("0+")
    broker_ids: list[int32] = field("0+")


class CreatableTopicConfig(Struct):
    """One configuration value of a new topic."""

    name: str = field("0+")
    value: str | None = field("0+", nullable="0+")


class CreatableTopic(Struct):
    """A topic to create; -1 takes the broker's default (v4+)."""

    name: str = field("0+")
    num_partitions: int32 = field("0+")
    replication_factor: int16 = field("0+")
    assignments: list[CreatableReplicaAssignment] = field("0+")
    configs: list[CreatableTopicConfig] = field("0+")


class CreateTopicsRequest(Request, api=19, versions="0-7", flexible="5+"):
    """Creates topics, or only checks whether they could be."""

    topics: list[CreatableTopic] = field("0+")
    timeout_ms: int32 = field("0+", default=60000)
    validate_only: bool = field("1+")


class CreatableTopicConfigs(Struct):
    """One configuration value that the new topic has."""

    name: str = field("5+")
    value: str | None = field("5+", nullable="5+")
    read_only: bool = field("5+")
    config_source: int8 = field("5+", default=-1, ignorable=True)
    is_sensitive: bool = field("5+")


class CreatableTopicResult(Struct):
    """What became of one topic."""

    name: str = field("0+")
    topic_id: Uuid = field("7+", ignorable=True)
    error_code: int16 = field("0+")
    error_message: str | None = field("1+", nullable="1+", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Response, api=19, versions="0-7", flexible="5+"):
    """One entry a topic."""

    throttle_time_ms: int32 = field("2+", ignorable=True)
    topics: list[CreatableTopicResult] = field("0+")

"""AlterReplicaLogDirs (34): replicas move between the directories of a broker (KIP-113)."""

from barnabas.protocol.message import Request, Response
from barnabas.protocol.schema import Struct, field
from barnabas.protocol.wire import int16, int32


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: str = field("0+")
    partitions: list[int32] = field("0+")


class AlterReplicaLogDir(Struct):
    """Replicas that are to be in one directory."""

    path: str = field("0+")
    topics: list[AlterReplicaLogDirTopic] = field("0+")


class AlterReplicaLogDirsRequest(Request, api=34, versions="0-2", flexible="2+"):
    """Moves replicas."""

    dirs: list[AlterReplicaLogDir] = field("0+")


class AlterReplicaLogDirPartitionResult(Struct):
    """What became of one replica."""

    partition_index: int32 = field("0+")
    error_code: int16 = field("0+")


class AlterReplicaLogDirTopicResult(Struct):
    """Partitions of one topic."""

    topic_name: str = field("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = field("0+")


class AlterReplicaLogDirsResponse(Response, api=34, versions="0-2", flexible="2+"):
    """One entry a replica."""

    throttle_time_ms: int32 = field("0+")
    results: list[AlterReplicaLogDirTopicResult] = field("0+")

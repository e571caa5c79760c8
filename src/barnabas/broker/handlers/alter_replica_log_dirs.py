"""AlterReplicaLogDirs (34), v0-2.

Behaviour: begins to move replicas of this broker to other log directories of it, while they serve (KIP-113).
A partition that this broker does not have yet answers REPLICA_NOT_AVAILABLE, and is made in that directory
when it comes. A cordoned directory answers INVALID_REPLICA_ASSIGNMENT (KIP-1066). To ask for the directory
where a replica is gives its move up.
Versions:  v2 flexible.
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced_by_time
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def _failed(
    request: AlterReplicaLogDirsRequest, error: KafkaError, _version: int
) -> Sliced[AlterReplicaLogDirsResponse]:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                _add(topics, TopicPartition(topic.name, partition), error.code)
                yield
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS, versions=(0, 2), failed=_failed)
@sliced_by_time
def alter_replica_log_dirs(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Sliced[AlterReplicaLogDirsResponse]:
    is_allowed = context.authorize_cluster(Operation.ALTER)
    moves = context.broker.replica_manager.log_dir_moves
    wanted: dict[TopicPartition, str] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for partition in topic.partitions:
                wanted[TopicPartition(topic.name, partition)] = directory.path
                yield
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for tp, path in wanted.items():
        _add(topics, tp, moves.alter(tp, path) if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        yield
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _add(topics: dict[str, AlterReplicaLogDirTopicResult], tp: TopicPartition, error: ErrorCode) -> None:
    result = topics.setdefault(tp.topic, AlterReplicaLogDirTopicResult(topic_name=tp.topic))
    result.partitions.append(
        AlterReplicaLogDirPartitionResult(partition_index=tp.partition, error_code=error)
    )

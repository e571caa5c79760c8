"""DescribeLogDirs (35), v0-5.

Behaviour: the log directories of this broker, with the sizes of the logs in them: of the partitions that are
named, or of all. A directory that is out of service says KAFKA_STORAGE_ERROR (KIP-113).
Versions:  v2 flexible · v3 an error for the whole · v4 the size of the disk and what is free (KIP-827)
           v5 whether it is cordoned (KIP-1066).
Not implemented: nothing.
"""

from barnabas.broker.authorizer import Operation
from barnabas.broker.context import RequestContext
from barnabas.broker.registry import handles
from barnabas.broker.sliced import sliced
from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.core.slices import Sliced
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from barnabas.replica.log_dirs import LogDirUsage


@handles(ApiKey.DESCRIBE_LOG_DIRS, versions=(0, 5))
@sliced
def describe_log_dirs(
    context: RequestContext, request: DescribeLogDirsRequest
) -> Sliced[DescribeLogDirsResponse]:
    if not context.authorize_cluster(Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = yield from _named(request.topics)
    results = []
    for directory in (yield from context.broker.replica_manager.describe_log_dirs(wanted)):
        result = yield from _result(directory)
        results.append(result)
    return DescribeLogDirsResponse(results=results)


def _named(topics: list[DescribableLogDirTopic]) -> Sliced[dict[TopicPartition, None]]:
    named: dict[TopicPartition, None] = {}
    for topic in topics:
        for partition in topic.partitions:
            named[TopicPartition(topic.topic, partition)] = None
            yield
        yield
    return named


def _result(directory: LogDirUsage) -> Sliced[DescribeLogDirsResult]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in directory.logs:
        topic = topics.setdefault(log.tp.topic, DescribeLogDirsTopic(name=log.tp.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=log.tp.partition,
                partition_size=log.size,
                offset_lag=log.offset_lag,
                is_future_key=log.is_future,
            )
        )
        yield
    return DescribeLogDirsResult(
        error_code=directory.error,
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.is_cordoned,
    )

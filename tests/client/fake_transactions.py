"""A transaction coordinator for `FakeCluster`: one transactional id, whose transaction it follows and judges.

It refuses what a real one would: an EndTxn without a transaction, an epoch that is not the current one, a
batch for a partition that was not added. What was committed and aborted is in `ended`. In transaction version
2 the first batch adds its partition, and an end bumps the epoch.
"""

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from barnabas.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from barnabas.protocol.messages.end_txn import EndTxnResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.init_producer_id import InitProducerIdResponse
from barnabas.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from barnabas.records.batch import parse_header
from fake_cluster import produce_error

TRANSACTION_VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.PRODUCE: (0, 12),
}
PRODUCER_ID = 77


class FakeTransactions:
    """Takes over these APIs of a cluster, whose broker 1 is the coordinator of everything."""

    def __init__(self, cluster, version=0):
        self.cluster = cluster
        self.version = version
        if version:
            cluster.features = {"transaction.version": version}
        self.epoch = -1
        self.epoch_max = 32_766
        self.producer_id = PRODUCER_ID
        self.partitions = set()
        self.groups = set()
        self.offsets = {}
        self.ended = []
        """Each end: whether it was a commit, and the partitions and groups of the transaction."""
        cluster.versions |= TRANSACTION_VERSIONS
        for api in (*TRANSACTION_VERSIONS, ApiKey.INIT_PRODUCER_ID):
            name = f"_{api.name.lower()}"
            setattr(cluster, name, getattr(self, name))

    def _find_coordinator(self, request, node_id):
        return FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=self.cluster.ports[1])

    def _fits(self, request):
        if request.producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if request.producer_epoch == self.epoch else ErrorCode.PRODUCER_FENCED

    def _init_producer_id(self, request, node_id):
        if request.producer_epoch not in (-1, self.epoch):
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED, producer_epoch=-1)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=self.epoch)

    def _add_partitions_to_txn(self, request, node_id):
        fits = ErrorCode.NONE
        if request.v3_and_below_producer_epoch != self.epoch:
            fits = ErrorCode.PRODUCER_FENCED
        if fits is ErrorCode.NONE:
            self.partitions |= {
                (topic.name, number) for topic in request.v3_and_below_topics for number in topic.partitions
            }
        return added(request, fits)

    def _add_offsets_to_txn(self, request, node_id):
        fits = self._fits(request)
        if fits is ErrorCode.NONE:
            self.groups.add(request.group_id)
        return AddOffsetsToTxnResponse(error_code=fits)

    def _txn_offset_commit(self, request, node_id):
        if self.version:
            self.groups.add(request.group_id)
        fits = self._fits(request) if request.group_id in self.groups else ErrorCode.INVALID_TXN_STATE
        if fits is ErrorCode.NONE:
            self.offsets |= {
                (topic.name, one.partition_index): one.committed_offset
                for topic in request.topics
                for one in topic.partitions
            }
        return committed(request, fits)

    def _end_txn(self, request, node_id):
        fits = self._fits(request)
        if self.version:
            return self._end_txn_2(request, fits)
        if fits is ErrorCode.NONE and not (self.partitions or self.groups):
            # As a repeated end of the same kind, which is answered as the first.
            again = self.ended and self.ended[-1][0] == request.committed
            return EndTxnResponse(error_code=ErrorCode.NONE if again else ErrorCode.INVALID_TXN_STATE)
        if fits is ErrorCode.NONE:
            self.ended.append((request.committed, sorted(self.partitions), sorted(self.groups)))
            self.partitions, self.groups = set(), set()
        return EndTxnResponse(error_code=fits)

    def _end_txn_2(self, request, fits):
        """Ends it, or is asked again: the epoch says which."""
        before = (request.producer_id, request.producer_epoch)
        if self.ended and before == self.ended_as and request.committed == self.ended[-1][0]:
            return self._next_producer()
        if fits is not ErrorCode.NONE:
            return EndTxnResponse(error_code=fits)
        self.ended.append((request.committed, sorted(self.partitions), sorted(self.groups)))
        self.ended_as = before
        self.partitions, self.groups = set(), set()
        self.epoch += 1
        if self.epoch > self.epoch_max:
            self.producer_id, self.epoch = self.producer_id + 1, 0
        return self._next_producer()

    def _next_producer(self):
        return EndTxnResponse(producer_id=self.producer_id, producer_epoch=self.epoch)

    def _produce(self, request, node_id):
        for topic in request.topic_data:
            for one in topic.partition_data:
                header = parse_header(bytes(one.records))
                if self.version:
                    if (header.producer_id, header.producer_epoch) != (self.producer_id, self.epoch):
                        return produce_error(ErrorCode.INVALID_PRODUCER_EPOCH)(request, node_id)
                    self.partitions.add((topic.name, one.index))
                if not header.is_transactional or (topic.name, one.index) not in self.partitions:
                    return produce_error(ErrorCode.INVALID_TXN_STATE)(request, node_id)
        return type(self.cluster)._produce(self.cluster, request, node_id)


def added(request, code):
    """The answer to AddPartitionsToTxn with one code for each partition."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
                    for number in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


def committed(request, code):
    """The answer to TxnOffsetCommit with one code for each partition."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

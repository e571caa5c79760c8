"""A coordinator on real partitions, which lie on a simulated disk; the controller is the test.

A module beside `conftest`, so that tests can import from it by a name of its own.
"""

import random

from barnabas.broker.handlers.leader_and_isr import take_roles
from barnabas.cluster.metadata.cache import MetadataCache
from barnabas.coordinator.group import Client
from barnabas.coordinator.group_configs import GroupConfigManager
from barnabas.coordinator.offsets.group_offsets import CommittedOffset
from barnabas.coordinator.runtime.journal import CoordinatorRecord
from barnabas.coordinator.runtime.loading import Loader
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import KafkaError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TopicPartition
from barnabas.core.offload import InPlace
from barnabas.core.pending import Pending
from barnabas.core.slices import in_one_piece
from barnabas.log.config import LogConfig
from barnabas.log.manager import LogManager
from barnabas.log.producers import AppendOrigin
from barnabas.node.coordinators import group_coordinator
from barnabas.protocol.coordinator.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from barnabas.protocol.coordinator.offset_commit import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.coordinator.topics import CONSUMER_OFFSETS
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from barnabas.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from barnabas.records.batch import batch_headers, build_batch, decode_records_of
from barnabas.records.compression import Codec
from barnabas.records.record import Record
from barnabas.replica.manager import ReplicaManager
from barnabas.testing.disk import SimulatedFilesystem
from handled import answered, handled
from replica_doubles import Fetchers, IsrDecisions
from standing_clock import Clock

CLIENT = Client("me", "/127.0.0.1")
ME, OTHER = 1, 2


class SlowClock(Clock):
    """Every look at it takes time, so every slice is over after one step."""

    def monotonic_ms(self):
        self.now_ms += 1
        return float(self.now_ms)


class Turns(Clock):
    """Shows the loop's turns one by one."""

    def __init__(self):
        super().__init__()
        self._next_turn = []

    def call_soon(self, callback):
        self._next_turn.append(callback)

    def turn(self):
        callbacks, self._next_turn = self._next_turn, []
        for callback in callbacks:
            callback()


class Later:
    """An `Offload` whose work is done when a test says so."""

    def __init__(self):
        self.waiting = []
        self.runs = 0

    def run(self, function, /, *args, **kwargs):
        self.runs += 1
        outcome = Pending()
        self.waiting.append((outcome, lambda: function(*args, **kwargs)))
        return outcome

    def work(self):
        """Does what is waiting, and what comes of it."""
        while self.waiting:
            outcome, work = self.waiting.pop(0)
            outcome.complete(work())

    def die(self):
        for outcome, _ in self.waiting:
            outcome.fail(RuntimeError("the child was killed"))
        self.waiting.clear()


class Life:
    """One broker, as far as a coordinator needs it; `restart` keeps its disk."""

    def __init__(self, *, offload=None, clock=None, disk=None, log_config=None, **config):
        self.clock = clock or Clock()
        self.offload = offload or InPlace()
        given = {key.replace("_", "."): str(value) for key, value in config.items()}
        self.config = broker_config(
            {"offsets.topic.num.partitions": "2", "barnabas.api.profile": "3.9", **given}
        )
        self._given, self._log_config = config, log_config or {}
        self.disk = disk or SimulatedFilesystem(now_ms=self.clock.time_ms)
        self.disk.mkdir("/data")
        self.settled = 0
        self._start()

    def _start(self):
        self.logs = LogManager(
            ["/data"],
            filesystem=self.disk,
            clock=self.clock,
            offload=InPlace(),
            log_config=lambda topic: LogConfig(
                segment_index_bytes=4096, cleanup_policy=("compact",), **self._log_config
            ),
        )
        self.logs.start(broker_id=ME, cluster_id="c").result()
        self.metadata = MetadataCache(ME)
        self.replicas = ReplicaManager(
            ME,
            config=self.config,
            clock=self.clock,
            logs=self.logs,
            metadata=self.metadata,
            alter_partition=IsrDecisions(),
            fetchers=Fetchers(),
        )
        self.configured = {}
        """The own settings of groups."""
        self.coordinator = group_coordinator(
            self.config,
            GroupConfigManager(self.config, self.configured),
            self.clock,
            random.Random(1),
            replicas=self.replicas,
            metadata=self.metadata,
            loader=Loader(
                self.clock,
                self.offload,
                self.disk,
                buffer_bytes=self.config["offsets.load.buffer.size"],
                settle=self._settle,
            ),
        )
        self.replicas.listeners.leadership.clear()  # a test elects when its partitions hold what it wants
        self.coordinator.startup(self.config["offsets.topic.num.partitions"])
        for partition in range(self.config["offsets.topic.num.partitions"]):
            self.lead(partition)

    def _settle(self):
        self.settled += 1

    def restart(self):
        """A new process on the same disk."""
        self.coordinator.shutdown()
        self.logs.shutdown(clean=True)
        self._start()

    # --- the controller

    def lead(self, partition, *, epoch=0, isr=(ME,), topic=GROUP_METADATA_TOPIC):
        """Makes this broker leader of a partition; its coordinator is told by `elect`."""
        state = LeaderAndIsrPartitionState(
            partition_index=partition,
            leader=ME,
            leader_epoch=epoch,
            isr=list(isr),
            partition_epoch=epoch,
            replicas=list(isr),
            is_new=True,
        )
        of_topic = LeaderAndIsrTopicState(topic_name=topic, partition_states=[state])
        request = LeaderAndIsrRequest(controller_id=ME, controller_epoch=1, topic_states=[of_topic])
        self.replicas.control_queue.run(take_roles(self.replicas, request, 7))
        self.clock.advance()

    def elect(self, epoch=0):
        """Tells the coordinator that it coordinates all partitions, and lets it load."""
        for partition in range(self.coordinator.partition_count):
            self.coordinator.elected(partition, epoch)
        for _ in range(self.coordinator.partition_count):
            self.clock.advance()
        return self

    def elect_for(self, group, epoch=0):
        """Tells the coordinator that it coordinates one partition, and lets it load."""
        self.coordinator.elected(self.coordinator.partition_for(group), epoch)
        self.clock.advance()

    # --- the partition

    def log(self, partition):
        return self.replicas.partition(TopicPartition(GROUP_METADATA_TOPIC, partition)).leader_log

    def write(self, *records, group="g", producer=None, codec=Codec.NONE):
        """Appends one batch of (key bytes, value bytes) to a group's partition, as an earlier leader did."""
        made = [Record(place, self.clock.time_ms(), key, value) for place, (key, value) in enumerate(records)]
        producer_id, producer_epoch = producer or (-1, -1)
        batch = build_batch(
            made,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transactional=producer is not None,
        )
        self.append(batch, group)

    def append(self, batch, group="g"):
        log = self.log(self.coordinator.partition_for(group))
        log.append(bytearray(batch), 0, self.clock.time_ms(), origin=AppendOrigin.COORDINATOR)
        log.high_watermark = log.log_end_offset

    def batches(self, group="g"):
        """(header, records) of all that is in a group's partition."""
        log = self.log(self.coordinator.partition_for(group))
        if log.log_end_offset == log.log_start_offset:
            return []
        data = log.read(log.log_start_offset, 1 << 30).records.read()
        return [(header, decode_records_of(data, header)) for header in batch_headers(data)]

    def written(self, group="g"):
        """The keys and values in a group's partition, decoded."""
        return [
            CONSUMER_OFFSETS.decode(record.key, record.value)
            for _, records in self.batches(group)
            for record in records
        ]

    # --- clients

    def commit(self, group="g", offset=1, *, topic="orders", partition=0, metadata="", **fields):
        """The codes, or the Pending of them."""
        position = CommittedOffset(offset, -1, metadata, self.clock.time_ms())
        asked = {"member_id": "", "group_instance_id": None, "generation": -1, "version": 8, **fields}
        return in_one_piece(
            self.coordinator.commit_offsets(group, {TopicPartition(topic, partition): position}, **asked)
        )

    def fetched(self, group="g"):
        """{(topic, partition): offset} of all that the group committed."""
        partitions = self.coordinator.committed_partitions(group)
        found = self.coordinator.fetch_offsets(
            group, partitions, member_id=None, member_epoch=-1, require_stable=False
        )
        return {tp: committed.offset for tp, committed in found.items()}

    def join(self, group="g", member_id="", *, version=3):
        """An answer, or the Pending of one. Before v4 nobody is sent away to come back with an id."""
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return handled(self.coordinator, request, version)

    def form(self, group="g"):
        """A stable group of one; its member's id."""
        joining = self.join(group)
        self.clock.advance(self.config["group.initial.rebalance.delay.ms"])
        joined = joining.result()
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")],
        )
        answer = handled(self.coordinator, request, 3)
        assert (answer.result() if isinstance(answer, Pending) else answer).assignment == b"all"
        return joined.member_id

    def listed(self, states=(), types=()):
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        return answered(self.coordinator, request)

    def described(self, *group_ids):
        return handled(self.coordinator, DescribeGroupsRequest(groups=list(group_ids))).groups

    def consumer_described(self, *group_ids):
        return handled(self.coordinator, ConsumerGroupDescribeRequest(group_ids=list(group_ids))).groups

    def delete(self, *group_ids):
        return handled(self.coordinator, DeleteGroupsRequest(groups_names=list(group_ids))).results

    def states(self):
        return {each.group_id: each.group_state for each in self.listed().groups}


def commit_bytes(offset, *, group="g", topic="orders", partition=0, version=3, metadata="", **fields):
    """Key and value of a commit; no value for an offset of None."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition).to_bytes()
    value = OffsetCommitValue(offset=offset or 0, metadata=metadata, commit_timestamp=1000, **fields)
    return key, None if offset is None else value.to_bytes(version)


def group_bytes(group="g", *, generation=3, version=3, members=(), tombstone=False):
    """Key and value of a classic group."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range" if members else None,
        leader=members[0] if members else None,
        current_state_timestamp=1000,
        members=[
            MemberMetadata(
                member_id=member,
                client_id="c",
                client_host="/h",
                rebalance_timeout=20_000,
                session_timeout=10_000,
                subscription=b"",
                assignment=b"a",
            )
            for member in members
        ],
    )
    return GroupMetadataKey(group=group).to_bytes(), None if tombstone else value.to_bytes(version)


def commit_record(offset, *, group="g", partition=0):
    key = OffsetCommitKey(group=group, topic="orders", partition=partition)
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1000)
    return CoordinatorRecord(key, value, 3)


def code(call, *args, **kwargs):
    """The code of the KafkaError that a call raises."""
    try:
        call(*args, **kwargs)
    except KafkaError as error:
        return error.code
    raise AssertionError("nothing was refused")

"""A group coordinator for `FakeCluster`: real rounds of joining and syncing, no time-outs but on request.

A round ends when every member that is known has joined; `expect` says how many the first one waits for.
"""

import asyncio

from barnabas.core.errors import ErrorCode
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from barnabas.protocol.messages.sync_group import SyncGroupResponse

GROUP_VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 9),
}


class FakeGroup:
    """One group, whatever its id; the coordinator is broker `coordinator`."""

    def __init__(self, ports):
        self.ports = ports
        self.coordinator = 1
        self.generation = 0
        self.expect = 1
        self.members = {}
        self.joining = {}
        self.leader = None
        self.protocol = None
        self.assignments = {}
        self.syncing = []
        self.offsets = {}
        self.rebalancing = False
        self._numbers = iter(range(1, 1000))

    def find_coordinator(self, request, node_id):
        return FindCoordinatorResponse(
            node_id=self.coordinator, host="127.0.0.1", port=self.ports[self.coordinator]
        )

    async def join_group(self, request, node_id):
        if not request.member_id:
            member_id = f"m{next(self._numbers)}"
            return self._refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        if not request.member_id.startswith("m") or (self.generation and request.member_id == "m0"):
            return self._refused(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        self.members[request.member_id] = request
        self.rebalancing = True
        waiting = asyncio.get_running_loop().create_future()
        self.joining[request.member_id] = waiting
        self._complete_if_all_joined()
        return await waiting

    @staticmethod
    def _refused(code, member_id=""):
        return JoinGroupResponse(
            error_code=code, member_id=member_id, leader="", protocol_name="", members=[]
        )

    def _complete_if_all_joined(self):
        if len(self.joining) < max(self.expect, len(self.members)) or not self.joining:
            return
        self.generation += 1
        self.rebalancing = False
        self.assignments = {}
        self.leader = next(iter(self.members))
        offered = [[one.name for one in member.protocols] for member in self.members.values()]
        self.protocol = next(name for name in offered[0] if all(name in names for names in offered))
        joining, self.joining = self.joining, {}
        for member_id, waiting in joining.items():
            if not waiting.done():
                waiting.set_result(self._joined(member_id))

    def _joined(self, member_id):
        members = [
            JoinGroupResponseMember(
                member_id=one,
                group_instance_id=request.group_instance_id,
                metadata=next(p.metadata for p in request.protocols if p.name == self.protocol),
            )
            for one, request in self.members.items()
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=member_id,
            members=members if member_id == self.leader else [],
        )

    async def sync_group(self, request, node_id):
        code = self._check(request.member_id, request.generation_id)
        if code is ErrorCode.NONE and self.rebalancing:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        if code is not ErrorCode.NONE:
            return SyncGroupResponse(error_code=code, assignment=b"")
        if request.member_id == self.leader:
            self.assignments = {one.member_id: bytes(one.assignment) for one in request.assignments}
            for waiting in self.syncing:
                waiting.set()
            self.syncing = []
        elif not self.assignments:
            waiting = asyncio.Event()
            self.syncing.append(waiting)
            await waiting.wait()
        return SyncGroupResponse(
            protocol_type="consumer",
            protocol_name=self.protocol,
            assignment=self.assignments.get(request.member_id, b""),
        )

    def _check(self, member_id, generation):
        if member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def heartbeat(self, request, node_id):
        code = self._check(request.member_id, request.generation_id)
        if code is ErrorCode.NONE and self.rebalancing:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return HeartbeatResponse(error_code=code)

    def leave_group(self, request, node_id):
        answers = []
        for one in request.members:
            known = self.expel(one.member_id)
            answers.append(
                MemberResponse(
                    member_id=one.member_id,
                    group_instance_id=None,
                    error_code=ErrorCode.NONE if known else ErrorCode.UNKNOWN_MEMBER_ID,
                )
            )
        return LeaveGroupResponse(members=answers)

    def expel(self, member_id):
        """As if the member had left, or its session had ended; whether it was one."""
        known = self.members.pop(member_id, None) is not None
        waiting = self.joining.pop(member_id, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(self._refused(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        self.rebalancing = self.rebalancing or bool(self.members)
        self._complete_if_all_joined()
        return known

    def offset_commit(self, request, node_id):
        generation = request.generation_id_or_member_epoch
        code = ErrorCode.NONE
        if generation >= 0 or request.member_id:
            code = self._check(request.member_id, generation)
        topics = []
        for topic in request.topics:
            partitions = []
            # Ids are made of names (`FakeCluster.topic_id`).
            name = topic.name or topic.topic_id.rstrip(b".").decode()
            for one in topic.partitions:
                if code is ErrorCode.NONE:
                    self.offsets[name, one.partition_index] = (
                        one.committed_offset,
                        one.committed_metadata,
                        one.committed_leader_epoch,
                    )
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                )
            topics.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
            )
        return OffsetCommitResponse(topics=topics)

    def offset_fetch(self, request, node_id):
        topics = []
        for topic in request.topics:
            partitions = []
            for number in topic.partition_indexes:
                offset, note, epoch = self.offsets.get((topic.name, number), (-1, "", -1))
                partitions.append(
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        metadata=note,
                        error_code=ErrorCode.NONE,
                    )
                )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(topics=topics)


def serve_group(cluster):
    """Lets the cluster coordinate groups; the group."""
    group = FakeGroup(cluster.ports)
    cluster.versions.update(GROUP_VERSIONS)
    for api in GROUP_VERSIONS:
        name = api.name.lower()

        def handle(request, node_id, name=name):
            return getattr(group, name)(request, node_id)

        setattr(cluster, f"_{name}", handle)
    return group

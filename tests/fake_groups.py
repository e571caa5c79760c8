"""Groups for `FakeCluster`, as their coordinators tell an administrator:
no member does anything by itself.
"""

from dataclasses import dataclass, field

from barnabas.core.errors import ErrorCode
from barnabas.core.ids import TopicPartition
from barnabas.protocol.api import ApiKey
from barnabas.protocol.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.consumer_protocol import TopicPartition as AssignedTopic
from barnabas.protocol.messages import consumer_group_describe as modern
from barnabas.protocol.messages import describe_groups as classic
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.leave_group import LeaveGroupResponse, MemberResponse
from barnabas.protocol.messages.list_groups import ListedGroup, ListGroupsResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

VERSIONS = {
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 5),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 0),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.OFFSET_FETCH: (1, 9),
    ApiKey.OFFSET_COMMIT: (2, 9),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.LEAVE_GROUP: (0, 5),
}


@dataclass
class Member:
    member_id: str
    partitions: list[TopicPartition] = field(default_factory=list)
    instance_id: str | None = None
    client_id: str = "client"
    host: str = "/127.0.0.1"


@dataclass
class Group:
    coordinator: int = 1
    state: str = "Empty"
    modern: bool = False
    protocol_type: str = "consumer"
    assignor: str = "range"
    members: list[Member] = field(default_factory=list)
    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)


class FakeGroups(dict[str, Group]):
    """Groups by id; every one that is not there is coordinated by broker 1."""

    def __init__(self, cluster):
        super().__init__()
        self._cluster = cluster
        cluster.versions.update(VERSIONS)
        for api in VERSIONS:
            setattr(cluster, f"_{api.name.lower()}", getattr(self, api.name.lower()))

    def _coordinator(self, name):
        return self.get(name, Group()).coordinator

    def _here(self, name, node_id):
        return ErrorCode.NONE if self._coordinator(name) == node_id else ErrorCode.NOT_COORDINATOR

    def find_coordinator(self, request, node_id):
        if request.coordinator_keys:
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, host="127.0.0.1", error_code=0, **self._place(key))
                    for key in request.coordinator_keys
                ]
            )
        return FindCoordinatorResponse(host="127.0.0.1", **self._place(request.key))

    def _place(self, key):
        node = self._coordinator(key)
        return {"node_id": node, "port": self._cluster.ports[node]}

    def list_groups(self, request, node_id):
        return ListGroupsResponse(
            groups=[
                ListedGroup(
                    group_id=name,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type="consumer" if group.modern else "classic",
                )
                for name, group in self.items()
                if group.coordinator == node_id
                and (not request.states_filter or group.state in request.states_filter)
                and (
                    not request.types_filter
                    or ("Consumer" if group.modern else "Classic") in request.types_filter
                )
            ]
        )

    def consumer_group_describe(self, request, node_id):
        return modern.ConsumerGroupDescribeResponse(
            groups=[self._modern(name, node_id) for name in request.group_ids]
        )

    def _modern(self, name, node_id):
        group = self.get(name, Group())
        code = self._here(name, node_id) or (ErrorCode.NONE if group.modern else ErrorCode.GROUP_ID_NOT_FOUND)
        return modern.DescribedGroup(
            group_id=name,
            error_code=code,
            group_state=group.state,
            assignor_name=group.assignor,
            members=[
                modern.Member(
                    member_id=one.member_id,
                    instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.host,
                    assignment=_modern_assignment(one.partitions),
                    target_assignment=_modern_assignment(one.partitions),
                )
                for one in group.members
            ],
        )

    def describe_groups(self, request, node_id):
        return classic.DescribeGroupsResponse(
            groups=[self._classic(name, node_id) for name in request.groups]
        )

    def _classic(self, name, node_id):
        group = self.get(name, Group(state="Dead", protocol_type="", assignor=""))
        return classic.DescribedGroup(
            group_id=name,
            error_code=self._here(name, node_id),
            group_state=group.state,
            protocol_type=group.protocol_type,
            protocol_data=group.assignor if group.members else "",
            members=[
                classic.DescribedGroupMember(
                    member_id=one.member_id,
                    group_instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.host,
                    member_metadata=b"",
                    member_assignment=_classic_assignment(one.partitions),
                )
                for one in group.members
            ],
        )

    def delete_groups(self, request, node_id):
        results = []
        for name in request.groups_names:
            code = self._here(name, node_id)
            if code is ErrorCode.NONE and name not in self:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif code is ErrorCode.NONE and self[name].members:
                code = ErrorCode.NON_EMPTY_GROUP
            elif code is ErrorCode.NONE:
                del self[name]
            results.append(DeletableGroupResult(group_id=name, error_code=code))
        return DeleteGroupsResponse(results=results)

    def _positions(self, name, asked, kind):
        """(topic, partition structs) of one group, of what is asked for or of all."""
        offsets = self.get(name, Group()).offsets
        wanted = asked
        if wanted is None:
            wanted = {}
            for tp in offsets:
                wanted.setdefault(tp.topic, []).append(tp.partition)
        for topic, numbers in wanted.items():
            yield (
                topic,
                [
                    kind(
                        partition_index=number,
                        committed_offset=offset,
                        metadata=note,
                        error_code=0,
                    )
                    for number in numbers
                    for offset, note in [offsets.get(TopicPartition(topic, number), (-1, ""))]
                ],
            )

    def offset_fetch(self, request, node_id):
        if not request.groups:
            asked = (
                None
                if request.topics is None
                else {one.name: one.partition_indexes for one in request.topics}
            )
            return OffsetFetchResponse(
                error_code=self._here(request.group_id, node_id),
                topics=[
                    OffsetFetchResponseTopic(name=topic, partitions=partitions)
                    for topic, partitions in self._positions(
                        request.group_id, asked, OffsetFetchResponsePartition
                    )
                ],
            )
        return OffsetFetchResponse(groups=[self._fetched(one, node_id) for one in request.groups])

    def _fetched(self, one, node_id):
        asked = None if one.topics is None else {topic.name: topic.partition_indexes for topic in one.topics}
        return OffsetFetchResponseGroup(
            group_id=one.group_id,
            error_code=self._here(one.group_id, node_id),
            topics=[
                OffsetFetchResponseTopics(name=topic, partitions=partitions)
                for topic, partitions in self._positions(one.group_id, asked, OffsetFetchResponsePartitions)
            ],
        )

    def offset_commit(self, request, node_id):
        code = self._here(request.group_id, node_id)
        topics = []
        for topic in request.topics:
            answers = []
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                known = tp in self._cluster.leaders
                answer = code or (ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                if answer is ErrorCode.NONE:
                    group = self.setdefault(request.group_id, Group(protocol_type=""))
                    group.offsets[tp] = (one.committed_offset, one.committed_metadata)
                answers.append(OffsetCommitResponsePartition(partition_index=tp.partition, error_code=answer))
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=answers))
        return OffsetCommitResponse(topics=topics)

    def offset_delete(self, request, node_id):
        code = self._here(request.group_id, node_id)
        if code is ErrorCode.NONE and request.group_id not in self:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        if code is not ErrorCode.NONE:
            return OffsetDeleteResponse(error_code=code, topics=[])
        group = self[request.group_id]
        read = {tp.topic for member in group.members for tp in member.partitions}
        topics = []
        for topic in request.topics:
            answers = []
            for one in topic.partitions:
                answer = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if topic.name in read else ErrorCode.NONE
                if answer is ErrorCode.NONE:
                    group.offsets.pop(TopicPartition(topic.name, one.partition_index), None)
                answers.append(
                    OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=answer)
                )
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        return OffsetDeleteResponse(error_code=0, topics=topics)

    def leave_group(self, request, node_id):
        group = self[request.group_id]
        answers = []
        for one in request.members:
            gone = [
                member
                for member in group.members
                if one.group_instance_id in {member.instance_id} - {None} or one.member_id == member.member_id
            ]
            group.members = [member for member in group.members if member not in gone]
            code = ErrorCode.NONE if gone else ErrorCode.UNKNOWN_MEMBER_ID
            answers.append(
                MemberResponse(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, error_code=code
                )
            )
        return LeaveGroupResponse(error_code=self._here(request.group_id, node_id), members=answers)


def _by_topic(partitions):
    grouped = {}
    for tp in partitions:
        grouped.setdefault(tp.topic, []).append(tp.partition)
    return grouped


def _modern_assignment(partitions):
    return modern.Assignment(
        topic_partitions=[
            modern.TopicPartitions(topic_name=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ]
    )


def _classic_assignment(partitions):
    if not partitions:
        return b""
    assigned = [
        AssignedTopic(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).to_bytes()

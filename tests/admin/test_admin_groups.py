"""``admin.groups``: coordinators found in batches and found again, an error for each group, old brokers."""

import pytest

from barnabas.admin import (
    AsyncAdmin,
    CoordinatorType,
    GroupState,
    GroupType,
    NotAConsumerGroupError,
    OffsetAndMetadata,
)
from barnabas.client import ClientTimeoutError, TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.network.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from barnabas.protocol.messages.consumer_group_describe import DescribedGroup as ModernGroup
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.list_groups import ListGroupsResponse
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fake_groups import FakeGroups, Group, Member

FAST = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20}
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def with_groups(fake, body, nodes=2, versions=(), **groups):
    """Runs `body(cluster, groups, admin)` on brokers that know topics a (2 partitions) and b.

    `versions` are those of the APIs that are not the newest; None for an API that is not there.
    """

    async def scenario():
        async with fake(nodes) as cluster:
            known = FakeGroups(cluster)
            known.update(groups)
            for api, offered in dict(versions).items():
                cluster.versions[api] = offered
                if offered is None:
                    del cluster.versions[api]
            cluster.add_topic("a", 2)
            cluster.add_topic("b")
            async with AsyncAdmin(cluster.bootstrap, **FAST) as admin:
                await body(cluster, known, admin)

    return scenario()


def once(cluster, api, response):
    """The next request of this kind gets this answer."""
    cluster.faults[api].append(lambda request, node_id: response)


def test_a_group_may_be_named_without_a_list(run, fake):
    async def body(cluster, groups, admin):
        assert list(await admin.groups.offsets("here")) == ["here"]
        assert list(await admin.groups.offsets("here", A0)) == ["here"]
        assert list(await admin.groups.describe("here")) == ["here"]
        assert list(await admin.coordinators.find("here")) == ["here"]

    run(with_groups(fake, body, here=Group()))


def test_groups_of_all_brokers_are_listed(run, fake):
    async def body(cluster, groups, admin):
        listed = {one.group_id: one for one in await admin.groups.list()}
        assert set(listed) == {"here", "there", "simple"}  # not the workers of Connect
        assert (listed["there"].state, listed["there"].type) == (GroupState.STABLE, GroupType.CONSUMER)
        assert [name for name, one in listed.items() if one.is_simple] == ["simple"]
        (only,) = await admin.groups.list(states=[GroupState.STABLE], types=[GroupType.CONSUMER])
        assert only.group_id == "there"

    run(
        with_groups(
            fake,
            body,
            here=Group(),
            there=Group(2, "Stable", modern=True),
            simple=Group(protocol_type=""),
            workers=Group(protocol_type="connect"),
        )
    )


def test_a_broker_that_is_loading_is_asked_again(run, fake):
    async def body(cluster, groups, admin):
        loading = ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
        once(cluster, ApiKey.LIST_GROUPS, loading)
        assert [one.group_id for one in await admin.groups.list()] == ["g"]
        once(cluster, ApiKey.LIST_GROUPS, ListGroupsResponse(error_code=31, groups=[]))
        with pytest.raises(
            KafkaError,
            match="Cluster authorization failed",
            check=lambda error: error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ):
            await admin.groups.list()

    run(with_groups(fake, body, nodes=1, g=Group()))


def test_an_old_broker_is_not_asked_for_a_filter_it_does_not_know(run, fake):
    async def no_types(cluster, groups, admin):
        assert await admin.groups.list(states=[GroupState.STABLE]) == []
        with pytest.raises(UnsupportedVersionError):
            await admin.groups.list(types=[GroupType.CLASSIC])

    async def no_states(cluster, groups, admin):
        assert (await admin.groups.list())[0].state is None
        with pytest.raises(UnsupportedVersionError):
            await admin.groups.list(states=[GroupState.STABLE])

    run(with_groups(fake, no_types, versions={ApiKey.LIST_GROUPS: (0, 4)}, g=Group()))
    run(with_groups(fake, no_states, versions={ApiKey.LIST_GROUPS: (0, 3)}, g=Group()))


BUSY = {
    "old": Group(1, "Stable", members=[Member("m1", [A0, A1], "static"), Member("m2")]),
    "new": Group(2, "Reconciling", modern=True, assignor="uniform", members=[Member("m3", [B0])]),
}


def test_groups_of_either_protocol_are_described(run, fake):
    async def body(cluster, groups, admin):
        described = await admin.groups.describe(["old", "new", "none"])
        old, new = described["old"], described["new"]
        assert (old.type, old.state, old.assignor) == (GroupType.CLASSIC, GroupState.STABLE, "range")
        assert [list(one.assignment) for one in old.members] == [[A0, A1], []]
        assert [one.group_instance_id for one in old.members] == ["static", None]
        assert (new.type, new.state, new.assignor) == (GroupType.CONSUMER, GroupState.RECONCILING, "uniform")
        assert [list(new.members[0].assignment), list(new.members[0].target_assignment)] == [[B0], [B0]]
        assert (old.coordinator.node_id, new.coordinator.node_id) == (1, 2)
        assert new.coordinator.port == cluster.ports[2]
        assert (described["none"].state, described["none"].members) == (GroupState.DEAD, [])
        # One question for all coordinators, then one for each coordinator and protocol.
        assert len(cluster.requests(ApiKey.FIND_COORDINATOR)) == 1
        assert len(cluster.requests(ApiKey.CONSUMER_GROUP_DESCRIBE)) == 2
        assert [sorted(one.groups) for one in cluster.requests(ApiKey.DESCRIBE_GROUPS)] == [["none", "old"]]

    run(with_groups(fake, body, **BUSY))


def test_brokers_without_the_new_protocol_describe_classic_groups(run, fake):
    async def body(cluster, groups, admin):
        assert (await admin.groups.describe(["old"]))["old"].type is GroupType.CLASSIC
        assert cluster.requests(ApiKey.CONSUMER_GROUP_DESCRIBE) == []

    run(with_groups(fake, body, versions={ApiKey.CONSUMER_GROUP_DESCRIBE: None}, **BUSY))


def test_what_is_no_consumer_group_is_an_error_of_that_group(run, fake):
    async def body(cluster, groups, admin):
        results = await admin.groups.try_describe(["workers", "old"])
        assert isinstance(results["workers"], NotAConsumerGroupError)
        assert str(results["workers"]) == "GroupId workers is not a consumer group (connect)."
        assert results["old"].state is GroupState.STABLE
        denied = ConsumerGroupDescribeResponse(
            groups=[ModernGroup(group_id="old", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)]
        )
        once(cluster, ApiKey.CONSUMER_GROUP_DESCRIBE, denied)
        with pytest.raises(
            KafkaError,
            match="Group authorization failed",
            check=lambda error: error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ):
            await admin.groups.describe(["old"])

    run(with_groups(fake, body, workers=Group(protocol_type="connect"), **BUSY))


def test_coordinators_of_an_old_broker_are_looked_up_singly(run, fake):
    async def body(cluster, groups, admin):
        found = await admin.groups.offsets(["one", "two"], require_stable=True)
        assert found == {"one": {A0: OffsetAndMetadata(5, "note")}, "two": {}}
        assert [one.key for one in cluster.requests(ApiKey.FIND_COORDINATOR)] == ["one", "two"]
        assert all(one.require_stable for one in cluster.requests(ApiKey.OFFSET_FETCH))

    versions = {ApiKey.FIND_COORDINATOR: (0, 3), ApiKey.OFFSET_FETCH: (1, 7)}
    run(with_groups(fake, body, versions=versions, one=Group(offsets={A0: (5, "note")}), two=Group(2)))


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
)
def test_a_coordinator_that_is_not_there_yet_is_looked_up_again(run, fake, code):
    async def body(cluster, groups, admin):
        nowhere = Coordinator(key="g", node_id=-1, host="", port=-1, error_code=code)
        once(cluster, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[nowhere]))
        assert await admin.groups.try_delete(["g"]) == {"g": None}
        assert groups == {}

    run(with_groups(fake, body, g=Group(2)))


def test_a_refused_look_up_is_the_groups_error(run, fake):
    async def body(cluster, groups, admin):
        denied = Coordinator(
            key="g", node_id=-1, host="", port=-1, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
        )
        allowed = Coordinator(
            key="h", node_id=1, host="127.0.0.1", port=cluster.ports[1], error_code=ErrorCode.NONE
        )
        once(cluster, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[denied, allowed]))
        results = await admin.groups.try_delete(["g", "h"])
        assert results["g"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert "`CoordinatorKey(idValue='g', type=GROUP)`" in str(results["g"])
        assert results["h"] is None

    run(with_groups(fake, body, g=Group(), h=Group()))


def test_only_the_group_whose_coordinator_moved_is_asked_again(run, fake):
    async def body(cluster, groups, admin):
        def moves(request, node_id):
            groups["g"].coordinator = 2
            return groups.delete_groups(request, node_id)

        cluster.faults[ApiKey.DELETE_GROUPS].append(moves)
        assert await admin.groups.try_delete(["g", "h"]) == {"g": None, "h": None}
        asked = [one.groups_names for one in cluster.requests(ApiKey.DELETE_GROUPS)]
        assert asked == [["g", "h"], ["g"]]
        assert [one.coordinator_keys for one in cluster.requests(ApiKey.FIND_COORDINATOR)] == [
            ["g", "h"],
            ["g"],
        ]

    run(with_groups(fake, body, g=Group(), h=Group()))


def test_a_coordinator_that_is_loading_keeps_its_groups(run, fake):
    async def body(cluster, groups, admin):
        loading = DeletableGroupResult(group_id="g", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        once(cluster, ApiKey.DELETE_GROUPS, DeleteGroupsResponse(results=[loading]))
        assert await admin.groups.try_delete(["g"]) == {"g": None}
        assert len(cluster.requests(ApiKey.FIND_COORDINATOR)) == 1

    run(with_groups(fake, body, g=Group()))


def test_a_coordinator_that_never_answers_is_an_error_in_time(run, fake):
    async def body(cluster, groups, admin):
        def only_the_second_answers(request, node_id):
            return groups.delete_groups(request, node_id) if node_id == 2 else None

        cluster.faults[ApiKey.DELETE_GROUPS].extend([only_the_second_answers] * 9)
        results = await admin.groups.try_delete(["g", "h"], timeout_ms=100)
        assert isinstance(results["g"], ClientTimeoutError)
        assert "The coordinator of 'g' did not answer in 100 ms" in str(results["g"])
        assert results["h"] is None

    run(with_groups(fake, body, g=Group(), h=Group(2)))


def test_groups_are_deleted_with_an_error_for_each(run, fake):
    async def body(cluster, groups, admin):
        results = await admin.groups.try_delete(["idle", "old", "none"])
        codes = {name: error and error.code for name, error in results.items()}
        assert codes == {
            "idle": None,
            "old": ErrorCode.NON_EMPTY_GROUP,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        with pytest.raises(
            KafkaError,
            match="The group is not empty",
            check=lambda error: error.code is ErrorCode.NON_EMPTY_GROUP,
        ):
            await admin.groups.delete("old")

    run(with_groups(fake, body, idle=Group(2), **BUSY))


def test_positions_are_altered_read_and_deleted(run, fake):
    async def body(cluster, groups, admin):
        await admin.groups.alter_offsets("g", {A0: 7, ("a", 1): OffsetAndMetadata(8, "note")})
        assert await admin.groups.offsets(["g", "none"]) == {
            "g": {A0: OffsetAndMetadata(7), A1: OffsetAndMetadata(8, "note")},
            "none": {},
        }
        assert await admin.groups.offsets(["g"], [A1, B0]) == {
            "g": {A1: OffsetAndMetadata(8, "note"), B0: None}
        }
        results = await admin.groups.try_alter_offsets("g", {B0: 1, TopicPartition("never", 0): 1})
        assert results[B0] is None
        assert results[TopicPartition("never", 0)].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await admin.groups.delete_offsets("g", [A0, A1])
        assert list(groups["g"].offsets) == [B0]

    run(with_groups(fake, body))


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
def test_positions_are_altered_once_the_group_is_at_rest(run, fake, code):
    async def body(cluster, groups, admin):
        answer = OffsetCommitResponsePartition(partition_index=0, error_code=code)
        topic = OffsetCommitResponseTopic(name="a", partitions=[answer])
        once(cluster, ApiKey.OFFSET_COMMIT, OffsetCommitResponse(topics=[topic]))
        await admin.groups.alter_offsets("g", {A0: 7})
        assert groups["g"].offsets == {A0: (7, "")}

    run(with_groups(fake, body))


def test_positions_in_use_are_not_deleted(run, fake):
    async def body(cluster, groups, admin):
        results = await admin.groups.try_delete_offsets("old", [A0, B0])
        assert results[A0].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert results[B0] is None
        with pytest.raises(
            KafkaError,
            match="The group id does not exist",
            check=lambda error: error.code is ErrorCode.GROUP_ID_NOT_FOUND,
        ):
            await admin.groups.try_delete_offsets("none", [A0])

    run(with_groups(fake, body, **BUSY))


def test_members_are_removed_by_instance_or_all(run, fake):
    async def body(cluster, groups, admin):
        results = await admin.groups.try_remove_members("old", ["static", "other"], reason="maintenance")
        assert results["static"] is None
        assert results["other"].code is ErrorCode.UNKNOWN_MEMBER_ID
        assert [one.member_id for one in groups["old"].members] == ["m2"]
        await admin.groups.remove_members("old")
        assert groups["old"].members == []
        first, second = cluster.requests(ApiKey.LEAVE_GROUP)
        assert {one.reason for one in first.members} == {"maintenance"}
        assert [(one.member_id, one.reason) for one in second.members] == [
            ("m2", "member was removed by an admin")
        ]
        await admin.groups.remove_members("old")  # no member is left to remove
        assert len(cluster.requests(ApiKey.LEAVE_GROUP)) == 2

    members = [Member("m1", [A0], "static"), Member("m2", [A1])]
    run(with_groups(fake, body, nodes=1, old=Group(state="Stable", members=members)))


def test_coordinators_come_with_their_errors(run, fake):
    async def body(cluster, groups, admin):
        found = await admin.coordinators.find(["g", "h"])
        assert [(one.node_id, one.port) for one in found.values()] == [
            (2, cluster.ports[2]),
            (1, cluster.ports[1]),
        ]
        nowhere = Coordinator(key="t", node_id=-1, host="", port=-1, error_code=15, error_message="wait")
        once(cluster, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse(coordinators=[nowhere]))
        answer = (await admin.coordinators.find(["t"], CoordinatorType.TRANSACTION))["t"]
        assert (answer.error, answer.message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "wait")
        assert cluster.requests(ApiKey.FIND_COORDINATOR)[-1].key_type == 1

    run(with_groups(fake, body, g=Group(2)))

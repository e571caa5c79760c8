"""What a client without rights is told of what it asked for, where the answer has no field for the whole."""

import pytest

from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from barnabas.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)

CLUSTER, GROUP = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


class DeniesAll:
    def authorize(self, *_args, **_logs):
        return False

    def authorize_any(self, *_args):
        return False


@pytest.fixture
def refusing(make_world):
    """A broker that refuses everything."""
    return make_world(authorizer=DeniesAll())


def test_a_controller_without_rights_hears_so_of_each_replica(refusing):
    states = [StopReplicaPartitionState(partition_index=index) for index in (0, 3)]
    topics = [StopReplicaTopicState(topic_name="t", partition_states=states)]
    answer = refusing.send(StopReplicaRequest(topic_states=topics), 4)

    assert answer.error_code == CLUSTER
    found = [(each.topic_name, each.partition_index, each.error_code) for each in answer.partition_errors]
    assert found == [("t", 0, CLUSTER), ("t", 3, CLUSTER)]


def test_reassignments_are_named_again_without_replicas(refusing):
    wanted = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 3])]
    answer = refusing.send(ListPartitionReassignmentsRequest(topics=wanted), 0)

    assert (answer.error_code, answer.error_message) == (CLUSTER, None)
    (topic,) = answer.topics
    assert [(each.partition_index, list(each.replicas)) for each in topic.partitions] == [(0, []), (3, [])]
    assert refusing.send(ListPartitionReassignmentsRequest(topics=None), 0).topics == []


def test_users_who_are_described_are_as_many_as_were_named(refusing):
    named = [UserName(name="a"), UserName(name="b")]
    answer = refusing.send(DescribeUserScramCredentialsRequest(users=named), 0)

    assert (answer.error_code, answer.error_message) == (CLUSTER, None)
    found = [(each.user, each.error_code, each.error_message) for each in answer.results]
    assert found == [("", CLUSTER, None)] * 2
    assert refusing.send(DescribeUserScramCredentialsRequest(users=None), 0).results == []


def test_users_who_are_altered_hear_no_more_than_the_code(refusing):
    deletions = [ScramCredentialDeletion(name="a", mechanism=1)]
    (result,) = refusing.send(AlterUserScramCredentialsRequest(deletions=deletions), 0).results

    assert (result.user, result.error_code, result.error_message) == ("a", CLUSTER, None)


@pytest.mark.parametrize(
    ("version", "of_all", "of_each"),
    [(1, ErrorCode.NONE, [GROUP] * 2), (2, GROUP, []), (7, GROUP, [])],
)
def test_offsets_of_a_group_are_refused_where_the_version_has_a_place(refusing, version, of_all, of_each):
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 3])]
    answer = refusing.send(OffsetFetchRequest(group_id="g", topics=topics), version)

    assert answer.error_code == of_all
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == of_each


def test_metrics_of_clients_are_refused_in_the_words_of_3_9(refusing):
    resource = AlterConfigsResource(resource_type=16, resource_name="x", configs=[])
    (answer,) = refusing.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses

    words = "Unexpected resource type CLIENT_METRICS for resource x"
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, words)

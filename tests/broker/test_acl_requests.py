"""DescribeAcls, CreateAcls and DeleteAcls with an authorizer."""

import random

import pytest

from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.acl import AclFilter, Operation
from barnabas.core.errors import ErrorCode
from barnabas.core.slices import in_one_piece
from barnabas.network.errors import CloseConnection
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.security.acl_authorizer import AclAuthorizer
from barnabas.security.acl_store import AclStore
from standing_clock import Clock

EVERY = {
    **dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter")),
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "operation": 1,
    "permission_type": 1,
}
RULE = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.fixture
def world(make_world):
    world = make_world()
    store = MemoryStore(MemoryEnsemble(lambda: 0), lambda call: call())
    store.start().result()
    authorizer = AclAuthorizer(
        AclStore(store, Clock(), random.Random(1)),
        frozenset({"User:ANONYMOUS"}),
        allow_without_rules=False,
    )
    authorizer.start().result()
    world.services.authorizer = world.services.acls = authorizer
    return world


def create(world, *rules, version=3):
    response = world.send(CreateAclsRequest(creations=[AclCreation(**each) for each in rules]), version)
    return [(ErrorCode.of(each.error_code).name, each.error_message) for each in response.results]


def described(world, version=3, **wanted):
    response = world.send(DescribeAclsRequest(**{**EVERY, **wanted}), version)
    assert response.error_code == 0
    return [
        (each.resource_type, each.resource_name, each.pattern_type, rule.principal, rule.operation)
        for each in response.resources
        for rule in each.acls
    ]


OK = ("NONE", "")


def test_rules_are_made_shown_and_removed(world):
    prefixed = {**RULE, "resource_name": "ord", "resource_pattern_type": 4, "operation": 4}
    assert create(world, RULE, {**RULE, "operation": 8}, prefixed) == [OK] * 3

    topic, prefix = (2, "orders", 3, "User:alice"), (2, "ord", 4, "User:alice")
    assert described(world) == [(*topic, 3), (*topic, 8), (*prefix, 4)]
    assert described(world, resource_name_filter="orders", pattern_type_filter=2, operation=4) == [
        (*prefix, 4)
    ]
    wanted = [DeleteAclsFilter(**{**EVERY, "operation": operation}) for operation in (4, 1)]
    removed = world.send(DeleteAclsRequest(filters=wanted), 3).filter_results
    assert [[(rule.resource_name, rule.operation) for rule in each.matching_acls] for each in removed] == [
        [("ord", 4)],
        [("orders", 3), ("orders", 8)],
    ]
    assert described(world) == []


def test_the_first_version_knows_literal_names_only(world):
    create(world, RULE, {**RULE, "resource_pattern_type": 4})
    assert described(world, version=0, pattern_type_filter=3) == [(2, "orders", 3, "User:alice", 3)]
    filters = [DeleteAclsFilter(**{**EVERY, "pattern_type_filter": 3})]
    removed = world.send(DeleteAclsRequest(filters=filters), 0).filter_results
    assert [len(each.matching_acls) for each in removed] == [1]
    assert described(world) == [(2, "orders", 4, "User:alice", 3)]


def test_a_rule_that_is_none_is_refused_alone(world):
    cluster = {**RULE, "resource_type": 4}
    assert create(
        world,
        cluster,
        {**cluster, "resource_name": "kafka-cluster", "operation": 5},
        {**RULE, "resource_name": ""},
        {**RULE, "resource_name": "a/b"},
        {**RULE, "operation": 99},
        {**RULE, "principal": "alice"},
    ) == [
        ("INVALID_REQUEST", "The only valid name for the CLUSTER resource is kafka-cluster"),
        OK,
        ("INVALID_REQUEST", "Invalid empty resource name"),
        ("INVALID_REQUEST", "Failed to create ACL"),
        ("INVALID_REQUEST", "Failed to create ACL"),
        ("UNKNOWN_SERVER_ERROR", None),
    ]
    assert len(described(world)) == 1


@pytest.mark.parametrize(
    "filters_only",
    [{"operation": 1}, {"permission_type": 1}, {"resource_type": 1}, {"resource_pattern_type": 2}],
)
def test_what_only_filters_have_refuses_the_whole_request(world, filters_only):
    codes = [code for code, _ in create(world, RULE, {**RULE, **filters_only})]
    assert codes == ["UNKNOWN_SERVER_ERROR"] * 2
    assert described(world) == []


@pytest.mark.parametrize("field", ["resource_type", "resource_pattern_type", "operation", "permission_type"])
def test_what_kafka_cannot_read_closes_the_connection(world, field):
    with pytest.raises(CloseConnection):
        create(world, {**RULE, field: 0})
    of_filters = {"resource_type": "resource_type_filter", "resource_pattern_type": "pattern_type_filter"}
    zero = {**EVERY, of_filters.get(field, field): 0}
    with pytest.raises(CloseConnection):
        world.send(DescribeAclsRequest(**zero), 3)
    with pytest.raises(CloseConnection):
        world.send(DeleteAclsRequest(filters=[DeleteAclsFilter(**zero)]), 3)


class Reader:
    """Who may look at the cluster and change nothing."""

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return operation is Operation.DESCRIBE


def test_who_may_look_at_rules_may_not_change_them(world):
    create(world, RULE)
    world.services.authorizer = Reader()
    refused = "CLUSTER_AUTHORIZATION_FAILED"
    assert [code for code, _ in create(world, {**RULE, "operation": 8})] == [refused]
    filters = [DeleteAclsFilter(**EVERY)] * 2
    removed = world.send(DeleteAclsRequest(filters=filters), 3).filter_results
    assert [ErrorCode.of(each.error_code).name for each in removed] == [refused] * 2
    assert described(world) == [(2, "orders", 3, "User:alice", 3)]


def test_the_authorizer_of_the_broker_obeys_what_was_made(world):
    create(world, {**RULE, "principal": "User:ANONYMOUS"})
    authorizer = world.services.authorizer
    assert [binding.pattern.name for binding in in_one_piece(authorizer.acls(AclFilter()))] == ["orders"]

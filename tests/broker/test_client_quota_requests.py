"""DescribeClientQuotas and AlterClientQuotas: the way of one through the other, and who may not."""

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.cluster.metadata.client_quota_admin import ClientQuotaAdmin
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from barnabas.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from standing_clock import Clock


class AllBut:
    """Allows everything but one operation on the cluster."""

    def __init__(self, denied):
        self.denied = denied

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return operation is not self.denied


@pytest.fixture
def with_store():
    def furnish(world):
        store = MemoryStore(MemoryEnsemble(lambda: 0), lambda call: call())
        store.start().result()
        ensure_persistent_paths(store).result()
        world.services.client_quotas = ClientQuotaAdmin(ConfigStore(store, Clock()))
        return world

    return furnish


def entry(user, key, value):
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=user)],
        ops=[OpData(key=key, value=value, remove=False)],
    )


ALTER = AlterClientQuotasRequest(
    entries=[entry("a", "producer_byte_rate", 5), entry("a", "consumer_byte_rate", 6), entry(None, "x", 1)]
)
DESCRIBE = DescribeClientQuotasRequest(
    components=[ComponentData(entity_type="user", match_type=2, match=None)], strict=True
)


@pytest.mark.parametrize("version", [0, 1])
def test_what_is_set_is_found_and_an_entity_named_twice_is_answered_once(make_world, with_store, version):
    world = with_store(make_world())
    answers = world.send(ALTER, version).entries
    assert [(each.entity[0].entity_name, each.error_code, each.error_message) for each in answers] == [
        ("a", 0, None),
        (None, ErrorCode.INVALID_REQUEST, "Invalid configuration key x"),
    ]
    found = world.send(DESCRIBE, version)
    assert (found.error_code, found.error_message) == (0, "")
    [only] = found.entries
    assert only.entity[0].entity_name == "a"
    assert {value.key: value.value for value in only.values} == {
        "producer_byte_rate": 5.0,
        "consumer_byte_rate": 6.0,
    }


def test_who_may_not_look_and_who_may_not_change(make_world, with_store):
    world = with_store(make_world(authorizer=AllBut(Operation.DESCRIBE_CONFIGS)))
    refused = world.send(DESCRIBE, 1)
    assert (refused.error_code, refused.error_message, refused.entries) == (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        None,
        None,
    )
    assert world.send(ALTER, 1).entries[0].error_code == 0

    world = with_store(make_world(authorizer=AllBut(Operation.ALTER_CONFIGS)))
    codes = [each.error_code for each in world.send(ALTER, 1).entries]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
    assert world.send(DESCRIBE, 1).entries == []


def test_a_filter_that_cannot_be_is_answered_as_a_whole(make_world, with_store):
    world = with_store(make_world())
    wrong = DescribeClientQuotasRequest(components=[ComponentData(entity_type="", match_type=2, match=None)])
    refused = world.send(wrong, 1)
    assert (refused.error_code, refused.entries) == (ErrorCode.INVALID_REQUEST, None)
    assert refused.error_message == "Unexpected empty filter component entity type"

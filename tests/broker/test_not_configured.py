"""APIs of what is not configured: the answers of a Kafka 3.9 broker in ZooKeeper mode without it."""

import pytest

from barnabas.broker.authorizer import Operation
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
from barnabas.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from barnabas.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

EVERY = {"resource_type_filter": 1, "pattern_type_filter": 3, "operation": 1, "permission_type": 1}
RULE = {"resource_type": 2, "resource_name": "orders", "operation": 3, "permission_type": 3}


class Nobody:
    """Nobody may do anything to the cluster."""

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return operation not in {Operation.ALTER, Operation.DESCRIBE}


def codes(entries):
    return [(ErrorCode.of(each.error_code).name, each.error_message) for each in entries]


@pytest.mark.parametrize("version", range(4))
def test_access_rules_need_an_authorizer(world, version):
    described = world.send(DescribeAclsRequest(**EVERY), version)
    created = world.send(CreateAclsRequest(creations=[AclCreation(**RULE), AclCreation(**RULE)]), version)
    deleted = world.send(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]), version)

    assert codes([described]) == [("SECURITY_DISABLED", "No Authorizer is configured on the broker")]
    assert codes(created.results) == [("SECURITY_DISABLED", "No Authorizer is configured.")] * 2
    assert codes(deleted.filter_results) == [("SECURITY_DISABLED", "No Authorizer is configured.")]


def test_who_may_not_is_refused_first(make_world):
    world = make_world(authorizer=Nobody())
    refused = [
        world.send(DescribeAclsRequest(**EVERY), 3).error_code,
        world.send(CreateAclsRequest(creations=[AclCreation(**RULE)]), 3).results[0].error_code,
        world.send(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERY)]), 3).filter_results[0].error_code,
        world.send(UpdateFeaturesRequest(), 1).error_code,
    ]

    assert refused == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 4


def test_tokens_are_for_those_who_have_shown_who_they_are(world):
    created = world.send(
        CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="b"), 3
    )
    answers = [
        created,
        world.send(RenewDelegationTokenRequest(hmac=b"x"), 2),
        world.send(ExpireDelegationTokenRequest(hmac=b"x"), 2),
        world.send(DescribeDelegationTokenRequest(owners=None), 3),
    ]

    assert {ErrorCode.of(each.error_code).name for each in answers} == {
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"
    }
    assert (created.principal_name, created.token_requester_principal_name) == ("b", "ANONYMOUS")


def test_sasl_on_a_listener_without_it(world):
    answers = [
        world.send(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        world.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2),
    ]

    assert [each.error_code for each in answers] == [ErrorCode.ILLEGAL_SASL_STATE] * 2


@pytest.mark.parametrize(
    ("level", "kind", "reason"),
    [
        (1, 1, "Could not apply finalized feature update because the provided feature is not supported."),
        (0, 2, "Can not delete non-existing finalized feature."),
        (
            0,
            1,
            (
                "Can not provide versionLevel: 0 less than 1 without setting the SAFE downgradeType in the "
                "request."
            ),
        ),
        (1, 4, "Received unknown upgrade type."),
    ],
)
def test_no_feature_can_be_finalized(world, level, kind, reason):
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=kind)
    answer = world.send(UpdateFeaturesRequest(feature_updates=[update]), 1)

    assert answer.error_code == ErrorCode.NONE
    assert codes(answer.results) == [("INVALID_REQUEST", reason)]


def test_features_are_the_controllers(world):
    world.controller.is_active = False
    answer = world.send(UpdateFeaturesRequest(), 1)

    assert codes([answer]) == [("NOT_CONTROLLER", "This is not the correct controller for this cluster.")]

"""DescribeUserScramCredentials and AlterUserScramCredentials."""

import pytest

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.metadata.scram_admin import ScramAdmin
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.errors import ErrorCode
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from standing_clock import Clock


class Nobody:
    """Nobody may do anything to the cluster."""

    def authorize(self, request, operation, resource, name, count=None, **_logs):
        return False


@pytest.fixture
def world(make_world):
    world = make_world()
    store = MemoryStore(MemoryEnsemble(lambda: 0), lambda call: call())
    store.start().result()
    ensure_persistent_paths(store).result()
    world.services.scram_credentials = ScramAdmin(ConfigStore(store, Clock()))
    return world


def upsertion(user):
    return ScramCredentialUpsertion(
        name=user, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"x" * 32
    )


def alter(world, *upsertions, deletions=()):
    request = AlterUserScramCredentialsRequest(upsertions=list(upsertions), deletions=list(deletions))
    results = world.send(request, 0).results
    return {each.user: (ErrorCode.of(each.error_code).name, each.error_message) for each in results}


def describe(world, *users):
    names = [UserName(name=user) for user in users]
    response = world.send(DescribeUserScramCredentialsRequest(users=names or None), 0)
    found = {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
        or ErrorCode.of(each.error_code).name
        for each in response.results
    }
    return ErrorCode.of(response.error_code).name, found


def test_credentials_are_set_shown_and_removed(world):
    assert alter(world, upsertion("a"), upsertion("")) == {
        "": ("UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        "a": ("NONE", ""),
    }
    assert describe(world) == ("NONE", {"a": [(1, 4096)]})
    assert describe(world, "b", "a") == ("NONE", {"b": "RESOURCE_NOT_FOUND", "a": [(1, 4096)]})
    gone = [ScramCredentialDeletion(name="a", mechanism=1)]
    assert alter(world, deletions=gone) == {"a": ("NONE", "")}
    assert describe(world) == ("NONE", {})


def test_only_the_controller_changes_credentials(world):
    world.controller.is_active = False
    assert {code for code, _ in alter(world, upsertion("a"), upsertion("b")).values()} == {"NOT_CONTROLLER"}


def test_who_may_not_is_refused(world):
    world.services.authorizer = Nobody()
    assert alter(world, upsertion("a"))["a"][0] == "CLUSTER_AUTHORIZATION_FAILED"
    assert describe(world) == ("CLUSTER_AUTHORIZATION_FAILED", {})

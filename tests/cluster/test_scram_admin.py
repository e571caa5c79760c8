"""SCRAM credentials of users, shown and changed: what Kafka refuses, and what stands in the store."""

import pytest

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_persistent_paths
from barnabas.cluster.metadata.scram_admin import CredentialAlteration, ScramAdmin
from barnabas.cluster.store.memory import MemoryEnsemble, MemoryStore
from barnabas.core.errors import ErrorCode
from barnabas.core.scram import ScramCredential, ScramMechanism, parse_credential
from standing_clock import Clock

SHA256 = ScramMechanism("SCRAM-SHA-256")
SALT = b"0123456789"


@pytest.fixture
def configs(loop):
    store = MemoryStore(MemoryEnsemble(lambda: 0), loop.call_soon)
    loop.wait(store.start())
    loop.wait(ensure_persistent_paths(store))
    return ConfigStore(store, Clock())


@pytest.fixture
def admin(loop, configs):
    class Waiting:
        def describe(self, users):
            found = loop.wait(ScramAdmin(configs).describe(users))
            return {user: each if isinstance(each, dict) else each.code.name for user, each in found.items()}

        def alter(self, *alterations):
            results = loop.wait(ScramAdmin(configs).alter(alterations))
            return {user: error and (error.code.name, error.own_message) for user, error in results.items()}

    return Waiting()


def setting(user, mechanism=1, iterations=4096):
    salted = SHA256.salted_password("secret", SALT, 4096)
    return CredentialAlteration(user, mechanism, iterations, SALT, salted)


def test_a_credential_is_set_beside_quotas_and_lets_its_user_in(loop, configs, admin):
    loop.wait(configs.write("users", "a%40b", {"producer_byte_rate": "1"}))
    assert admin.alter(setting("a@b"), setting("a@b", 2, 16384), setting("c")) == {"a@b": None, "c": None}

    values = loop.wait(configs.read("users", "a%40b"))
    assert values["producer_byte_rate"] == "1"
    stored = parse_credential(SHA256, values["SCRAM-SHA-256"])
    assert stored == ScramCredential.of_password(SHA256, "secret", SALT)
    assert admin.describe(None) == {"a@b": {1: 4096, 2: 16384}, "c": {1: 4096}}

    assert admin.alter(CredentialAlteration("a@b", 1)) == {"a@b": None}
    assert admin.describe(["a@b"]) == {"a@b": {2: 16384}}


def test_what_is_wrong_with_one_user_leaves_the_others(admin):
    admin.alter(setting("there"))
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL.name
    assert admin.alter(
        setting(""),
        setting("few", iterations=4095),
        setting("many", iterations=16385),
        setting("odd", mechanism=3),
        setting("twice"),
        setting("twice"),
        CredentialAlteration("absent", 1),
        setting("there", 2),
        CredentialAlteration("there", 1),
    ) == {
        "": (unacceptable, "Username must not be empty"),
        "few": (unacceptable, "Too few iterations"),
        "many": (unacceptable, "Too many iterations"),
        "odd": ("UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        "twice": ("DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request"),
        "absent": ("RESOURCE_NOT_FOUND", "Attempt to delete a user credential that does not exist"),
        "there": None,
    }
    assert admin.describe(None) == {"there": {2: 4096}}
    assert admin.describe(["there", "absent", "", "twice", "twice"]) == {
        "there": {2: 4096},
        "absent": "RESOURCE_NOT_FOUND",
        "": "RESOURCE_NOT_FOUND",
        "twice": "DUPLICATE_RESOURCE",
    }


def test_no_secret_is_shown():
    assert "secret" not in repr(setting("a")) and "0123" not in repr(setting("a"))  # noqa: PT018

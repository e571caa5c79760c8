"""Who may do what: super users, rules, and the lines of the audit in Kafka's words."""

import logging
from types import SimpleNamespace

import pytest

from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.errors import ConfigError
from barnabas.core.eventlog import AUTHORIZER
from barnabas.network.peer import THIS_BROKER
from barnabas.protocol.api import ApiKey
from barnabas.security import acl_authorizer
from barnabas.security.acl_authorizer import AclAuthorizer, parse_super_users

TOPIC = ResourcePattern(Resource.TOPIC, "orders")


def rule(permission=Permission.ALLOW, operation=Operation.READ, principal="User:alice", host="*"):
    return AclBinding(TOPIC, AccessControlEntry(principal, host, operation, permission))


def asking(principal="User:alice", host="10.0.0.1", api=ApiKey.FETCH):
    return SimpleNamespace(principal=principal, client_host=host, api_key=int(api))


@pytest.fixture
def authorizer(brokers):
    return started(brokers)


def started(brokers, *, allow_without_rules=False):
    users = parse_super_users("User:root; User:CN=x,OU=y;")
    authorizer = AclAuthorizer(brokers.acls(started=False), users, allow_without_rules=allow_without_rules)
    brokers.loop.wait(authorizer.start())
    return authorizer


def may(authorizer, operation=Operation.READ, name="orders", **who):
    return authorizer.authorize(asking(**who), operation, Resource.TOPIC, name)


def test_what_was_decided_is_decided_again_when_rules_change(brokers, authorizer):
    assert not may(authorizer)
    assert brokers.loop.wait(authorizer.create_acls([rule()])) == [None]
    assert may(authorizer)
    assert may(authorizer, Operation.DESCRIBE)
    assert not may(authorizer, Operation.WRITE)
    assert not may(authorizer, principal="User:bob")
    brokers.loop.wait(authorizer.create_acls([rule(Permission.DENY, principal="User:*", host="10.0.0.2")]))
    assert may(authorizer)
    assert not may(authorizer, host="10.0.0.2")
    brokers.loop.wait(authorizer.delete_acls([AclFilter()]))
    assert not may(authorizer)


def test_a_rule_of_another_broker_counts(brokers, authorizer):
    assert not may(authorizer)
    brokers.loop.wait(brokers.acls().create([rule()]))
    brokers.loop.run()
    assert may(authorizer)


def test_super_users_and_the_broker_itself_may_do_everything(brokers, authorizer):
    brokers.loop.wait(authorizer.create_acls([rule(Permission.DENY, Operation.ALL, "User:*")]))
    for principal in ("User:root", "User:CN=x,OU=y", THIS_BROKER):
        assert may(authorizer, Operation.ALTER, principal=principal)
        assert authorizer.authorize_any(asking(principal), Operation.WRITE, Resource.TOPIC)
    assert not may(authorizer, principal="User:CN=x")


def test_without_rules_everyone_may_where_that_is_configured(brokers):
    authorizer = started(brokers, allow_without_rules=True)
    assert may(authorizer)
    assert authorizer.authorize_any(asking(), Operation.WRITE, Resource.TOPIC)
    brokers.loop.wait(authorizer.create_acls([rule()]))
    assert not may(authorizer, principal="User:bob")
    assert may(authorizer, name="others", principal="User:bob")


def test_any_topic_follows_the_rules(brokers, authorizer):
    ask = (asking(), Operation.READ, Resource.TOPIC)
    assert not authorizer.authorize_any(*ask)
    brokers.loop.wait(authorizer.create_acls([rule()]))
    assert authorizer.authorize_any(*ask)
    assert not authorizer.authorize_any(asking("User:bob"), *ask[1:])


def test_answers_are_not_kept_without_bound(brokers, authorizer, monkeypatch):
    monkeypatch.setattr(acl_authorizer, "DECISIONS_MAX", 10)
    for number in range(100):
        assert not may(authorizer, name=f"topic-{number}")
    assert len(authorizer._decisions) <= 10


def test_the_answer_of_a_name_that_is_too_long_is_not_kept(brokers, authorizer):
    """20,000 names of 32 KB would take 640 MB."""
    assert not may(authorizer, name="x" * (acl_authorizer.NAME_CHARACTERS_MAX + 1))
    assert not authorizer._decisions
    assert not may(authorizer, name="x" * acl_authorizer.NAME_CHARACTERS_MAX)
    assert len(authorizer._decisions) == 1


def test_the_audit_has_kafkas_lines_and_levels(brokers, authorizer, caplog):
    brokers.loop.wait(authorizer.create_acls([rule()]))
    caplog.set_level(acl_authorizer.TRACE, AUTHORIZER)
    caplog.clear()
    for operation in (Operation.READ, Operation.DESCRIBE_CONFIGS):
        for logs in ({}, {"log_if_allowed": False, "log_if_denied": False}):
            authorizer.authorize(asking(), operation, Resource.TOPIC, "orders", lambda _: 3, **logs)
    authorizer.authorize_any(asking(api=ApiKey.INIT_PRODUCER_ID), Operation.WRITE, Resource.TOPIC)

    lines = [(record.levelno, record.getMessage()) for record in caplog.records if record.name == AUTHORIZER]
    allowed = (
        "Principal = User:alice is Allowed Operation = Read from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Fetch with resourceRefCount = 3"
    )
    denied = allowed.replace("Allowed", "Denied").replace("Read", "DescribeConfigs")
    any_topic = (
        "Principal = User:alice is Denied Operation = Write from host = 10.0.0.1 on resource = "
        "Topic:UNKNOWN:NONE for request = InitProducerId with resourceRefCount = 0"
    )
    assert lines == [
        (logging.DEBUG, allowed),
        (acl_authorizer.TRACE, allowed),
        (logging.INFO, denied),
        (acl_authorizer.TRACE, denied),
        (logging.INFO, any_topic),
    ]


def test_a_name_that_a_client_chose_breaks_no_line_of_the_audit(authorizer, caplog):
    caplog.set_level(logging.INFO, AUTHORIZER)
    may(authorizer, name="x\nPrincipal = User:root is Allowed")
    assert "\n" not in caplog.messages[-1]


def test_a_super_user_that_is_no_principal_is_refused():
    with pytest.raises(
        ConfigError, match="expected a string in format principalType:principalName but got bob"
    ):
        parse_super_users("User:root;bob")
    assert parse_super_users("") == frozenset()

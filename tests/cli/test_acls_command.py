"""``barnabas acls``, the twin of kafka-acls.sh, on a running broker and on its store."""

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.core.errors import ErrorCode, KafkaError
from waiting import until

AUTHORIZER = "authorizer.class.name=kafka.security.authorizer.AclAuthorizer"
ADDING = "Adding ACLs for resource `ResourcePattern(resourceType={}, name={}, patternType={})`: "
CURRENT = ADDING.replace("Adding", "Current")
ENTRY = "(principal=User:{}, host={}, operation={}, permissionType={})"


def lines(title, *entries):
    return f"{title}\n " + "\n".join("\t" + ENTRY.format(*each) for each in entries) + " \n\n"


@pytest.fixture
def guarded(serve, tmp_path):
    """A broker with an authorizer, on which ANONYMOUS may do everything."""
    return serve(tmp_path / "data", "--set", AUTHORIZER, "--set", "super.users=User:ANONYMOUS")


@pytest.fixture
def acls(barnabas, guarded):
    return lambda *flags, stdin="": barnabas(
        "acls", "--bootstrap-server", guarded.bootstrap, *flags, stdin=stdin
    )


def test_rules_are_added_listed_and_removed(acls):
    added = acls("--add", "--allow-principal", "User:alice", "--operation", "read", "--topic", "orders")
    of_orders = lines(CURRENT.format("TOPIC", "orders", "LITERAL"), ("alice", "*", "READ", "ALLOW"))
    assert added.stdout == of_orders.replace("Current", "Adding")
    acls("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--group", "g-",
         "--resource-pattern-type", "prefixed")  # fmt: skip

    of_groups = lines(CURRENT.format("GROUP", "g-", "PREFIXED"), ("bob", "10.0.0.1", "ALL", "DENY"))
    assert acls("--list").stdout == of_orders + of_groups
    assert acls("--list", "--topic", "orders").stdout == of_orders
    assert acls("--list", "--group", "g-1", "--resource-pattern-type", "match").stdout == of_groups
    assert acls("--list", "--principal", "User:bob").stdout == f"ACLs for principal `User:bob`\n{of_groups}"

    asked = acls("--remove", "--topic", "orders", stdin="n\n")
    assert asked.stdout == (
        "Are you sure you want to delete all ACLs for resource filter `ResourcePattern(resourceType=TOPIC, "
        "name=orders, patternType=LITERAL)`? (y/n)\n"
    )
    assert acls("--list", "--topic", "orders").stdout == of_orders
    acls(
        "--remove", "--topic", "orders", "--allow-principal", "User:alice", "--operation", "Read", stdin="y\n"
    )
    assert acls("--list").stdout == of_groups
    acls("--remove", "--force", "--group", "g-", "--resource-pattern-type", "any")
    assert acls("--list").stdout == ""


def test_what_producers_and_consumers_need(acls):
    acls("--add", "--allow-principal", "User:alice", "--producer", "--idempotent", "--topic", "orders",
         "--transactional-id", "t", "--consumer", "--group", "g")  # fmt: skip
    alice = [("alice", "*", operation, "ALLOW") for operation in ("READ", "WRITE", "CREATE", "DESCRIBE")]
    assert acls("--list").stdout == "".join(
        [
            lines(CURRENT.format("TOPIC", "orders", "LITERAL"), *alice),
            lines(CURRENT.format("GROUP", "g", "LITERAL"), alice[0]),
            lines(
                CURRENT.format("CLUSTER", "kafka-cluster", "LITERAL"),
                ("alice", "*", "IDEMPOTENT_WRITE", "ALLOW"),
            ),
            lines(CURRENT.format("TRANSACTIONAL_ID", "t", "LITERAL"), alice[1], alice[3]),
        ]
    )


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("", "Command must include exactly one action: --list, --add, --remove. "),
        ("--add --list", "Command must include exactly one action: --list, --add, --remove. "),
        ("--list --allow-principal User:a", 'Option "[list]" can\'t be used with option "[allow-principal]"'),
        ("--add --producer --topic t --operation Read",
         'Option "[producer]" can\'t be used with option "[operation]"'),
        ("--add --producer", "With --producer you must specify a --topic"),
        ("--add --idempotent --topic t", "The --idempotent option is only available if --producer is set"),
        ("--add --consumer --topic t", "With --consumer you must specify a --topic and a --group and no "),
        ("--add --principal User:a --topic t", "The --principal option is only available if --list is set"),
        ("--add --topic t", "You must specify one of: --allow-principal, --deny-principal when"),
        ("--add --allow-principal User:a", "You must provide at least one resource: --topic <topic> or "),
        ("--add --allow-principal User:a --group g --operation Write",
         "ResourceType GROUP only supports operations All, Read, Delete, Describe"),
        ("--add --allow-principal User:a --group g --operation Fly", "ResourceType GROUP only supports "),
        ("--add --allow-principal User:a --topic t --resource-pattern-type match",
         "A '--resource-pattern-type' value of 'MATCH' is not valid when adding acls."),
        ("--add --allow-principal alice --topic t",
         "Error while executing ACL command: expected a string in format principalType:principalName but"),
        ("--add --allow-principal User:a --topic a/b",
         "Error while executing ACL command: org.apache.kafka.common.errors.InvalidRequestException: Fai"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(acls, flags, problem):
    result = acls(*flags.split())
    assert result.exit_code == 1
    assert result.stderr.startswith(problem), result.stderr
    assert result.stderr.count("\n") == 1


def test_without_an_authorizer_there_are_no_rules(barnabas, broker):
    result = barnabas("acls", "--bootstrap-server", broker.bootstrap, "--list")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: "
        "No Authorizer is configured on the broker\n"
    )


def test_rules_are_made_before_there_is_anyone_who_may_make_them(barnabas, serve, tmp_path):
    broker = serve(tmp_path / "data", "--set", AUTHORIZER)
    with Admin(broker.bootstrap) as admin:
        with pytest.raises(KafkaError) as refused:
            admin.acls.describe()
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        store = ("--authorizer-properties", f"barnabas.metadata.path={tmp_path}/data/metadata.sqlite")
        made = barnabas("acls", *store, "--add", "--allow-principal", "User:ANONYMOUS", "--cluster")
        assert made.exit_code == 0
        assert "deprecated" in made.stderr

        def described():
            try:
                return admin.acls.describe()
            except KafkaError:
                return None

        until(lambda: described() is not None)
        assert barnabas("acls", *store, "--list").stdout == made.stdout.replace("Adding", "Current")

        # The cluster does not include its topics.
        admin.topics.create(NewTopic("orders", partitions=1))
        with Producer(broker.bootstrap) as producer, pytest.raises(KafkaError) as denied:
            producer.send("orders", b"x").result(10)
        assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_store_that_is_not_there_is_said_in_one_line(barnabas, tmp_path):
    result = barnabas("acls", "--list", "--authorizer-properties", f"barnabas.metadata.path={tmp_path}/no")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "names neither zookeeper.connect" in result.stderr.splitlines()[-1]

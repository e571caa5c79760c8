"""What is given to the admin client in another form: taken where it is plain what was meant, else refused."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.admin import Admin, ConfigResource, ElectionType, NewTopic
from barnabas.client import Producer, TopicPartition

NO_RESOURCE = "a resource is ConfigResource.topic(name), or of another type, not 'orders'"
REFUSED: dict[str, tuple[Any, str]] = {
    "topics.create": (("orders",), "topics to create are NewTopic(name, partitions=...), not 'orders'"),
    "topics.create_partitions": (
        ("orders",),
        "numbers of partitions are given by name, as a dict, not 'orders'",
    ),
    "configs.describe": (("orders",), NO_RESOURCE),
    "configs.alter": (({"orders": {}},), NO_RESOURCE),
    "partitions.delete_records": (("orders",), "offsets are given by partition, as a dict, not 'orders'"),
    "partitions.reassign": (
        ({"orders": [1]},),
        "a partition is a TopicPartition or (topic, number), not 'orders'",
    ),
    "partitions.elect_leaders": (
        ([("t", 0)], "preferred"),
        "the kind is an ElectionType, behind the partitions, and it is 'preferred'",
    ),
    "offsets.list": (("orders",), "times are given by partition, as a dict, not 'orders'"),
    "log_dirs.describe": (("0",), "brokers are named by int, not str ('0')"),
    "features.update": (("x",), "updates of features are given by name, as a dict, not 'x'"),
    "acls.create": (("User:ada",), "a rule is an AclBinding, not 'User:ada'"),
    "acls.delete": (("User:ada",), "a rule is an AclFilter, not 'User:ada'"),
    "acls.describe": ((None,), "what is described is an AclFilter, not None"),
    "cluster.try_api_versions": (("all",), "brokers are named by int, not str ('a')"),
    "configs.list_resources": ((["topic"],), "types of resources are named by int, not str ('topic')"),
    "coordinators.find": (("g", "group"), "the kind is a CoordinatorType, behind the keys, not 'group'"),
    "log_dirs.alter_replicas": (
        ({"t": "/d"},),
        "a replica is TopicPartitionReplica(broker, topic, partition), not 't'",
    ),
    "quotas.alter": (("user",), "a change of quotas is a ClientQuotaAlteration, not 'user'"),
    "quotas.describe": ((None,), "a filter is a QuotaFilter, not None"),
    "transactions.abort": (("id",), "what is aborted is an AbortTransactionSpec, not 'id'"),
    "delegation_tokens.describe": ((5,), "owners are given as a list, not 5"),
}


def call(admin: Admin, verb: str, *arguments: Any) -> Any:
    noun, _, name = verb.partition(".")
    return getattr(getattr(admin, noun), name)(*arguments)


@pytest.mark.parametrize("verb", REFUSED)
def test_what_cannot_be_meant_is_refused_in_a_line(kafka: SimpleNamespace, verb: str) -> None:
    arguments, words = REFUSED[verb]
    with Admin(kafka.bootstrap_servers) as admin, pytest.raises(TypeError, match=f"^{re.escape(words)}$"):
        call(admin, verb, *arguments)


def test_one_where_several_are_meant_and_plain_values_are_taken(kafka: SimpleNamespace) -> None:
    topic = "taken-as-meant"
    resource = ConfigResource.topic(topic)
    with Admin(kafka.bootstrap_servers) as admin:
        admin.topics.create(NewTopic(topic, configs={"retention.ms": 4000, "preallocate": False}))
        admin.configs.alter({resource: {"retention.ms": 5000, "preallocate": True}})
        entries = admin.configs.describe(resource)[resource]
        assert (entries["retention.ms"].value, entries["preallocate"].value) == ("5000", "true")
        with Producer(kafka.bootstrap_servers) as producer:
            for at in (1000, 2000):
                producer.send(topic, "v", timestamp_ms=at).result(30)
        pair: Any = (topic, 0)
        found = admin.offsets.list({pair: datetime.fromtimestamp(2, UTC)})
        assert found[TopicPartition(topic, 0)].offset == 1
        assert admin.partitions.delete_records({pair: 1}) == {TopicPartition(topic, 0): 1}
        assert set(admin.log_dirs.describe(0)) == {0}
        assert set(admin.partitions.try_elect_leaders([pair], ElectionType.PREFERRED)) == {pair}

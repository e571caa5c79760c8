"""A class name has one home: what stands in two modules makes a reader ask which of them is meant."""

import ast
from collections import Counter, defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "barnabas"

WIRE = ("protocol/messages/", "protocol/coordinator/")
"""Messages and records of different APIs share names because Kafka's do;
all of them together are one home.
"""

SHARED = {
    # What the admin client gives its users is called as in Kafka's, and so is what a broker works with.
    "ConfigResource": "KafkaAdminClient's, and a message",
    "CreatedTopic": "the admin client's, and what the topics' administration of a broker writes",
    "GroupOffsets": "verbs of the admin client, and the coordinator's state",
    "GroupType": "the admin client's knows Unknown, the coordinator's does not",
    "NewTopic": "KafkaAdminClient's, and what the topics' administration of a broker is asked for",
    "ProducerState": "KafkaAdminClient's, and a message",
    "TopicDescription": "KafkaAdminClient's, and the image that an assignor sees",
    # Kafka has these twice, too.
    "AbortedTransaction": "a client's value, and the message that it came in",
    "Broker": "a client's view of it, and the registration",
    "Endpoint": "a listener's, and a member's of a streams group",
    "MemberState": "AbstractCoordinator's, and the consumer group's",
    "Node": "a client's, and a message",
    "PartitionMetadata": "a client's, and a record of the group coordinator",
    "Replica": "the controller's (PartitionAndReplica), and a leader's view of a follower",
    "TopicMetadata": "a client's, and a record of the group coordinator",
    "TransactionState": "TransactionManager's in the client, KafkaAdminClient's, the coordinator's, messages",
    "TopicPartition": "one partition; in the consumer's embedded protocol, several of one topic",
    # Ports that are narrow on purpose: each module says what it needs.
    "Topics": "verbs of the admin client, and the broker's port",
}
"""The names that may stand in more than one module, each with its reason.
A new name is found another word.
"""


def homes_by_name():
    """For each class at the top of a module, where it stands."""
    homes = defaultdict(set)
    for path in SOURCES.rglob("*.py"):
        module = path.relative_to(SOURCES).as_posix()
        home = "messages" if module.startswith(WIRE) else module
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(home)
    return homes


def test_a_module_of_tests_has_a_name_of_its_own():
    """pytest knows them by it: of two it collects one, and says that the other is not the file it is."""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))

    assert [name for name, count in names.items() if count > 1] == []


def test_a_class_name_has_one_home():
    twice = {name: sorted(homes) for name, homes in homes_by_name().items() if len(homes) > 1}

    assert {name: homes for name, homes in twice.items() if name not in SHARED} == {}
    assert sorted(set(SHARED) - set(twice)) == [], "these have one home by now; take their row away"

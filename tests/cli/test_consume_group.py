"""``barnabas consume`` as a member of a group, on a real broker: it goes on where the group is."""

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer, TopicPartition


@pytest.fixture
def topic(broker, topic_name):
    """A topic of one partition with the values 0 to 9."""
    name = topic_name("read-by-groups")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1, replication_factor=1))
    with Producer(broker.bootstrap) as producer:
        for number in range(10):
            producer.send(name, f"{number}")
    return name


@pytest.fixture
def consume(barnabas, broker):
    return lambda *flags: barnabas(
        "consume", "--bootstrap-server", broker.bootstrap, "--timeout-ms", "10000", *flags
    )


def position(broker, group, topic):
    with Admin(broker.bootstrap) as admin:
        return admin.groups.offsets([group])[group].get(TopicPartition(topic, 0))


def test_a_group_goes_on_where_it_was(consume, broker, topic):
    flags = ("--topic", topic, "--group", f"of-{topic}")
    first = consume(*flags, "--from-beginning", "--max-messages", "4")
    assert first.stdout.split() == ["0", "1", "2", "3"]
    assert position(broker, f"of-{topic}", topic).offset == 4
    second = consume(*flags, "--max-messages", "6")
    assert second.stdout.split() == ["4", "5", "6", "7", "8", "9"]
    assert second.stderr == "Processed a total of 6 messages\n"
    with Admin(broker.bootstrap) as admin:
        assert admin.groups.describe([f"of-{topic}"])[f"of-{topic}"].members == []


def test_topics_are_found_by_their_names(consume, broker, topic):
    result = consume("--include", f"{topic[:-1]}.", "--from-beginning", "--max-messages", "10")
    assert result.stdout.split() == [str(number) for number in range(10)]
    with Admin(broker.bootstrap) as admin:
        own = [one.group_id for one in admin.groups.list() if one.group_id.startswith("console-consumer-")]
        assert all(offsets == {} for offsets in admin.groups.offsets(own).values())


def test_the_group_may_be_an_option_of_the_consumer(consume, broker, topic):
    flags = ("--topic", topic, "--command-property", f"group.id=by-{topic}", "--max-messages", "1")
    assert consume(*flags, "--command-property", "auto.offset.reset=earliest").stdout == "0\n"
    assert position(broker, f"by-{topic}", topic).offset == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--group", "g"], "Exactly one of --include/--topic is required"),
        (["--topic", "t", "--include", "t"], "Exactly one of --include/--topic is required"),
        (
            ["--topic", "t", "--group", "g", "--partition", "0"],
            "Options group and partition cannot be specified together",
        ),
        (
            ["--topic", "t", "--group", "g", "--command-property", "group.id=h"],
            "do not match. Detected group ids: 'g', 'h'",
        ),
        (
            [
                *[
                    "--topic",
                    "t",
                    "--group",
                    "g",
                    "--from-beginning",
                    "--command-property",
                    "auto.offset.reset=latest",
                ]
            ],
            "Can't simultaneously specify --from-beginning and 'auto.offset.reset=latest'",
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(barnabas, flags, words):
    result = barnabas("consume", "--bootstrap-server", "127.0.0.1:1", *flags)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1

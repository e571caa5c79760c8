"""``barnabas log-dirs`` and `admin.log_dirs` on a running broker."""

import json

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition


def test_lines_and_exit_codes(broker, barnabas, topic_name):
    name = topic_name("dirs")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=2))
        [(broker_id, directories)] = admin.log_dirs.describe(
            each.node_id for each in admin.cluster.describe().brokers
        ).items()
    [(path, directory)] = directories.items()
    server = ("log-dirs", "--bootstrap-server", broker.bootstrap)
    done = barnabas(*server, "--describe", "--topic-list", f"{name},nowhere")
    first, second, found = done.stdout.splitlines()

    assert (done.exit_code, first, second) == (
        0,
        "Querying brokers for log directories information",
        f"Received log directory information from brokers {broker_id}",
    )
    shown = json.loads(found)
    # They come in the order of a hash table, which depends on the name of the topic.
    shown["brokers"][0]["logDirs"][0]["partitions"].sort(key=lambda each: each["partition"])
    assert shown == {
        "version": 1,
        "brokers": [
            {
                "broker": broker_id,
                "logDirs": [
                    {
                        "logDir": path,
                        "error": None,
                        "partitions": [
                            {"partition": f"{name}-{place}", "size": 0, "offsetLag": 0, "isFuture": False}
                            for place in range(2)
                        ],
                    }
                ],
            }
        ],
    }
    assert directory.error is None
    assert {TopicPartition(name, 0), TopicPartition(name, 1)} <= set(directory.replicas)
    assert 0 < directory.usable_bytes <= directory.total_bytes


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ((), 'Missing required argument "[describe]"'),
        (("--describe", "--broker-list", "x"), 'For input string: "x"'),
        (
            ("--describe", "--broker-list", "7,5"),
            "ERROR: The given brokers do not exist from --broker-list: 5,7.",
        ),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(broker, barnabas, flags, line):
    done = barnabas("log-dirs", "--bootstrap-server", broker.bootstrap, *flags)

    assert done.exit_code == 1
    assert line in done.stderr


def test_a_broker_that_is_not_there(broker):
    with Admin(broker.bootstrap) as admin:
        found = admin.log_dirs.try_describe([99], timeout_ms=500)

    assert isinstance(found[99], BarnabasError)

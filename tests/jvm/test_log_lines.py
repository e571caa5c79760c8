"""The lines that ours writes with ``barnabas.log.names=kafka`` are lines of a genuine broker, under the same
logger.
"""

import re
import string

import kafka_harness
import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer
from barnabas.core.kafka_words import WORDS
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(180)]

SAME = {
    "elected": "kafka.controller.KafkaController",
    "controller_ready": "kafka.controller.KafkaController",
    "topic_change": "kafka.controller.KafkaController",
    "topic_deleted": "kafka.controller.TopicDeletionManager",
    "leader_and_isr.sent": "state.change.logger",
    "update_metadata.sent": "state.change.logger",
    "stop_replica.sent": "state.change.logger",
    "startup.complete": "kafka.coordinator.group.GroupCoordinator",
    "coordinator.elected": "kafka.coordinator.group.GroupCoordinator",
    "load.finished": "kafka.coordinator.group.GroupMetadataManager",
    "classic.generation_begins": "kafka.coordinator.group.GroupCoordinator",
    "classic.group_is_empty": "kafka.coordinator.group.GroupCoordinator",
    "logs.loaded": "kafka.log.LogManager",
}
"""Events whose line is Kafka's from its first word on;
a genuine one may say more behind it, or between our words.
"""
KAFKA_SAYS_MORE = {
    "classic.generation_begins": r"\[GroupCoordinator 0\]: Stabilized group .+ "
    r"generation \d+ \(.+\) with \d+ members",
    "logs.loaded": r"Loaded \d+ logs in \d+ms",
}


def pattern(event):
    if event in KAFKA_SAYS_MORE:
        return KAFKA_SAYS_MORE[event]
    parts = string.Formatter().parse(WORDS[event])
    return "".join(re.escape(text) + (".+" if name else "") for text, name, _, _ in parts)


def test_a_genuine_broker_writes_these_lines(zookeeper, server_folder):
    level = "-Dorg.slf4j.simpleLogger.log"
    options = [*kafka_harness.JUDGE_OPTIONS, f"{level}.kafka=info", f"{level}.state.change.logger=info"]
    folder = server_folder / "log-lines"
    folder.mkdir()
    server = kafka_harness.start_broker(folder, f"{zookeeper}/log-lines", options=options)
    try:
        address = server.wait_until_listening().bootstrap
        with Admin(address) as admin:
            admin.topics.create(NewTopic("orders"))
            with Consumer(bootstrap_servers=address, group_id="readers") as consumer:
                consumer.subscribe(["orders"])
                until(
                    lambda: consumer.poll(timeout_ms=100) is not None and consumer.assignment(),
                    "a generation",
                )
            admin.topics.delete(["orders"])

        def missing():
            lines = server.log.read_text().splitlines()
            return [
                event
                for event, logger in SAME.items()
                if not any(re.search(rf"INFO {re.escape(logger)} - {pattern(event)}", line) for line in lines)
            ]

        until(lambda: not missing(), lambda: f"lines for {missing()}")
    finally:
        server.stop()

"""A storm over groups whose members are Apache Kafka's own consumers, of both protocols, beside others."""

import sys
from pathlib import Path

import kafka_harness
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "chaos"))

import storm

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

GROUPS = {
    "mixed": ("java-3.9", "java-4.3", "kafka-python"),
    "consumer": ("java-4.3-consumer", "confluent-consumer", "java-4.3-consumer"),
}


def test_groups_of_java_consumers_outlive_a_storm_with_nothing_left_out(tmp_path, judge):
    for version in (kafka_harness.ZOOKEEPER_ERA, kafka_harness.NEWEST_TOOLS):
        judge(f"Apache Kafka {version}", lambda version=version: kafka_harness.artifacts(version))
    problems, words = storm.run(tmp_path, 5, 25, broker_kills=1, groups=GROUPS)
    assert not problems, "\n".join([words, *problems[:20]])
    assert words.count("'java'") == len(GROUPS), words

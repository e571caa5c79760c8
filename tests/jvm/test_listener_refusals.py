"""The lines that our broker gives to wrong listeners are those that Kafka 3.9 gives."""

import subprocess
from pathlib import Path

import kafka_harness
import pytest

from listener_refusals import REFUSED, TAKEN

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]


def test_kafka_says_the_same_of_every_case(judge):
    jars = judge("Kafka's listeners", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    expected = {case: line for case, (_, line) in REFUSED.items()} | dict.fromkeys(TAKEN, "OK")
    settings = {case: given for case, (given, _) in REFUSED.items()} | TAKEN
    source = Path(__file__).with_name("JavaListeners.java")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    done = subprocess.run(
        [kafka_harness.java(), quiet, "-cp", f"{jars}/*", str(source)],
        input="".join(_as_line(given) for given in settings.values()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(settings), done.stderr[-2000:]
    assert dict(zip(settings, lines, strict=True)) == expected


def _as_line(settings: dict[str, str]) -> str:
    return "\t".join(f"{key}={value}" for key, value in settings.items()) + "\n"

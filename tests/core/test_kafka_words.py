"""`barnabas.core.kafka_words`: events in Kafka's words, and the names of its loggers."""

import ast
import logging
import re
import string
from pathlib import Path

import pytest

import barnabas
from barnabas.core.eventlog import EventLog
from barnabas.core.kafka_words import LOGGERS, WORDS, KafkaFormatter, kafka_logger, our_loggers

SOURCE = Path(barnabas.__file__).parent
LEVELS = {"debug", "info", "warning", "error"}
OF_STATE_CHANGES = re.compile(r"(leader_and_isr|update_metadata|stop_replica)\.(sent|handled)")
"""Events whose names are put together where they are logged;
tests/cli/test_broker_logs.py sees their lines.
"""


def logged_events():
    """The fields of each event that the source names, by event."""
    found = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                fields = {keyword.arg for keyword in node.keywords}
                found.setdefault(node.args[0].value, []).append(fields)
    return found


def test_each_word_that_a_line_needs_is_a_field_of_its_event():
    logged = logged_events()
    for event, words in WORDS.items():
        if OF_STATE_CHANGES.match(event):
            continue
        needed = {name for _, name, _, _ in string.Formatter().parse(words) if name} - {"me"}
        assert event in logged, event
        for fields in logged[event]:
            assert needed <= fields, (event, needed - fields)


@pytest.fixture
def written():
    """What a broker 7 with Kafka's words writes for one event of a part."""
    lines = []

    class Kept(logging.Handler):
        def emit(self, record):
            lines.append(KafkaFormatter(7).format(record))

    def write(part, event, **fields):
        handler = Kept()
        logger = logging.getLogger(f"barnabas.{part}")
        logger.addHandler(handler)
        try:
            EventLog(part).warning(event, **fields)
        finally:
            logger.removeHandler(handler)
        return re.sub(r"^\[[-\d]+ [:,\d]+\] ", "", lines.pop())

    return write


def test_an_event_with_words_is_kafkas_line(written):
    line = written("coordinator.classic", "classic.generation_begins", group="g", generation=3, members=2)

    assert line == (
        "WARN [GroupCoordinator 7]: Stabilized group g generation 3 with 2 members"
        " (kafka.coordinator.group.GroupCoordinator)"
    )


def test_several_values_stand_side_by_side(written):
    line = written(
        "cluster.controller.brokers", "broker_change", new=[2], dead=[], bounced=set(), live=(1, 2)
    )

    assert line == (
        "WARN [Controller id=7] Newly added brokers: 2, deleted brokers: , bounced brokers: , all live "
        "brokers: 1,2 (kafka.controller.KafkaController)"
    )


def test_an_event_without_words_keeps_its_form_under_kafkas_logger(written):
    assert written("log.cleaner", "cleaner.keyless", partition="a-0", dropped=2) == (
        "WARN cleaner.keyless partition=a-0 dropped=2 (kafka.log.LogCleaner)"
    )


def test_a_field_from_outside_neither_breaks_the_line_nor_is_a_pattern(written):
    line = written("coordinator.classic", "classic.group_is_empty", group="{me}\n\x1b[2J{0}", generation=1)

    assert line.startswith(
        "WARN [GroupCoordinator 7]: Group {me}\\n\\x1b[2J{0} with generation 1 is now empty"
    )
    assert line.isprintable()


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [
        ("barnabas.cluster.controller.isr", "kafka.controller.KafkaController"),
        ("barnabas.cluster.controller.deletion", "kafka.controller.TopicDeletionManager"),
        ("state.change.logger", "state.change.logger"),
        ("barnabas", "barnabas"),
        ("barnabas.nothing", "barnabas.nothing"),
    ],
)
def test_a_part_has_the_logger_of_its_row_or_of_its_parents(ours, kafkas):
    assert kafka_logger(ours) == kafkas


def test_kafkas_loggers_lead_back_to_ours():
    assert our_loggers("kafka.log.LogManager") == ["barnabas.log.future_logs", "barnabas.log.manager"]
    assert our_loggers("state.change.logger") == ["state.change.logger"]
    assert our_loggers("kafka.Nothing") == []
    for part, logger in LOGGERS.items():
        assert f"barnabas.{part}" in our_loggers(logger)

"""``barnabas e2e-latency``: the lines of the script, and what it refuses."""

import json
import re

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.cli import end_to_end_latency
from barnabas.cli.options import ToolError
from barnabas.client import Consumer

ONE = ["--producer-acks", "1", "--record-size", "100", "--num-records"]


@pytest.fixture
def latency(barnabas, serve, tmp_path):
    """Runs it against a broker of its own, for topic t."""
    server = serve(tmp_path / "data")
    bootstrap = server.wait_until_ready().bootstrap

    def run(*options):
        return barnabas("e2e-latency", "--topic", "t", "--bootstrap-server", bootstrap, *options)

    run.bootstrap = bootstrap
    return run


def test_the_lines_of_the_script(latency):
    result = latency(*ONE, "1001")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(
        r"0\t[\d.]+\n1000\t[\d.]+\n"
        r"Avg latency: \d+\.\d{4} ms\nPercentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+\n",
        result.stdout,
    )
    assert 'Topic "t" does not exist. Will create topic with 1 partition(s)' in result.stderr
    again = latency(*ONE, "1")
    assert again.stderr == ""


def test_for_a_program(latency):
    found = json.loads(latency(*ONE, "20", "--json").stdout)
    assert found["records"] == 20
    values = list(found["percentiles_ms"].values())
    assert list(found["percentiles_ms"]) == ["50th", "99th", "99.9th"]
    assert 0 < values[0] <= values[1] <= values[2]
    assert values[0] / 20 < found["average_ms"] <= values[2]


def test_records_have_the_shape_that_was_asked_for(latency):
    shape = ["--record-key-size", "7", "--num-headers", "2", "--record-header-key-size", "5"]
    assert latency(*ONE, "2", *shape, "--record-header-size", "-1").exit_code == 0
    with Consumer(latency.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        first = consumer.poll(10_000)[0]
    assert (len(first.value), len(first.key)) == (100, 7)
    assert [(len(name), value) for name, value in first.headers] == [(5, None), (5, None)]


def test_over_several_partitions(latency):
    with Admin(latency.bootstrap) as admin:
        admin.topics.create(NewTopic("t", 3, 1))
    assert latency(*ONE, "30").exit_code == 0


@pytest.mark.parametrize("acks", ["0", "-1", "two"])
def test_without_an_answer_there_is_nothing_to_measure(barnabas, acks):
    result = barnabas(
        "e2e-latency",
        "--topic",
        "t",
        "-b",
        "127.0.0.1:1",
        "--num-records",
        "1",
        "--producer-acks",
        acks,
        "--record-size",
        "1",
    )
    assert result.exit_code == 1
    assert result.stderr == (
        "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement."
        " Please use '1' or 'all'.\n"
    )


class Came:
    def __init__(self, value, key=None, offset=0):
        self.value, self.key, self.offset = value, key, offset


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([], "poll() timed out before finding a result"),
        ([Came(b"other")], "is not the one that was sent"),
        ([Came(b"sent", b"key")], "is not the one that was sent"),
        ([Came(b"sent"), Came(b"more")], "Only one result was expected"),
    ],
)
def test_what_somebody_else_writes_is_not_measured(records, words):
    with pytest.raises(ToolError, match=re.escape(words)):
        end_to_end_latency._check(records, b"sent", None)

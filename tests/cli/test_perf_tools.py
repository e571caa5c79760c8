"""``barnabas producer-perf-test`` and ``consumer-perf-test`` on a running broker."""

import re

import pytest

from barnabas.admin import Admin, NewTopic
from barnabas.client import Consumer, TopicPartition
from barnabas.client.types import LATEST_TIMESTAMP
from waiting import until

TOTAL = re.compile(
    r"(\d+) records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency,"
    r" \d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n"
)
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,"
    " fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


ONE = ("--num-records", "1", "--record-size", "1")


@pytest.fixture
def topic(broker, topic_name):
    name = topic_name("perf")
    with Admin(broker.bootstrap) as admin:
        admin.topics.create(NewTopic(name, partitions=1))
    return name


@pytest.fixture
def produce(barnabas, broker, topic):
    """Runs producer-perf-test on the topic."""

    def run(*flags, pairs=()):
        props = ("--command-property", f"bootstrap.servers={broker.bootstrap}", "linger.ms=1", *pairs)
        return barnabas("producer-perf-test", "--topic", topic, *props, "--throughput", "-1", *flags)

    return run


def values(broker, topic, count):
    return [record.value for record in records(broker, topic, count)]


def records(broker, topic, count):
    with Consumer(broker.bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        found = []
        while len(found) < count:
            found += consumer.poll(30_000)
    return found


def test_random_records_are_sent_and_read(produce, barnabas, broker, topic):
    done = produce("--num-records", "700", "--record-size", "100")
    assert done.exit_code == 0, done.stderr
    assert TOTAL.fullmatch(done.stdout)[1] == "700"
    assert re.fullmatch(rb"[A-Z]{100}", values(broker, topic, 700)[42])

    flags = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "700")
    done = barnabas("consumer-perf-test", *flags, "--timeout", "60000")
    assert done.exit_code == 0, done.stderr
    header, line = done.stdout.splitlines()
    assert header == HEADER
    start, end, mib, _mib_rate, count, *_ = line.split(", ")
    assert (mib, count) == ("0.0668", "700")
    assert start <= end
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", end)


@pytest.mark.parametrize("distribution", ["range", "random"])
def test_records_have_keys_of_a_range(produce, broker, topic, distribution):
    flags = ("--num-records", "40", "--payload-monotonic", "--record-key-range", "7")
    for seed in ("0", "0", "5"):
        done = produce(*flags, "--key-distribution", distribution, "--random-seed", seed)
        assert done.exit_code == 0, done.stderr
    keys = [record.key for record in records(broker, topic, 120)]

    first, again, other = keys[:40], keys[40:80], keys[80:]
    assert set(first) == {str(number).encode() for number in range(7)}
    assert first == again
    if distribution == "range":
        assert first == other == [str(number % 7).encode() for number in range(40)]
    else:
        assert first != other


def test_numbers_are_sent(produce, broker, topic):
    done = produce("--num-records", "3", "--payload-monotonic", "--print-metrics")

    assert (done.exit_code, done.stderr) == (0, "Warning: this client keeps no metrics to print\n")
    assert values(broker, topic, 3) == [b"0", b"1", b"2"]


def test_numbers_are_sent_in_transactions(produce, broker, topic, topic_name):
    """At this rate a transaction of 20 ms has one or two of them, and the last one ends with the records."""
    name = topic_name("perf-id")
    flags = ("--transactional-id", name, "--transaction-duration-ms", "20", "--throughput", "100")
    done = produce("--num-records", "150", "--payload-monotonic", *flags)
    assert (done.exit_code, done.stderr) == (0, "")
    assert TOTAL.fullmatch(done.stdout)[1] == "150"

    with Admin(broker.bootstrap) as admin:
        until(lambda: admin.transactions.describe([name])[name].state == "CompleteCommit")
        end = admin.offsets.list({TopicPartition(topic, 0): LATEST_TIMESTAMP})[TopicPartition(topic, 0)]
    assert end.offset > 152, "each transaction has a marker, and there were several"
    with Consumer(broker.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        found = []
        while len(found) < 150:
            found += [record.value for record in consumer.poll(30_000)]
    assert found == [str(number).encode() for number in range(150)]


def test_a_transaction_that_fails_ends_the_run(produce):
    flags = ("--num-records", "5", "--record-size", "2000000", "--transaction-duration-ms", "1000")
    done = produce(*flags, pairs=["max.request.size=4000000"])

    assert (done.exit_code, done.stdout) == (1, "")
    assert "larger than the max message size" in done.stderr


@pytest.mark.parametrize(
    ("delimiter", "wanted"), [("\\n", {b"a;b", b"", b"c;d"}), (";", {b"a", b"b\n\nc", b"d\n"})]
)
def test_values_of_a_file_are_sent(produce, broker, topic, tmp_path, delimiter, wanted):
    file = tmp_path / "values"
    file.write_text("a;b\n\nc;d\n")
    done = produce("--num-records", "60", "--payload-file", str(file), "--payload-delimiter", delimiter)

    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [f"Reading payloads from: {file}", "Number of messages read: 3"]
    assert set(values(broker, topic, 60)) == wanted


def test_a_record_that_is_refused_is_not_counted(produce, topic):
    done = produce("--num-records", "2", "--record-size", "2000000")

    assert done.exit_code == 0
    assert done.stdout.startswith("0 records sent, ")
    assert len(done.stderr.splitlines()) == 2
    assert "Exception: " in done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--num-records", "1"), "exactly one of --record-size, --payload-file, --payload-monotonic"),
        (("--num-records", "0", "--record-size", "1"), "--num-records"),
        (
            ("--num-records", "1", "--record-size", "1", "--command-property", "acks"),
            "Invalid property: acks",
        ),
        (
            ("--num-records", "1", "--record-size", "1", "--command-property"),
            "expected at least one argument",
        ),
        ((*ONE, "--key-distribution", "range"), "--record-key-range is required when --key-distribution"),
        ((*ONE, "--record-key-range", "5"), "--key-distribution must be 'range' or 'random' when"),
        (
            (*ONE, "--record-key-range", "0", "--key-distribution", "random"),
            "--record-key-range should be greater than zero",
        ),
        ((*ONE, "--key-distribution", "odd"), "odd"),
    ],
)
def test_what_producer_perf_test_does_not_take(produce, flags, words):
    done = produce(*flags)

    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_file_of_values(produce, tmp_path):
    file = tmp_path / "values"
    file.write_text("")
    done = produce("--num-records", "1", "--payload-file", str(file))

    assert (done.exit_code, done.stderr) == (1, "Error: File does not exist or empty file provided.\n")


def test_without_options_for_the_producer(barnabas):
    flags = ("--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1")
    done = barnabas("--as-script", "producer-perf-test", *flags)

    assert done.exit_code == 1
    assert "At least one of --bootstrap-server, --command-property, --producer-props" in done.stderr
    unnamed = barnabas("--as-script", "producer-perf-test", *flags, "--command-property", "acks=1")
    assert (unnamed.exit_code, unnamed.stdout) == (1, "")
    assert '"bootstrap.servers"' in unnamed.stderr


def test_no_flags_at_all_show_the_help(barnabas):
    done = barnabas("producer-perf-test")

    assert done.exit_code == 0
    assert "--num-records" in done.stdout


def test_reading_ends_when_nothing_comes(barnabas, broker, topic):
    flags = ("--bootstrap-server", broker.bootstrap, "--topic", topic, "--num-records", "1", "--timeout", "1")
    done = barnabas("consumer-perf-test", *flags, "--show-detailed-stats", "--threads", "2")

    assert done.exit_code == 0
    ignored, header, over = done.stdout.splitlines()
    assert ignored == (
        "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the "
        "test"
    )
    assert header == HEADER.replace("start.time, end.time", "time, threadId")
    assert over == (
        "WARNING: Exiting before consuming the expected number of messages: timeout (1 ms) exceeded. You "
        "can use the --timeout option to increase the timeout."
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--num-records", "1"), "Exactly one of the following arguments is required: [topic], [include]"),
        (("--topic", "t"), "Exactly one of the following arguments is required: [messages], [num-records]"),
        (
            ("--topic", "t", "--num-records", "1", "--reporting-interval", "0"),
            "Reporting interval must be greater",
        ),
        (("--topic", "t", "--num-records", "1", "--date-format", "b"), "Illegal pattern character 'b'"),
    ],
)
def test_what_consumer_perf_test_does_not_take(barnabas, flags, words):
    done = barnabas("consumer-perf-test", "--bootstrap-server", "127.0.0.1:1", *flags)

    assert done.exit_code == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1

"""``barnabas transactions`` and `admin.transactions` on a running broker."""

import time
from unittest.mock import ANY

import pytest

from barnabas.admin import AbortTransactionSpec, Admin, NewTopic, TransactionState
from barnabas.client import Consumer, Producer, ProducerFencedError, TopicPartition
from barnabas.core.errors import ErrorCode, KafkaError
from forged_transactions import LONG_AGO_MS, UNVERIFIED, leave_open
from waiting import until

PRODUCERS = (
    "ProducerId\tProducerEpoch\tLatestCoordinatorEpoch\tLastSequence\tLastTimestamp\t"
    "CurrentTransactionStartOffset\t\n"
)
HANGING = (
    "Topic\tPartition\tProducerId\tProducerEpoch\tCoordinatorEpoch\tStartOffset\tLastTimestamp\t"
    "Duration(min)\t\n"
)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory, serve):
    """A broker that takes batches of transactions without asking their coordinator."""
    server = serve(tmp_path_factory.mktemp("transactions") / "data", f"--set={UNVERIFIED}")
    server.wait_until_ready()
    yield server.bootstrap
    assert server.stop() == 0


@pytest.fixture
def tool(barnabas, bootstrap):
    return lambda *flags: barnabas("transactions", "--bootstrap-server", bootstrap, *flags)


@pytest.fixture
def admin(bootstrap):
    with Admin(bootstrap) as client:
        yield client


@pytest.fixture
def topic(admin, topic_name):
    name = topic_name("remembered")
    admin.topics.create(NewTopic(name, partitions=2))
    return name


def table(done):
    """The rows of what was printed, each by the names of its columns."""
    assert (done.exit_code, done.stderr) == (0, "")
    header, *rows = [[cell.strip() for cell in line.split("\t")[:-1]] for line in done.stdout.splitlines()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def committed(bootstrap, topic):
    """What a reader of committed records finds in partition 0 up to the last stable offset."""
    tp = TopicPartition(topic, 0)
    with Consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        values = []
        while consumer.position(tp) < end:
            values += [record.value for record in consumer.poll(200)]
    return values


@pytest.mark.parametrize(
    ("command", "failed"),
    [
        (
            ("describe-producers", "--topic", "any", "--partition", "0"),
            "Failed to describe producers for partition any-0 on broker 99",
        ),
        (("find-hanging",), "Failed to search broker 99"),
    ],
)
def test_a_broker_that_is_not_in_the_cluster_is_said_at_once(tool, command, failed):
    done = tool(*command, "--broker-id", "99")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"{failed}: There is no broker 99 in the cluster now. Enable debug logging for additional detail.\n"
    )


def test_the_table_of_producers(tool, bootstrap, admin, topic):
    with Producer(bootstrap) as producer:
        for number in range(3):
            producer.send(topic, "v", partition=0, timestamp_ms=1_600_000_000_000 + number)
    flags = ("describe-producers", "--topic", topic, "--partition", "0")
    done = tool(*flags)

    tp = TopicPartition(topic, 0)
    [state] = admin.transactions.describe_producers([tp])[tp]
    assert done.stdout.startswith(PRODUCERS)
    assert table(done) == [
        {
            "ProducerId": f"{state.producer_id}",
            "ProducerEpoch": "0",
            "LatestCoordinatorEpoch": "-1",
            "LastSequence": "2",
            "LastTimestamp": "1600000000002",
            "CurrentTransactionStartOffset": "None",
        }
    ]
    [broker] = [each.node_id for each in admin.cluster.describe().brokers]
    assert tool(*flags, "--broker-id", f"{broker}").stdout == done.stdout
    assert tool("describe-producers", "--topic", topic, "--partition", "1").stdout == PRODUCERS


def test_an_open_transaction_is_listed_and_described_until_it_ends(tool, bootstrap, admin, topic_name, topic):
    name = topic_name("clerk")
    with Producer(bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        [row] = table(tool("describe", "--transactional-id", name))
        begun, lasts = "CurrentTransactionStartTimeMs", "TransactionDurationMs"
        assert [row[each] for each in ("TransactionState", begun, lasts)] == ["Empty", "None", "None"]
        with producer.transaction():
            for partition in (1, 0):
                producer.send(topic, "v", partition=partition)
            producer.flush()
            [row] = [row for row in table(tool("list")) if row["TransactionalId"] == name]
            [listing] = [one for one in admin.transactions.list() if one.transactional_id == name]
            assert row == {
                "TransactionalId": name,
                "Coordinator": f"{listing.coordinator_id}",
                "ProducerId": f"{listing.producer_id}",
                "TransactionState": "Ongoing",
            }
            [row] = table(tool("describe", "--transactional-id", name))
            assert 0 <= time.time() * 1000 - int(row.pop(begun)) < 60_000
            assert 0 <= int(row.pop(lasts)) < 60_000
            assert row == {
                "CoordinatorId": f"{listing.coordinator_id}",
                "TransactionalId": name,
                "ProducerId": f"{listing.producer_id}",
                "ProducerEpoch": "0",
                "TransactionState": "Ongoing",
                "TransactionTimeoutMs": "60000",
                "TopicPartitions": ANY,
            }
            assert sorted(row["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
            far = ("--duration-filter", "3600000")
            assert name not in [row["TransactionalId"] for row in table(tool("list", *far))]
            assert name in [row["TransactionalId"] for row in table(tool("list", "--duration-filter", "-5"))]
            # As a pattern, for this id alone: other tests leave theirs behind.
            matching = tool("list", "--transactional-id-pattern", f"{name[:-1]}[{name[-1]}]")
            assert [row["TransactionalId"] for row in table(matching)] == [name]
            assert table(tool("list", "--transactional-id-pattern", name[:-1])) == []

        until(lambda: admin.transactions.describe([name])[name].state is TransactionState.COMPLETE_COMMIT)
        found = admin.transactions.list(states=[TransactionState.ONGOING], producer_ids=[listing.producer_id])
        assert found == []


def test_a_hanging_transaction_is_found_and_aborted(tool, bootstrap, admin, topic):
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        producer.send(topic, "first", partition=0)
    start = leave_open(bootstrap, tp, producer_id=4_000_000_001)
    with Producer(bootstrap) as producer:
        producer.send(topic, "behind", partition=0)
    assert committed(bootstrap, topic) == [b"first"]

    hanging = tool("find-hanging", "--topic", topic)
    [row] = table(hanging)
    minutes = int(row.pop("Duration(min)"))
    assert 0 <= (time.time() * 1000 - LONG_AGO_MS) / 60_000 - minutes < 2
    assert row == {
        "Topic": topic,
        "Partition": "0",
        "ProducerId": "4000000001",
        "ProducerEpoch": "0",
        "CoordinatorEpoch": "-1",
        "StartOffset": f"{start}",
        "LastTimestamp": f"{LONG_AGO_MS}",
    }
    [broker] = [each.node_id for each in admin.cluster.describe().brokers]
    for flags in (("--partition", "0"), ("--broker-id", f"{broker}")):
        assert table(tool("find-hanging", "--topic", topic, *flags)) == table(hanging)
    assert topic in [row["Topic"] for row in table(tool("find-hanging", "--broker-id", f"{broker}"))]
    assert tool("find-hanging", "--topic", topic, "--partition", "1").stdout == HANGING

    done = tool("abort", "--topic", topic, "--partition", "0", "--start-offset", f"{start}")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    assert committed(bootstrap, topic) == [b"first", b"behind"]
    assert tool("find-hanging", "--topic", topic).stdout == HANGING


def test_a_hanging_transaction_is_aborted_by_its_producer(tool, bootstrap, admin, topic):
    leave_open(bootstrap, TopicPartition(topic, 0), producer_id=4_000_000_002, epoch=7)
    flags = ("abort", "--topic", topic, "--partition", "0", "--producer-id", "4000000002")

    done = tool(*flags, "--producer-epoch", "6", "--coordinator-epoch", "-1")
    spec = (
        f"AbortTransactionSpec(topicPartition={topic}-0, producerId=4000000002, producerEpoch=6,"
        " coordinatorEpoch=0)"
    )
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        f"Failed to abort transaction {spec}: WriteTxnMarkers request with {spec} failed due an invalid"
        " producer epoch. Enable debug logging for additional detail.\n"
    )
    assert tool(*flags, "--producer-epoch", "7", "--coordinator-epoch", "3").exit_code == 0
    assert tool("find-hanging", "--topic", topic).stdout == HANGING

    with pytest.raises(KafkaError, match="coordinator epoch 2 has been fenced") as caught:
        admin.transactions.abort(AbortTransactionSpec(TopicPartition(topic, 0), 4_000_000_002, 7, 2))
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_transaction_that_its_coordinator_has_does_not_hang(tool, bootstrap, topic, topic_name):
    """However long it is open."""
    with Producer(bootstrap, transactional_id=topic_name("clerk")) as producer, producer.transaction():
        producer.send(topic, "v", partition=0, timestamp_ms=LONG_AGO_MS)
        producer.flush()
        [row] = table(tool("describe-producers", "--topic", topic, "--partition", "0"))
        assert row["CurrentTransactionStartOffset"] == "0"
        assert tool("find-hanging", "--topic", topic).stdout == HANGING
        # In another partition, to which the coordinator does not count it, it does.
        leave_open(bootstrap, TopicPartition(topic, 1), producer_id=int(row["ProducerId"]))
        [found] = table(tool("find-hanging", "--topic", topic))
        assert found["Partition"] == "1"
    tool("abort", "--topic", topic, "--partition", "1", "--start-offset", "0")


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            ("describe", "--transactional-id", "nobody"),
            (
                "Failed to describe transaction state of transactional-id `nobody`: DescribeTransactions"
                " request for transactionalId `nobody` failed because the ID could not be found. Enable debug"
                " logging for additional detail."
            ),
        ),
        (
            ("describe-producers", "--topic", "a b", "--partition", "3"),
            (
                "Failed to describe producers for partition a b-3 on leader: Failed to fetch metadata for"
                " partition a b-3 due to invalid topic `a b`. Enable debug logging for additional detail."
            ),
        ),
        (
            ("describe-producers", "--topic", "a b", "--partition", "3", "--broker-id", "0"),
            (
                "Failed to describe producers for partition a b-3 on broker 0: Failed to fetch metadata for"
                " partition a b-3 due to invalid topic error: Topic name is invalid: 'a b' contains one or"
                " more characters other than ASCII alphanumerics, '.', '_' and '-'. Enable debug logging for"
                " additional detail."
            ),
        ),
        (
            ("abort", "--topic", "TOPIC", "--partition", "0", "--start-offset", "5"),
            "Could not find any open transactions starting at offset 5 on partition TOPIC-0",
        ),
        (
            ("abort", "--topic", "TOPIC", "--partition", "0"),
            (
                "The transaction to abort must be identified either with --start-offset (for brokers on 3.0"
                " or above) or with --producer-id, --producer-epoch, and --coordinator-epoch (for older"
                " brokers)"
            ),
        ),
        (
            ("abort", "--topic", "TOPIC", "--partition", "0", "--producer-id", "1"),
            "Missing required argument --producer-epoch",
        ),
        (
            ("abort", "--topic", "TOPIC", "--partition", "0", "--producer-id", "1", "--producer-epoch", "1"),
            "Missing required argument --coordinator-epoch",
        ),
        (
            ("find-hanging",),
            (
                "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the"
                " search"
            ),
        ),
        (
            ("find-hanging", "--broker-id", "0", "--partition", "1"),
            "The --partition argument requires --topic to be provided",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be(tool, admin, topic, flags, text):
    [broker] = [each.node_id for each in admin.cluster.describe().brokers]
    named = {"TOPIC": topic, "0": f"{broker}" if "--broker-id" in flags else "0"}
    done = tool(*(named.get(flag, flag) for flag in flags))

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"{text}\n".replace("TOPIC", topic).replace("broker 0", f"broker {broker}")


def test_the_admin_client_names_each_error(admin, topic):
    known, unknown = TopicPartition(topic, 0), TopicPartition(topic, 9)
    found = admin.transactions.try_describe_producers([known, unknown], timeout_ms=1000)
    assert found[known] == []
    assert isinstance(found[unknown], KafkaError)
    assert found[unknown].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    found = admin.transactions.try_describe(["nobody"])
    assert found["nobody"].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_whoever_is_fenced_writes_nothing_more(bootstrap, admin, topic, topic_name):
    name = topic_name("clerk")
    with Producer(bootstrap, transactional_id=name) as zombie:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, "left open", partition=0)
        zombie.flush()
        fenced = admin.transactions.fence(name)[name]
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
    found = admin.transactions.describe([name])[name]
    assert (found.producer_id, found.producer_epoch) == fenced
    assert fenced.epoch > 0
    assert committed(bootstrap, topic) == []

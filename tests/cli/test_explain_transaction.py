"""``barnabas explain transaction``: where it stands, what it holds back, and who has to do what."""

import re
import shlex

import pytest

from barnabas.admin import Admin, NewTopic, TransactionDescription, TransactionState
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.client.metadata import PartitionMetadata
from barnabas.network.errors import DisconnectedError
from barnabas.operations.transaction_explanation import lines
from barnabas.operations.transaction_stations import PartitionHeld, TransactionStations
from forged_transactions import UNVERIFIED, leave_open
from waiting import until


@pytest.fixture
def explain(barnabas):
    def run(bootstrap, *flags):
        done = barnabas("explain", "transaction", *flags, "--bootstrap-server", bootstrap)
        assert done.exit_code == 0, done.stderr
        return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.stdout.splitlines())

    return run


@pytest.fixture
def bootstrap(tmp_path, serve):
    server = serve(tmp_path / "data", f"--set={UNVERIFIED}")
    server.wait_until_ready()
    yield server.bootstrap
    assert server.stop() == 0


def test_a_transaction_from_its_beginning_to_its_end(explain, barnabas, bootstrap):
    missing = barnabas("explain", "transaction", "clerk", "--bootstrap-server", bootstrap)
    assert missing.exit_code == 1
    assert "__transaction_state does not exist yet" in missing.stderr
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        assert "__transaction_state" not in {one.name for one in admin.topics.list(internal=True)}, (
            "only a look"
        )

    with (
        Producer(bootstrap, transactional_id="clerk") as producer,
        Consumer(bootstrap, group_id="readers", enable_auto_commit=False) as consumer,
    ):
        producer.init_transactions()
        assert explain(bootstrap, "clerk")["state"] == "Empty, no transaction has begun; time-out 60000 ms"
        consumer.assign([TopicPartition("orders", 0)])
        consumer.commit({TopicPartition("orders", 0): 0})
        with producer.transaction():
            producer.send("orders", "one", partition=0)
            producer.send_offsets({TopicPartition("orders", 0): 1}, consumer.group_metadata())
            producer.flush()
            found = explain(bootstrap, "clerk")
            assert re.fullmatch(r"broker \d+, which leads __transaction_state-\d+", found["coordinator"])
            assert found["state"].startswith("Ongoing, begun at 20")
            assert found["orders-0"].endswith("; last stable offset 0 of 1, this transaction is open from 0")
            assert found["groups"].endswith("keeps readers")
            assert re.match(r"open: its producer ends it, or .* aborts it in \d+ ms\.", found["verdict"])
    until(lambda: explain(bootstrap, "clerk")["state"].startswith("CompleteCommit"))
    assert explain(bootstrap, "clerk")["verdict"] == "nothing of it is open: no reader waits for it"

    unknown = barnabas("explain", "transaction", "nobody", "--bootstrap-server", bootstrap)
    assert unknown.exit_code == 1
    assert "No coordinator knows the transactional id nobody" in unknown.stderr


def test_what_hangs_is_named_with_the_command_that_ends_it(explain, barnabas, bootstrap):
    tp = TopicPartition("orders", 0)
    with Admin(bootstrap) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        with Producer(bootstrap, transactional_id="clerk") as producer, producer.transaction():
            producer.send("orders", "one", partition=0)
        until(lambda: admin.transactions.describe(["clerk"])["clerk"].state == "CompleteCommit")
        [state] = admin.transactions.describe_producers([tp])[tp]
    # A batch of the transaction that comes behind its marker, as a late one once could.
    start = leave_open(bootstrap, tp, state.producer_id, epoch=state.epoch + 1)

    found = explain(bootstrap, "clerk", "--topic", "orders")
    assert "the coordinator does not count it to the transaction" in found["orders-0"]
    assert (
        f"last stable offset {start} of {start + 1}, producer {state.producer_id} of clerk"
        in found["orders-0"]
    )
    command = found["verdict"].partition("End it: barnabas ")[2].replace("...", bootstrap)
    assert barnabas(*shlex.split(command)).exit_code == 0
    found = explain(bootstrap, "clerk", "--topic", "orders")
    assert found["orders-0"].endswith("nothing is open")
    assert found["verdict"] == "nothing of it is open: no reader waits for it"


def test_a_marker_waits_for_a_broker_that_is_down(explain, join_cluster):
    servers = {}
    for number in (1, 2):
        settings = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}
        options = [f"--set={key}={value}" for key, value in settings.items()]
        servers[number] = join_cluster(number, *options)
        servers[number].wait_until_ready()
        if number == 1:  # alone, so that it coordinates everything
            with Producer(servers[1].bootstrap, transactional_id="clerk") as producer:
                producer.init_transactions()
    bootstrap = servers[1].bootstrap
    with Admin(bootstrap) as admin:
        until(lambda: len(admin.cluster.describe().brokers) == 2)
        admin.topics.create(NewTopic("orders", assignment={0: [1], 1: [2]}))
        with Producer(bootstrap, transactional_id="clerk") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send("orders", "v", partition=partition)
            producer.flush()
            servers[2].kill()
            until(lambda: admin.topics.describe(["orders"])["orders"].partitions[1].leader < 0)
            producer.commit_transaction()
        until(lambda: "orders-0" not in explain(bootstrap, "clerk"), "broker 1 has its marker")
        found = explain(bootstrap, "clerk")
        assert found["state"].startswith("PrepareCommit, begun at ")
        assert found["orders-1"] == "no leader (replicas 2, in sync 2); its marker waits for a leader"
        assert found["verdict"] == (
            "decided (commit): it ends when these can take markers again: orders-1: start broker 2"
        )
        servers[2] = join_cluster(2)
        servers[2].wait_until_ready()
        until(lambda: explain(bootstrap, "clerk")["state"].startswith("CompleteCommit"))


def stations(*partitions, state=TransactionState.PREPARE_ABORT, now_ms=61_000):
    description = TransactionDescription(3, state, 7, 2, 60_000, 1_000, [one.tp for one in partitions])
    return TransactionStations("clerk", 4, description, now_ms, partitions, {}, {}, ())


def held(number, leader, isr, stable=5, minimum=1):
    metadata = PartitionMetadata(number, leader, 0, [1, 2], isr, [])
    return PartitionHeld(TopicPartition("t", number), True, metadata, minimum, [], stable, stable)


def test_each_marker_that_is_not_written_says_what_it_waits_for():
    gone = PartitionHeld(TopicPartition("t", 3), True, None, 1, None, None, None)
    silent = DisconnectedError("no answer")
    found = dict(lines(stations(held(0, 1, [1], minimum=2), held(1, 2, [2], stable=silent), gone)))

    assert found["t-0"].startswith(
        "leader broker 1; its marker waits for broker 1, which has 1 replicas in sync of"
        " min.insync.replicas=2"
    )
    assert (
        found["t-1"]
        == "leader broker 2; its marker waits for broker 2; its leader does not answer: no answer"
    )
    assert found["t-3"] == "the cluster does not have it: no marker is due"
    assert found["verdict"] == (
        "decided (abort): it ends when these can take markers again: t-0: start broker 2;"
        " t-1: broker 2 leads it and does not answer"
    )
    assert "1 markers are on their way" in dict(lines(stations(held(0, 1, [1, 2]))))["verdict"]
    assert "all markers are written" in dict(lines(stations()))["verdict"]


def test_an_open_transaction_is_aborted_by_its_coordinator_and_when_it_is_not_its_log_says_why():
    open_now = stations(state=TransactionState.ONGOING, now_ms=31_000)
    assert "or the coordinator aborts it in 30000 ms" in dict(lines(open_now))["verdict"]
    overdue = stations(state=TransactionState.ONGOING, now_ms=101_000)
    assert "past its time-out for 40000 ms: the coordinator, broker 3," in dict(lines(overdue))["verdict"]

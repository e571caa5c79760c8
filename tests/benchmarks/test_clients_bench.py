"""The bench of clients: each program sends and reads what it says, and its figures are judged by budgets."""

import pytest
from bench.clients.__main__ import Figures, verdicts
from bench.clients.programs import CONSUMERS, PRODUCERS, Clock

RECORDS = 200


@pytest.mark.filterwarnings("default")  # what other clients warn of is theirs
@pytest.mark.parametrize("name", PRODUCERS)
def test_a_program_sends_as_many_records_as_it_says(kafka, kafka_topic, name):
    clock = Clock()
    PRODUCERS[name](kafka.bootstrap_servers, kafka_topic, RECORDS, clock)
    assert len(kafka.records(kafka_topic)) >= RECORDS
    assert clock.wall_s > 0
    assert clock.processor_s > 0


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", CONSUMERS)
def test_a_program_reads_them(kafka, kafka_topic, name):
    PRODUCERS["barnabas"](kafka.bootstrap_servers, kafka_topic, 20 * RECORDS, Clock())
    clock = Clock()
    CONSUMERS[name](kafka.bootstrap_servers, kafka_topic, 20 * RECORDS, clock)
    assert clock.wall_s >= 0


def test_a_ratio_below_its_budget_is_missed_and_one_at_it_holds():
    figures = {
        "produce": {"barnabas": Figures(70.0, 2.0), "barnabas tuned": Figures(100.0, 1.0)},
        "consume": {"barnabas async": Figures(1.0, 2.0), "aiokafka": Figures(9.0, 3.9)},
    }
    found = {(kind, what): verdict for kind, what, _, _, verdict in verdicts(figures)}
    assert found["produce", "defaults, of the tuned ones' rate"] == "holds"
    assert found["produce", "tuned, records/s"] == "MISSED"
    assert found["consume", "aiokafka's processor time, of the async one's"] == "MISSED"
    assert ("consume", "records/s") not in found

"""The ten programs run as they stand on their page, with each of the three clients."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "ten-programs.md").read_text()
PROGRAMS = {
    title: re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
}
CLIENTS = ("barnabas", r"(?:aio)?kafka", "confluent_kafka")


def test_there_are_ten_with_three_clients_each():
    assert len(PROGRAMS) == 10
    for title, blocks in PROGRAMS.items():
        assert len(blocks) == len(CLIENTS), title
        for block, client in zip(blocks, CLIENTS, strict=True):
            assert re.search(rf"^from {client}[. ]", block, re.MULTILINE), title


@pytest.fixture(scope="module")
def records(kafka):
    """The topic of the page, with records to read."""
    name = kafka.create_topic("ten")
    run("Batches", 0, kafka.bootstrap_servers)
    return name


def run(title, client, servers):
    text = PROGRAMS[title][client].replace("127.0.0.1:9092", servers)
    exec(compile(text, f"{title} {client}", "exec"), {"__name__": "__main__"})


@pytest.mark.filterwarnings("default")  # what other clients warn of is theirs
@pytest.mark.parametrize("client", range(3), ids=("barnabas", "kafka-python", "confluent-kafka"))
@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_runs(kafka, records, title, client, capsys):
    run(title, client, kafka.bootstrap_servers)
    said = capsys.readouterr().out
    if "print" in PROGRAMS[title][client]:
        assert said
        assert not said.startswith("0 ")
    elif title != "Batches":
        assert kafka.records(records)

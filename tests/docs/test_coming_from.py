"""The programs of the pages "coming from ..." run as they stand there, and what they promise is there."""

import re
from pathlib import Path

import pytest

from barnabas.client import AsyncConsumer, AsyncProducer, Consumer, Producer

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path.name for path in DOCS.glob("coming-from-*.md"))


def test_there_is_a_page_for_each_of_the_three_clients():
    assert [f"coming-from-{name}.md" for name in ("aiokafka", "confluent-kafka", "kafka-python")] == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_run(kafka, page, capsys):
    text = (DOCS / page).read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    names = {}
    for block in blocks:
        assert "127.0.0.1:9092" in block
        exec(compile(block.replace("127.0.0.1:9092", kafka.bootstrap_servers), page, "exec"), names)
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES)
def test_what_a_table_says_to_call_is_there(page):
    rows = re.findall(r"^\| (.*?) \| (.*?) \|$", (DOCS / page).read_text(), re.MULTILINE)[1:]
    assert len(rows) > 10
    there = {name for one in (Producer, AsyncProducer, Consumer, AsyncConsumer) for name in dir(one)}
    for _, here in rows:
        for called in re.findall(r"`(?:await |producer\.|consumer\.)*([a-z_]+)\(", here):
            assert called in there | {"f"}, here

"""The pages that show a pipeline step by step: each file as it stands there, each command, what it prints."""

import signal

import pytest
from pipeline_page import DOCS, Reader

from barnabas.spark import sessions
from schema_registry import SchemaRegistry, serving

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
BROKER, REGISTRY = "127.0.0.1:9092", "127.0.0.1:8081"


@pytest.fixture
def read(spark, tmp_path, monkeypatch):
    """A reader of a page, with the addresses of its servers."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sessions, "make", lambda *_, **__: spark)
    monkeypatch.chdir(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)
    yield lambda page, **servers: Reader(page, tmp_path, servers)
    signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    ("page", "commands"), [("pipeline-events.md", 12), ("pipeline-changes.md", 9), ("pipeline-topics.md", 14)]
)
def test_a_page_is_as_it_says(read, broker, page, commands):
    assert read(page, **{BROKER: broker}).read() == commands


def test_the_page_of_schemas_is_as_it_says(read, broker):
    with serving(SchemaRegistry()) as registry:
        addresses = {BROKER: broker, f"http://{REGISTRY}": registry}
        assert read("pipeline-schemas.md", **addresses).read() == 10


def test_the_page_of_backups_is_as_it_says(read, serve, tmp_path):
    server = serve(tmp_path / "data")
    reader = read("pipeline-backfill.md", **{BROKER: server.wait_until_ready().bootstrap})
    assert reader.read() == 16
    # Another directory would leave the past out of the table, and nobody would know.
    (tmp_path / "other" / "t-0").mkdir(parents=True)
    text = (tmp_path / "visits.toml").read_text()
    for logs, words in (
        (
            "other",
            "visits: no directory of backfill.logs has records of visits: they are read from the brokers",
        ),
        ("nowhere", f"Error: backfill.logs: {tmp_path}/nowhere is not a directory"),
        (
            "visits",
            f"Error: backfill.logs: {tmp_path}/visits is neither a log directory nor a directory of a",
        ),
    ):
        (tmp_path / "visits.toml").write_text(text.replace('logs = "backup"', f'logs = "{logs}"'))
        assert reader.run("barnabas pipeline run visits.toml --once")[0].startswith(words)


def test_each_page_that_is_named_is_read():
    text = (DOCS / "pipeline.md").read_text()
    named = text.partition("Step by step")[2].partition("\n\n")[0]
    assert named.count(".md)") == 5

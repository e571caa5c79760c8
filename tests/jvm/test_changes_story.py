"""The stories of a database that becomes tables, by `make campaigns-jvm`; `changes_story.py` plays one by
command.
"""

import kafka_harness
import pytest
from changes_story import brokers, play, sources
from postgres import postgres
from three_brokers import JVM, OURS

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.campaign]

MINUTES = 10
KILLS = 20


@pytest.fixture
def judged(server_folder, request, judge):
    """Plays a plot in a folder of its own, and fails with the problems that it ends with."""
    judge("Apache Kafka 3.9", lambda: kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA))
    plugins = judge("Debezium", kafka_harness.debezium_jars)
    running = postgres()
    database = judge("PostgreSQL", running.__enter__)
    folder = server_folder / request.node.name
    folder.mkdir()

    def run(plot, kind=OURS, connect=None, **options):
        problems = play(folder, plot, kind, database, plugins, connect, **options)
        assert not problems, "\n".join(problems[:20])

    yield run
    running.__exit__(None, None, None)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [OURS, JVM])
def test_both_tables_are_the_database_after_minutes_of_load(judged, request, kind):
    connect = f"{request.getfixturevalue('zookeeper')}/changes" if kind == JVM else None
    judged(lambda story: brokers(story, MINUTES * 60), kind, connect)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("exactly_once", [True, False])
def test_both_tables_are_the_database_while_connect_and_the_database_die(judged, exactly_once):
    judged(lambda story: sources(story, KILLS), exactly_once=exactly_once)

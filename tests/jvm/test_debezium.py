"""PostgreSQL, Debezium in Kafka Connect and our broker: the table of a pipeline is that of the database.

Connect is a client of ours too: its topics, its consumer and its producer are a part of what is judged.
"""

import contextlib
import io
import json

import kafka_harness
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from postgres import postgres
from rich.console import Console

from barnabas.cli.main import cli
from barnabas.client import Consumer
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from serving import free_port
from waiting import until

pytestmark = [pytest.mark.jvm, pytest.mark.spark, pytest.mark.timeout(400)]

TOPIC = "shop.public.products"
DOCUMENT = "repeat(md5(random()::text), 200)"
"""So large that it is kept out of line, compressed or not, and left out of changes that do not touch it."""


@pytest.fixture(scope="module")
def database(judge):
    with contextlib.ExitStack() as held:
        yield judge("PostgreSQL", lambda: held.enter_context(postgres()))


@pytest.fixture(scope="module")
def connect_folder(judge):
    return judge("Debezium", kafka_harness.debezium_jars)


@pytest.fixture
def broker(tmp_path):
    from barnabas.spark.demo.broker import DemoBroker

    running = DemoBroker(tmp_path)
    yield running.address
    running.stop()


def connector(database):
    return {
        "name": "shop", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": 1, "database.hostname": "127.0.0.1", "database.port": database.port,
        "database.user": "postgres", "database.password": "none", "database.dbname": "postgres",
        "topic.prefix": "shop", "table.include.list": "public.products", "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered", "skipped.operations": "none", "poll.interval.ms": 50,
    }  # fmt: skip


@contextlib.contextmanager
def connect(folder, plugins, broker, database):
    """Kafka Connect with one connector, on its own."""
    port = free_port()
    worker = {
        "bootstrap.servers": broker, "plugin.path": plugins, "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": folder / "offsets", "offset.flush.interval.ms": 500,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "plugin.discovery": "service_load",
    }  # fmt: skip
    files = [
        kafka_harness.write_properties(folder / f"{name}.properties", values)
        for name, values in (("worker", worker), ("connector", connector(database)))
    ]
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = kafka_harness.java_command(kafka_harness.ZOOKEEPER_ERA, main, kafka_harness.JUDGE_OPTIONS)
    server = kafka_harness.Server([*command, *files], port, folder / "connect.log")
    try:
        yield server
    finally:
        server.kill()


class World:
    def __init__(self, spark, broker, database, folder):
        self.spark, self.broker, self.database, self.folder = spark, broker, database, folder

    def changes(self, count):
        """Waits until the topic has so many records."""
        tp = TopicPartition(TOPIC, 0)
        with Consumer(self.broker, default_api_timeout_ms=1000) as consumer:

            def there():
                try:
                    return consumer.end_offsets([tp])[tp] >= count
                except BarnabasError:  # Connect has not made it yet
                    return False

            until(there, f"{count} records", 90)

    def run(self):
        from barnabas.spark.pipeline.file.settings import load
        from barnabas.spark.pipeline.running import supervisor

        return supervisor.run(self.spark, load(self.folder / "shop.toml"), Console(file=io.StringIO()))

    def in_table(self):
        rows = DeltaTable(str(self.folder / TOPIC)).to_pyarrow_table().to_pylist()
        return sorted(
            (
                row["id"],
                row["name"],
                str(row["price"]),
                None if row["made"] is None else row["made"].isoformat(),
                row["at"].strftime("%Y-%m-%dT%H:%M:%S.%f"),
                row["doc"],
                None if row["data"] is None else row["data"].hex(),
            )
            for row in rows
        )

    def in_database(self):
        text = self.database.sql(
            "SELECT coalesce(json_agg(json_build_array(id, name, price::text, made::text, "
            "to_char(at, 'YYYY-MM-DD\"T\"HH24:MI:SS.US'), doc, encode(data, 'hex')) ORDER BY id), '[]') "
            "FROM products"
        )
        return [tuple(row) for row in json.loads(text)]


def test_the_table_is_that_of_the_database(spark, broker, database, connect_folder, tmp_path):
    world = World(spark, broker, database, tmp_path)
    database.sql(
        "CREATE TABLE products (id INT PRIMARY KEY, name TEXT, price NUMERIC(10,2), made DATE, at TIMESTAMP, "
        "doc TEXT, data BYTEA); ALTER TABLE products ALTER doc SET STORAGE EXTERNAL;"
        "INSERT INTO products SELECT n, 'name ' || n, n * -1.01, DATE '1969-12-01' + n * 100, "
        f"TIMESTAMP '1969-12-31 23:59:59.000001' + n * INTERVAL '1 day', {DOCUMENT}, decode('00ff', 'hex') "
        "FROM generate_series(1, 5) n"
    )
    with connect(tmp_path, connect_folder, broker, database) as running:
        try:
            world.changes(5)
        except AssertionError:
            raise AssertionError(running.tail()) from None
        drafted = CliRunner().invoke(
            cli,
            ["pipeline", "init", str(tmp_path / "shop.toml"), "--topic", TOPIC, "--bootstrap-server", broker],
            catch_exceptions=False,
        )
        assert drafted.exit_code == 0, drafted.output
        world.run()
        assert world.in_table() == world.in_database()
        assert len(world.in_table()) == 5

        database.sql(
            "UPDATE products SET price = 99999999.99 WHERE id = 1;"  # its document is not sent
            # A delete and a new row: of its document only a new one is sent.
            f"UPDATE products SET id = 7, doc = {DOCUMENT} WHERE id = 3;"
            "DELETE FROM products WHERE id = 2;"
            f"INSERT INTO products VALUES (6, NULL, 0, NULL, '2262-01-01', {DOCUMENT}, NULL);"
            "UPDATE products SET name = 'ü', made = '0001-01-01' WHERE id = 6"
        )
        # An update; a delete, its tombstone and a row; a delete and its tombstone; a row and an update.
        world.changes(5 + 1 + 3 + 2 + 2)
        world.run()
        assert world.in_table() == world.in_database()

        database.sql(
            "UPDATE products SET name = 'gone'; TRUNCATE products;"
            f"INSERT INTO products VALUES (1, 'again', 1, '2026-01-01', '2026-01-01', {DOCUMENT}, '');"
            "UPDATE products SET price = 2 WHERE id = 1"
        )
        world.changes(13 + 5 + 1 + 2)
        world.run()
        assert world.in_table() == world.in_database()
        assert [row[:3] for row in world.in_table()] == [(1, "again", "2.00")]

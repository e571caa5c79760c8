"""One worker of Kafka Connect in distributed mode: its own topics, its group, its producers.

What it knows is in the cluster alone, so a worker that is killed and started again goes on where it was.
"""

import contextlib
import json
import urllib.error
import urllib.request
from pathlib import Path

import kafka_harness

from serving import free_port
from waiting import until

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_START_S = 120


class ConnectWorker:
    """The worker, and the one connector that it runs."""

    def __init__(self, folder: Path, plugins: Path, bootstrap: str, *, exactly_once: bool) -> None:
        """`exactly_once` has the records and the connector's place in the database in one transaction."""
        self.port = free_port()
        self.restarts = 0
        """How often its connector or a task of it had failed, and was started again."""
        self._folder, self._connector, self._server = folder, {}, None
        values = {
            "bootstrap.servers": bootstrap, "group.id": "connect", "plugin.path": plugins,
            "plugin.discovery": "service_load", "listeners": f"http://127.0.0.1:{self.port}",
            "exactly.once.source.support": "enabled" if exactly_once else "disabled",
            "key.converter": _JSON, "value.converter": _JSON,
            "key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": 1000, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000,
            # The default waits five minutes for a worker that is gone, also where it is back.
            "scheduled.rebalance.max.delay.ms": 0,
            "offset.storage.partitions": 3, "status.storage.partitions": 1,
            **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
            **{f"{each}.storage.replication.factor": 3 for each in ("config", "offset", "status")},
        }  # fmt: skip
        self._file = kafka_harness.write_properties(folder / "connect.properties", values)

    def start(self) -> None:
        """Returns while it still starts."""
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        command = kafka_harness.java_command(kafka_harness.ZOOKEEPER_ERA, main, kafka_harness.JUDGE_OPTIONS)
        log = self._folder / "connect.log"
        self._server = kafka_harness.Server([*command, self._file], self.port, log)

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()

    def stop(self) -> None:
        """In order: the connector's last transaction is over then."""
        self._server.stop()

    def configure(self, connector: dict[str, object]) -> None:
        """Makes the connector; waits until the worker takes it."""
        self._connector = {name: str(value) for name, value in connector.items()}
        name = self._connector["name"]
        until(
            lambda: self._ask("PUT", f"/connectors/{name}/config", self._connector) is not None,
            lambda: f"Connect takes the connector: {self._server.tail()}",
            _START_S,
        )

    def look(self) -> None:
        """What an operator does: a worker that has ended, a connector and a task that have failed are started
        again.
        """
        if self._server.process.poll() is not None:
            self.restarts += 1
            self.start()
        name = self._connector["name"]
        found = self._ask("GET", f"/connectors/{name}/status") or {}
        if "FAILED" in [each["state"] for each in (found.get("connector"), *found.get("tasks", ())) if each]:
            failed = f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true"
            self.restarts += self._ask("POST", failed, {}) is not None

    def _ask(self, method: str, path: str, body: dict[str, str] | None = None) -> dict | None:
        """The answer; None where there is none now: the worker starts, or its group has no leader yet."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
            return json.loads(answer.read() or b"{}")
        return None

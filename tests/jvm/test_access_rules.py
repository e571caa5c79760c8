"""Access rules beside Apache Kafka 3.9 with its AclAuthorizer: who is refused by what, in which order, with
which line of the audit; and one set of rules for brokers of both kinds.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import kafka_harness
import pytest
from denied_requests import DeniedClient, requests

from barnabas.admin import Admin, NewTopic
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.records.batch import build_batch
from barnabas.records.record import Record
from waiting import eventually

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]

AS_39 = ("--set", "barnabas.api.profile=3.9")
AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
AUDIT = "kafka.authorizer.logger"
FROM_HERE = (
    "--add",
    "--allow-principal",
    "User:ANONYMOUS",
    "--allow-host",
    "127.0.0.1",
    "--operation",
    "All",
)
HEARD_WITHIN_S = 1.0


def let_brokers_in(zookeeper):
    """Rules for everything that comes from the address of the brokers, before there is any of them."""
    command = [
        sys.executable,
        "-m",
        "barnabas",
        "acls",
        "--authorizer-properties",
        f"zookeeper.connect={zookeeper}",
    ]
    for resource in (["--cluster"], ["--topic", "*"], ["--group", "*"], ["--transactional-id", "*"]):
        subprocess.run([*command, *FROM_HERE, *resource], check=True, timeout=60, capture_output=True)


def start_kafka(folder, zookeeper, broker_id=0):
    folder.mkdir()
    options = (*kafka_harness.JUDGE_OPTIONS, f"-Dorg.slf4j.simpleLogger.log.{AUDIT}=info")
    return kafka_harness.start_broker(
        folder, zookeeper, broker_id, {"authorizer.class.name": AUTHORIZER}, options=options
    )


def start_ours(serve, folder, zookeeper, broker_id=0):
    options = (
        "--id",
        str(broker_id),
        "--zookeeper",
        zookeeper,
        "--set",
        f"authorizer.class.name={AUTHORIZER}",
    )
    return serve(folder, *AS_39, *options, "--log", f"{AUDIT}=INFO")


def walks(bootstrap, log):
    """Of each request the steps from no right to all that it needs."""
    with Admin(bootstrap) as admin:
        eventually(lambda: admin.cluster.describe().controller is not None, expected=True)
        admin.topics.create(NewTopic("orders", partitions=2, replication_factor=1))
    batch = bytes(build_batch([Record(0, int(time.time() * 1000), b"k", b"v")]))
    client = DeniedClient(bootstrap, lambda: log.read_text(errors="replace"))
    # The first time coordinators are loaded and topics made, at the speed of each.
    for _, request, version in requests(batch):
        client.walk(request, version)
    return {name: client.walk(request, version) for name, request, version in requests(batch)}


def test_every_request_is_refused_as_kafka_refuses_it(serve, zookeeper, tmp_path):
    for name in ("theirs", "ours"):
        let_brokers_in(f"{zookeeper}/denied-{name}")
    kafka = start_kafka(tmp_path / "kafka", f"{zookeeper}/denied-theirs")
    try:
        server = start_ours(serve, tmp_path / "ours", f"{zookeeper}/denied-ours")
        ours = server.wait_until_ready()
        kafka.wait_until_listening()
        with ThreadPoolExecutor(2) as both:
            theirs = both.submit(walks, kafka.bootstrap, kafka.log)
            mine = both.submit(walks, ours.bootstrap, server.log)
            theirs, mine = theirs.result(), mine.result()
    finally:
        kafka.stop()

    assert {name: steps for name, steps in mine.items() if steps != theirs[name]} == {
        name: steps for name, steps in theirs.items() if steps != mine[name]
    }
    assert len(theirs) == 52
    assert sum(len(steps) for steps in theirs.values()) > 90


@pytest.mark.alone
def test_brokers_of_both_kinds_obey_the_same_rules(serve, zookeeper, tmp_path, kafka_tool):
    connect = f"{zookeeper}/shared-rules"
    let_brokers_in(connect)
    kafka = start_kafka(tmp_path / "kafka", connect, 1)
    try:
        kafka.wait_until_listening()
        server = start_ours(serve, tmp_path / "ours", connect, 2)
        ours = server.wait_until_ready()
        mine = DeniedClient(ours.bootstrap, lambda: server.log.read_text(errors="replace"))
        theirs = DeniedClient(kafka.bootstrap, lambda: kafka.log.read_text(errors="replace"))

        def heard(client, expected):
            began = time.monotonic()
            while client.is_allowed() is not expected:
                assert time.monotonic() - began < HEARD_WITHIN_S

        assert not mine.is_allowed()
        rule = ("--allow-principal", "User:ANONYMOUS", "--allow-host", "127.0.0.2", "--operation", "Describe")
        made = kafka_tool("kafka-acls", "--bootstrap-server", kafka.bootstrap, "--add", *rule, "--cluster")
        assert "Adding ACLs" in made.stdout
        heard(mine, True)
        with Admin(ours.bootstrap) as admin:
            admin.acls.delete([AclFilter(host="127.0.0.2")])
            heard(theirs, False)
            entry = AccessControlEntry("User:ANONYMOUS", "127.0.0.2", Operation.DESCRIBE, Permission.ALLOW)
            admin.acls.create([AclBinding(ResourcePattern(Resource.CLUSTER, "kafka-cluster"), entry)])
            heard(theirs, True)
        listed = kafka_tool("kafka-acls", "--bootstrap-server", ours.bootstrap, "--list", "--cluster")
        assert (
            "(principal=User:ANONYMOUS, host=127.0.0.2, operation=DESCRIBE, permissionType=ALLOW)"
            in listed.stdout
        )
        assert server.stop() == 0
    finally:
        kafka.stop()

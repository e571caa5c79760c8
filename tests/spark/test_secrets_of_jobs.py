"""Jobs of Spark over SASL_SSL: an executor needs no file that only the driver has, and no file that a job
leaves has a secret: plans, pages, event logs, checkpoints, logs of all processes.
"""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives import serialization

from barnabas.admin import Admin, NewTopic
from barnabas.client import Producer
from barnabas.spark import options as spark_options
from barnabas.spark.errors import OptionError
from spark_processes import environment, standalone_cluster
from tls_certificates import PASSWORD, Authority

JOB = Path(__file__).with_name("secure_job.py")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGIN, WRONG = "login-hunter2-of-alice", "wrong-hunter2-of-alice"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def mine(authority):
    """The client's key and certificate."""
    return authority.sign("client")


@pytest.fixture(scope="module")
def secure_broker(serve, tmp_path_factory, authority):
    """A broker that asks for a password and a certificate."""
    folder = tmp_path_factory.mktemp("secure-broker")
    key = authority.sign("localhost", "127.0.0.1").pem(folder / "broker.pem")
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:{other},SASL_SSL://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.location": key,
        "ssl.truststore.location": authority.pem(folder / "ca.pem"),
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} required user_alice="{LOGIN}";',
    }
    from serving import free_port

    ports = {"other": free_port(), "port": free_port()}
    settings["listeners"] = settings["listeners"].format(**ports)
    given = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    server = serve(folder / "data", *given, port=ports["port"])
    server.wait_until_ready()
    server.plain = f"127.0.0.1:{ports['other']}"
    with Admin(server.plain) as admin:
        admin.topics.create([NewTopic("first", 2), NewTopic("second", 1)])
    yield server
    server.stop()


@pytest.fixture
def driver(tmp_path, authority, mine):
    """A folder with the stores of a client, which only the driver is in."""
    folder = tmp_path / "driver"
    folder.mkdir()
    mine.p12(folder / "client.p12")
    authority.p12(folder / "trust.p12")
    return folder


@pytest.fixture
def in_files(driver):
    """Secrets as options name the files that have them."""
    (driver / "store.password").write_text(f"{PASSWORD}\n")
    (driver / "login").write_text(f"{jaas(LOGIN)}\n")
    return {
        "kafka.ssl.keystore.password": "file:store.password",
        "kafka.ssl.truststore.password": "file:store.password",
        "kafka.sasl.jaas.config": f"file://{driver}/login",
    }


def jaas(password):
    return f'{PLAIN} required username="alice" password="{password}";'


def login(password):
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": jaas(password),
    }


IN_FILES = {
    "kafka.ssl.keystore.location": "client.p12",
    "kafka.ssl.keystore.password": PASSWORD,
    "kafka.ssl.truststore.location": "trust.p12",
    "kafka.ssl.truststore.password": PASSWORD,
}


def in_texts(authority, mine):
    return {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.key": mine.key_pem(),
        "kafka.ssl.keystore.certificate.chain": mine.chain_pem,
        "kafka.ssl.truststore.certificates": authority.certificate.public_bytes(
            serialization.Encoding.PEM
        ).decode(),
    }


def forms(secret):
    """How a secret may stand in a file: as it is, in base64 at each of three places, in hexadecimal."""
    yield secret
    yield secret.hex().encode()
    for before in (b"", b"x", b"xx"):
        encoded = base64.b64encode(before + secret)
        yield encoded[4 : len(encoded) - 4]


def parts_of_key(signed):
    """What no file may have of a private key: how its PEM begins, and the end of its number, which stands in
    one piece in every form that is not encrypted (DER, PEM with lines of 64 or 76 letters, or in one line).
    """
    yield b"PRIVATE KEY-----"
    yield signed.key_pem().splitlines()[1][:24].encode()
    yield from forms(signed.key.private_numbers().private_value.to_bytes(32)[21:])


def names_without_secret(signed, *folders):
    """The names of all files there; none has a log-in, the password of the stores, or the client's key."""
    wanted = [*parts_of_key(signed)]
    wanted += [form for secret in (LOGIN, WRONG, PASSWORD) for form in forms(secret.encode())]
    left = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    for path in left:
        data = path.read_bytes()
        assert not [form for form in wanted if form in data], path
    return {path.name for path in left}


@pytest.mark.parametrize("letters", [64, 76, None])
def test_the_search_finds_a_key_in_every_form(mine, tmp_path, letters):
    """The judge of the tests below; how a PEM begins is left out here."""
    body = re.sub(r"-----[^-]+-----|\s", "", mine.key_pem())
    lines = re.findall(f".{{1,{letters or 999}}}", body)
    left = tmp_path / "left"
    for held in (
        json.dumps({"key": "\n".join(lines)[24:]}).encode(),
        base64.b64decode(body),
        mine.key_pem()[:60].encode(),
    ):
        left.write_bytes(held)
        with pytest.raises(AssertionError, match="left"):
            names_without_secret(mine, tmp_path)
    mine.p12(left)
    assert names_without_secret(mine, tmp_path) == {"left"}


@pytest.mark.jvm
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_secure_job_on_a_cluster_leaves_no_secret(
    secure_broker, driver, in_files, tmp_path, authority, mine
):
    servers = {"kafka.bootstrap.servers": secure_broker.bootstrap}
    inline = {**servers, **login(LOGIN), **in_texts(authority, mine)}
    options = tmp_path / "options.json"
    options.write_text(
        json.dumps(
            {
                "files": {**servers, **login(LOGIN), **IN_FILES, **in_files},
                "inline": inline,
                "wrong": {**inline, **login(WRONG)},
                "refused": {**inline, "kafka.ssl.keystore.key": f"{mine.key_pem()[:80]}{LOGIN}"},
            }
        )
    )
    left = tmp_path / "left"
    left.mkdir()
    with standalone_cluster(left) as master:
        done = subprocess.run(
            [sys.executable, JOB, str(options), str(left), master],
            capture_output=True,
            check=False,
            cwd=driver,
            env=environment(),
            timeout=300,
        )
    (left / "stdout").write_bytes(done.stdout)
    (left / "stderr").write_bytes(done.stderr)
    assert done.returncode == 0, done.stderr[-3000:].decode()
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts == {"files": 200, "inline": 200, "stream": 200, "wrong": "failed", "refused": "failed"}

    shown = done.stdout.decode()
    assert "SaslAuthenticationError: Authentication failed: Invalid username or password" in shown
    assert "Kafka option" in shown or "key store" in shown
    kinds = names_without_secret(mine, left)
    assert {"stdout", "stderr", "master.log", "worker-0.log"} <= kinds
    assert any(name.startswith("events_1_") for name in kinds)
    assert any("checkpoint" in path.parts for path in left.rglob("*"))


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("named", [False, True], ids=["given", "in files"])
def test_stores_travel_as_what_they_hold(driver, mine, monkeypatch, in_files, streaming, named):
    monkeypatch.chdir(driver)
    secrets = in_files if named else {}
    given = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t", **login(LOGIN), **IN_FILES, **secrets}
    read = spark_options.source_options(given, streaming=streaming)
    written = spark_options.sink_options({**given, "topic": "t"})
    for options in (read, written):
        client = options.client
        assert not [name for name in client if "location" in name or name.endswith("store.password")]
        assert client["sasl.jaas.config"] == jaas(LOGIN)
        assert client["ssl.keystore.key"] == mine.key_pem()
        assert client["ssl.keystore.certificate.chain"].startswith(mine.chain_pem)
        assert client["ssl.truststore.certificates"].startswith("-----BEGIN CERTIFICATE-----")
        assert LOGIN not in repr(options)
        assert "PRIVATE" not in repr(options)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kafka.ssl.keystore.password": "wrong-hunter2"}, "ssl.keystore.location: cannot be read"),
        ({"kafka.ssl.truststore.location": "not-there.p12"}, "Invalid value not-there.p12"),
        (
            {"kafka.ssl.keystore.password": "file:none"},
            "Invalid value file:none for configuration ssl.keystore",
        ),
        ({"kafka.ssl.keystore.password": "file:client.p12"}, "client.p12 is not a text in UTF-8"),
        ({"kafka.ssl.keystore.password": "file:///dev/zero"}, "/dev/zero is larger than 65536 bytes"),
        ({"kafka.sasl.jaas.config": f'{PLAIN} required username="alice" "{LOGIN}";'}, "[hidden]"),
        ({"kafka.sasl.mechanism": "NONE"}, "Invalid value NONE for configuration sasl.mechanism"),
        ({"kafka.security.protocol": "SASL"}, "asks for security, which this client does not have"),
        ({"kafka.security.protocol": "PLAINTEXT"}, "but security.protocol is PLAINTEXT"),
    ],
)
def test_wrong_settings_are_refused_by_the_driver_and_show_nothing(driver, monkeypatch, changed, said):
    monkeypatch.chdir(driver)
    given = {"kafka.bootstrap.servers": "h:9092", "subscribe": "t", **login(LOGIN), **IN_FILES}
    with pytest.raises(OptionError) as refused:
        spark_options.check_reading({**given, **changed})
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.fixture
def options_of_sql():
    """A dict as SQL lists options."""
    return lambda given: ", ".join(
        f"'{key}' = '{value}'".replace("\n", "\\n") for key, value in given.items()
    )


@pytest.mark.spark
def test_a_table_of_the_catalog_keeps_no_secret(
    spark, secure_broker, authority, mine, in_files, options_of_sql
):
    given = {
        "kafka.bootstrap.servers": secure_broker.bootstrap,
        "subscribe": "first",
        **login(LOGIN),
        **in_texts(authority, mine),
    }
    secrets = {name: given[name] for name in ("kafka.sasl.jaas.config", "kafka.ssl.keystore.key")}
    plain = {name: value for name, value in given.items() if name not in secrets}
    for name, value in secrets.items():
        listed = options_of_sql({**plain, name: value})
        with pytest.raises(Exception, match=f"{name} is a secret") as refused:
            spark.sql(f"CREATE TABLE secure_table USING barnabas OPTIONS ({listed})")
        assert LOGIN not in str(refused.value)
    assert not spark.catalog.tableExists("secure_table")

    in_file = {**plain, "kafka.sasl.jaas.config": in_files["kafka.sasl.jaas.config"]}
    spark.sql(f"CREATE TABLE secure_table USING barnabas OPTIONS ({options_of_sql(in_file)})")
    try:
        del secrets["kafka.sasl.jaas.config"]  # the table says where it is
        counted = f"SELECT count(*) FROM secure_table WITH ({options_of_sql(secrets)})"
        assert spark.sql(counted).collect()[0][0] >= 0
        shown = str(spark.sql(f"EXPLAIN EXTENDED {counted}").collect())
        assert LOGIN not in shown
        assert mine.key_pem().splitlines()[1] not in shown
    finally:
        spark.sql("DROP TABLE secure_table")


PIPELINE = """
name = "secure"
checkpoint = "checkpoint"
[source]
subscribe = "first"
startingOffsets = "earliest"
"kafka.bootstrap.servers" = "{servers}"
"kafka.security.protocol" = "SASL_SSL"
"kafka.sasl.mechanism" = "PLAIN"
"kafka.sasl.jaas.config" = '{module} required username="alice" password="${{LOGIN_OF_ALICE}}";'
"kafka.ssl.keystore.location" = "client.p12"
"kafka.ssl.keystore.password" = "${{STORE_PASSWORD}}"
"kafka.ssl.truststore.location" = "trust.p12"
"kafka.ssl.truststore.password" = "${{STORE_PASSWORD}}"
[sink]
kind = "parquet"
path = "table"
[follow]
group = "secure"
"""
ON_CLUSTER = """
[spark]
master = "{master}"
"cores.max" = 2
"executor.memory" = "512m"
"eventLog.enabled" = true
"eventLog.compress" = false
"eventLog.dir" = "{events}"
"""


def run_pipeline(driver):
    """Runs the pipeline of a folder with its passwords in the environment; leaves what it says there."""
    done = subprocess.run(
        [sys.executable, "-m", "barnabas", "pipeline", "run", str(driver / "secure.toml")],
        capture_output=True,
        check=False,
        env=environment(LOGIN_OF_ALICE=LOGIN, STORE_PASSWORD=PASSWORD),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:].decode()
    for stream in ("stdout", "stderr"):
        (driver / stream).write_bytes(getattr(done, stream))


@pytest.mark.spark
@pytest.mark.timeout(340)
def test_a_secure_pipeline_leaves_no_secret(secure_broker, driver, mine, monkeypatch, tmp_path):
    """Its stores are looked for beside its file, and its passwords come from the environment."""
    (driver / "secure.toml").write_text(PIPELINE.format(servers=secure_broker.bootstrap, module=PLAIN))
    monkeypatch.chdir(tmp_path)
    run_pipeline(driver)
    assert {"secure.log", "metadata", "stdout", "stderr"} <= names_without_secret(mine, driver)


@pytest.mark.jvm
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_a_secure_pipeline_on_a_cluster_leaves_no_secret(secure_broker, driver, mine, monkeypatch, tmp_path):
    """Neither in the event log nor in the work directories and logs of master and workers. Its executors have
    none of the driver's files.
    """
    with Admin(secure_broker.plain) as admin, Producer(secure_broker.plain) as producer:
        admin.topics.create(NewTopic("piped", 2))
        for number in range(200):
            producer.send("piped", b"%d" % number)
        producer.flush()
    left, events = tmp_path / "left", tmp_path / "left" / "events"
    events.mkdir(parents=True)
    text = PIPELINE.format(servers=secure_broker.bootstrap, module=PLAIN).replace('"first"', '"piped"')
    monkeypatch.chdir(tmp_path)
    with standalone_cluster(left) as master:
        (driver / "secure.toml").write_text(text + ON_CLUSTER.format(master=master, events=events.as_uri()))
        run_pipeline(driver)
    names = names_without_secret(mine, driver, left)
    assert {"secure.log", "metadata", "stdout", "stderr", "master.log", "worker-0.log"} <= names
    assert any(name.startswith("events_1_") for name in names)
    assert sum(pq.read_metadata(each).num_rows for each in (driver / "table").rglob("*.parquet")) == 200
    workers = {path.parent for path in left.glob("work-*/*/*/stderr")}
    assert len({folder.parts[-3] for folder in workers}) == 2, "both workers have run it"

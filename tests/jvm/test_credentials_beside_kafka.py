"""Credentials and certificates that are right, wrong, missing, expired or not valid yet: the clients of Java,
of librdkafka and of Python hear the same from ours as from a genuine Kafka 3.9.2.
"""

import base64
import datetime as dt
import json
import re
import subprocess
from pathlib import Path

import kafka_harness
import pytest
from kafka_tools import KafkaTools

from access_tokens import MODULE as BEARER
from access_tokens import unsecured
from barnabas.admin import Admin, NewTopic
from barnabas.admin.quotas import UserScramCredentialDeletion, UserScramCredentialUpsertion
from barnabas.admin.types import ConfigResource
from secure_clients import CLIENTS, outcomes
from serving import die_with_parent, free_port
from tls_certificates import PASSWORD, Authority
from waiting import until

# Clients that were refused leave sockets open.
pytestmark = [
    pytest.mark.jvm,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = {"alice": "alice-secret", "eve": "eve-secret", "gone": "gone-secret"}
SCRAMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAMS, "OAUTHBEARER")
LISTENERS = {
    "INNER": "PLAINTEXT",
    "GOOD": "SASL_SSL",
    "PAST": "SASL_SSL",
    "FUTURE": "SASL_SSL",
    "CERTS": "SSL",
}
REMOVED = Path(__file__).with_name("RemovedUser.java")
"""Clients whose user is removed while they are connected."""
DAY = dt.timedelta(days=1)
NOW = dt.datetime.now(dt.UTC)
PAST = (NOW - 3 * DAY, NOW - DAY)
FUTURE = (NOW + DAY, NOW + 3 * DAY)


class Certificates:
    """The files of all sides, by what they are."""

    def __init__(self, folder):
        self.folder = folder
        self.authority = Authority()
        self.trust = self.authority.p12(folder / "trust.p12")
        self.ca = self.authority.pem(folder / "ca.pem")
        self.files = {
            name: self.sign(name, valid)
            for name, valid in (("good", None), ("past", PAST), ("future", FUTURE))
        }
        strangers = Authority("stranger")
        self.strangers_trust = strangers.p12(folder / "strangers-trust.p12")
        stranger = strangers.sign("127.0.0.1", "localhost")
        self.files["stranger"] = (
            stranger.p12(folder / "stranger.p12"),
            stranger.pem(folder / "stranger.pem"),
        )

    def sign(self, name, valid=None):
        """PKCS12 for Java and both brokers, PEM for the others."""
        signed = self.authority.sign("127.0.0.1", "localhost", valid=valid)
        return signed.p12(self.folder / f"{name}.p12"), signed.pem(self.folder / f"{name}.pem")


class Side:
    """One broker of either kind, and its ports by the names of its listeners."""

    def __init__(self, certificates):
        self.ports = {name: free_port() for name in LISTENERS}
        users = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
        self.settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "INNER",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "delegation.token.secret.key": "sesame",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": certificates.trust,
            "ssl.truststore.password": PASSWORD,
            "listener.name.certs.ssl.client.auth": "required",
            "offsets.topic.replication.factor": "1",
        }
        for listener in ("good", "past", "future", "certs"):
            own = f"listener.name.{listener}"
            shown = listener if listener in certificates.files else "good"
            self.settings |= {
                f"{own}.ssl.keystore.type": "PKCS12",
                f"{own}.ssl.keystore.location": certificates.files[shown][0],
                f"{own}.ssl.keystore.password": PASSWORD,
                f"{own}.ssl.key.password": PASSWORD,
            }
            if LISTENERS[listener.upper()] == "SASL_SSL":
                self.settings |= {
                    f"{own}.plain.sasl.jaas.config": f"{PLAIN} required {users};",
                    f"{own}.oauthbearer.sasl.jaas.config": f"{BEARER} required;",
                    **{f"{own}.{each.lower()}.sasl.jaas.config": f"{SCRAM} required;" for each in SCRAMS},
                }

    def bootstrap(self, listener="GOOD"):
        return f"127.0.0.1:{self.ports[listener]}"

    def prepare(self, ca):
        """The users, a topic, and three tokens of alice: one has ended, and of one the time is over."""
        with Admin(self.bootstrap("INNER")) as admin:
            admin.topics.create(NewTopic("orders", 1, 1))
            for user, password in USERS.items():
                admin.quotas.alter_scram_credentials(
                    UserScramCredentialUpsertion(user, each, password) for each in SCRAMS
                )
        given = {
            "bootstrap.servers": self.bootstrap(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN} required username="alice" password="{USERS["alice"]}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": ca,
        }
        with Admin(given) as admin:
            self.token, ended = admin.delegation_tokens.create(), admin.delegation_tokens.create()
            admin.delegation_tokens.expire(ended.hmac, -1)
            self.ended_token = ended
            self.late_token = admin.delegation_tokens.create()
            admin.delegation_tokens.expire(self.late_token.hmac, 1)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def sides(zookeeper, serve, certificates, server_folder, tmp_path_factory):
    """A genuine broker and ours, each in a cluster of its own."""
    theirs, mine = Side(certificates), Side(certificates)
    folder = server_folder / "credentials"
    folder.mkdir()
    place = f"{zookeeper}/credentials"
    genuine = kafka_harness.start_broker(folder, place, 1, theirs.settings, port=theirs.ports["INNER"])
    options = [part for key, value in mine.settings.items() for part in ("--set", f"{key}={value}")]
    data = tmp_path_factory.mktemp("ours") / "data"
    serve(data, "--set", "barnabas.api.profile=3.9", *options).wait_until_ready()
    try:
        genuine.wait_until_listening()
        for side in (theirs, mine):
            until(lambda side=side: serves(side), "the broker serves", 60)
            side.prepare(certificates.ca)
        yield theirs, mine
    finally:
        genuine.kill()


def serves(side):
    with Admin(side.bootstrap("INNER")) as admin:
        return bool(admin.cluster.describe().brokers)


# What a client of Java is given: mechanism and line of JAAS.
def plain(password, user="alice"):
    return lambda _: ("PLAIN", f'{PLAIN} required username="{user}" password="{password}";')


def scram(mechanism, password, user="alice"):
    return lambda _: (mechanism, f'{SCRAM} required username="{user}" password="{password}";')


def bearer(**options):
    text = " ".join(f'{name}="{value}"' for name, value in options.items())
    return lambda _: ("OAUTHBEARER", f"{BEARER} required {text};")


def token(which, mechanism=SCRAMS[0], secret=None):
    def line(side):
        found = getattr(side, which)
        password = secret or base64.b64encode(found.hmac).decode()
        user = found.information.token_id
        return mechanism, f'{SCRAM} required username="{user}" password="{password}" tokenauth="true";'

    return line


RIGHT = USERS["alice"]
OF_JAVA = {
    "plain": plain(RIGHT),
    "plain, wrong": plain("wrong"),
    "plain, unknown": plain(RIGHT, "nobody"),
    **{f"{each}": scram(each, RIGHT) for each in SCRAMS},
    **{f"{each}, wrong": scram(each, "wrong") for each in SCRAMS},
    **{f"{each}, unknown": scram(each, RIGHT, "nobody") for each in SCRAMS},
    "bearer": bearer(unsecuredLoginStringClaim_sub="alice"),
    "bearer, expired": bearer(unsecuredLoginStringClaim_sub="alice", unsecuredLoginLifetimeSeconds="-60"),
    "token": token("token"),
    "token, 512": token("token", SCRAMS[1]),
    "token, wrong": token("token", secret="d3Jvbmc="),
    "token, ended": token("ended_token"),
    "token, late": token("late_token"),
}


def java_outcome(tool, side, certificates, listener, mechanism=None, line=None, own=None, **other):
    """How kafka-topics ends: it is in, or the class and the words of its error."""
    given = {
        "security.protocol": other.get("protocol", LISTENERS[listener]),
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": other.get("trust", certificates.trust),
        "ssl.truststore.password": PASSWORD,
        "default.api.timeout.ms": 6000,
        "request.timeout.ms": 5000,
    }
    if mechanism:
        given |= {"sasl.mechanism": mechanism, "sasl.jaas.config": line}
    if own:
        given |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": certificates.files[own][0],
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
        }
    config = kafka_harness.write_properties(certificates.folder / "client.properties", given)
    done = tool(
        "kafka-topics", "--bootstrap-server", side.bootstrap(listener), "--command-config", config, "--list"
    )
    if done.code == 0:
        return "in"
    found = re.search(r"errors\.(\w+): (.*)", done.out + done.err)
    return f"{found[1]}: {found[2]}" if found else done.out + done.err


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_tools_of_kafka_hear_the_same(sides, certificates, judge, version):
    judge(f"Apache Kafka {version}", lambda: kafka_harness.artifacts(version))
    found = []
    with KafkaTools(version) as tool:
        for side in sides:
            seen = {
                name: java_outcome(tool, side, certificates, "GOOD", *make(side))
                for name, make in OF_JAVA.items()
            }
            mechanism, line = OF_JAVA["plain"](side)
            for listener in ("PAST", "FUTURE"):
                seen[listener] = java_outcome(tool, side, certificates, listener, mechanism, line)
            for own in (None, *certificates.files):
                seen[f"certificate {own}"] = java_outcome(tool, side, certificates, "CERTS", own=own)
            seen["no log-in"] = java_outcome(tool, side, certificates, "GOOD", protocol="SSL")
            seen["another authority"] = java_outcome(
                tool, side, certificates, "GOOD", mechanism, line, trust=certificates.strangers_trust
            )
            found.append(seen)
    theirs, mine = found
    # Kafka takes a token until its controller has removed it, and cuts its client off with the first request.
    assert theirs.pop("token, late").startswith("TimeoutException")
    assert mine.pop("token, late") == mine["token, ended"]
    assert mine == theirs
    let_in = {name for name, each in mine.items() if each == "in"}
    assert let_in == {"plain", *SCRAMS, "bearer", "token", "token, 512", "certificate good"}


def cases_of_others(certificates):
    """By name, the listener and what a client of librdkafka or Python is given."""
    right = {"user": "alice", "password": RIGHT, "ca": certificates.ca}
    found = {
        f"{mechanism}, {name}": ("GOOD", {**right, "mechanism": mechanism, **changed})
        for mechanism in ("PLAIN", *SCRAMS)
        for name, changed in (
            ("right", {}),
            ("wrong", {"password": "wrong"}),
            ("unknown", {"user": "nobody"}),
        )
    }
    for name, changed in (("right", {}), ("expired", {"exp": 1, "iat": None}), ("another", {"sub": None})):
        value = unsecured(**changed)
        found[f"bearer, {name}"] = ("GOOD", {**right, "mechanism": "OAUTHBEARER", "token": value})
    for listener in ("PAST", "FUTURE"):
        found[listener] = (listener, {**right, "mechanism": "PLAIN"})
    for own in (None, *certificates.files):
        file = None if own is None else certificates.files[own][1]
        found[f"certificate {own}"] = (
            "CERTS",
            {**right, "mechanism": "PLAIN", "protocol": "SSL", "own": file},
        )
    return found


def test_clients_of_librdkafka_and_of_python_hear_the_same(sides, certificates):
    cases = cases_of_others(certificates)
    asked = {
        (number, kind, name): (kind, side.bootstrap(listener), given)
        for kind in CLIENTS
        for name, (listener, given) in cases.items()
        for number, side in enumerate(sides)
    }
    seen = dict(zip(asked, outcomes(list(asked.values())), strict=True))
    theirs, mine = ({key[1:]: each for key, each in seen.items() if key[0] == number} for number in (0, 1))
    # aiokafka takes the refusal of a token for the end of the log-in, and asks for topics. Kafka says that
    # there are none and closes; ours closes.
    for name in ("bearer, expired", "bearer, another"):
        told = (theirs.pop(("aiokafka", name)), mine.pop(("aiokafka", name)))
        assert told == ("UnknownTopicOrPartitionError", "KafkaConnectionError")
    assert mine == theirs
    let_in = {name for (_, name), each in mine.items() if each == "in"}
    assert let_in == {*(f"{each}, right" for each in ("PLAIN", *SCRAMS, "bearer")), "certificate good"}
    for kind in CLIENTS:
        assert {name for (each, name), said in mine.items() if each == kind and said == "in"} == let_in


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_producer_of_java_whose_user_is_removed_stays_in(sides, certificates, judge, tmp_path, version):
    judge(f"Apache Kafka {version}", lambda: kafka_harness.artifacts(version))
    for side in sides:
        given = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": SCRAMS[0],
            "sasl.jaas.config": scram(SCRAMS[0], USERS["gone"], "gone")(side)[1],
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": certificates.trust,
            "ssl.truststore.password": PASSWORD,
        }
        config = kafka_harness.write_properties(tmp_path / "producer.properties", given)
        command = kafka_harness.verifiable_producer(version)
        command += ["--topic", "orders", "--throughput", "20", "--bootstrap-server", side.bootstrap()]
        with (
            subprocess.Popen(
                [*command, "--producer.config", config],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - threads have ended
            ) as producer,
            Admin(side.bootstrap("INNER")) as admin,
        ):
            try:
                acknowledged(producer, 5)
                admin.quotas.alter_scram_credentials(
                    UserScramCredentialDeletion("gone", each) for each in SCRAMS
                )
                refused = {
                    "user": "gone",
                    "password": USERS["gone"],
                    "mechanism": SCRAMS[0],
                    "ca": certificates.ca,
                }
                until(
                    lambda side=side, given=refused: (
                        outcomes([("confluent-kafka", side.bootstrap(), given)]) == ["authentication"]
                    ),
                    "the user is gone",
                )
                acknowledged(producer, 40)
            finally:
                producer.kill()
                admin.quotas.alter_scram_credentials(
                    UserScramCredentialUpsertion("gone", each, USERS["gone"]) for each in SCRAMS
                )


def acknowledged(producer, count):
    """Reads until so many more records were acknowledged; an error of the producer fails."""
    for line in producer.stdout:
        if not line.startswith("{"):
            continue  # 4.3 says first which option has a new name
        said = json.loads(line)
        assert said["name"] != "producer_send_error", said
        count -= said["name"] == "producer_send_success"
        if not count:
            return
    raise AssertionError("the producer has ended")


def heard_by_the_removed(bootstraps, inner, folder):
    """What clients of Java 4.4 hear whose user is removed while they are connected."""
    config = kafka_harness.write_properties(
        folder / "removed.properties",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": SCRAMS[0],
            "sasl.jaas.config": scram(SCRAMS[0], USERS["gone"], "gone")(None)[1],
            "default.api.timeout.ms": 6000,
            "request.timeout.ms": 5000,
            "delivery.timeout.ms": 6000,
            "max.block.ms": 6000,
        },
    )
    command = kafka_harness.java_command(
        kafka_harness.NEWEST_CLIENTS, str(REMOVED), kafka_harness.TOOL_OPTIONS
    )
    with Admin(inner) as admin:
        admin.topics.create(NewTopic("orders", 1, 1))
        admin.quotas.alter_scram_credentials([UserScramCredentialUpsertion("gone", SCRAMS[0], USERS["gone"])])
        with subprocess.Popen(
            [*command, config, *bootstraps],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - threads have ended
        ) as java:
            try:
                assert java.stdout.readline() == "connected\n"
                admin.quotas.alter_scram_credentials([UserScramCredentialDeletion("gone", SCRAMS[0])])
                said, _ = java.communicate("\n", timeout=90)
            finally:
                java.kill()
    # Whether it is a re-authentication depends on who closes the connection first.
    said = re.sub(r":\d+ ms", ":<time> ms", said.replace("during re-auth", "during auth"))
    return dict(line.split("\t", 1) for line in said.splitlines())


def test_clients_of_today_whose_user_is_removed_hear_the_same_as_from_kafka_4(serve, judge, tmp_path):
    judge("Apache Kafka 4.4", lambda: kafka_harness.artifacts(kafka_harness.KRAFT_ERA))
    (tmp_path / "kafka").mkdir()
    settings = {
        "sasl.enabled.mechanisms": SCRAMS[0],
        "listener.name.soon.scram-sha-256.connections.max.reauth.ms": "2000",
        **{
            f"listener.name.{each}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;"
            for each in ("soon", "never")
        },
    }
    found = []
    ports = {"SOON": free_port(), "NEVER": free_port()}
    kafka = kafka_harness.start_kraft(tmp_path / "kafka", settings, sasl_listeners=ports)
    try:
        bootstraps = [f"127.0.0.1:{port}" for port in ports.values()]
        found.append(heard_by_the_removed(bootstraps, kafka.wait_until_listening().bootstrap, tmp_path))
    finally:
        kafka.kill()
    ports = {"INNER": free_port(), "SOON": free_port(), "NEVER": free_port()}
    settings |= {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": "INNER:PLAINTEXT,SOON:SASL_PLAINTEXT,NEVER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
    }
    server = serve(tmp_path / "ours", *[x for each in settings.items() for x in ("--set", "=".join(each))])
    server.wait_until_ready()
    inner, *bootstraps = [f"127.0.0.1:{port}" for port in ports.values()]
    found.append(heard_by_the_removed(bootstraps, inner, tmp_path))

    theirs, mine = found
    assert mine == theirs
    assert {who for who, heard in mine.items() if heard == "in"} == {
        "producer that stays",
        "admin that stays",
    }
    # Its batch waits for a connection until its time is over.
    assert mine.pop("producer").startswith("TimeoutException: Expiring 1 record(s)")
    refused = [heard for heard in mine.values() if heard != "in"]
    assert len(refused) == 4
    assert all(heard.startswith("SaslAuthenticationException: ") for heard in refused)


def test_a_certificate_that_ends_on_an_open_listener_shuts_out_who_comes_and_nobody_else(sides, certificates):
    given = {
        "protocol": "SASL_SSL",
        "user": "alice",
        "password": RIGHT,
        "mechanism": "PLAIN",
        "ca": certificates.ca,
    }
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=12)
    short = certificates.sign("short", (NOW - DAY, ends))[0]
    key = "listener.name.good.ssl.keystore.location"
    for side in sides:
        with Admin(side.bootstrap("INNER")) as admin:
            own = ConfigResource.broker(admin.cluster.describe().controller.node_id)
            admin.configs.alter({own: {key: short}})

    def heard(side, *kinds):
        return outcomes([(kind, side.bootstrap(), given) for kind in kinds])

    inside = [CLIENTS["aiokafka"](side.bootstrap(), given) for side in sides]
    try:
        for client in inside:
            client.work()
        seen = []
        for side in sides:
            until(lambda side=side: heard(side, "aiokafka") != ["in"], "it has ended", 40)
            seen.append(heard(side, "confluent-kafka", "kafka-python", "aiokafka"))
        assert dt.datetime.now(dt.UTC) > ends
        assert seen[0] == seen[1]
        for client in inside:
            client.work()
    finally:
        for client in inside:
            client.close()
        for side in sides:
            with Admin(side.bootstrap("INNER")) as admin:
                own = ConfigResource.broker(admin.cluster.describe().controller.node_id)
                admin.configs.alter({own: {key: certificates.files["good"][0]}})
    for side in sides:
        until(lambda side=side: heard(side, "aiokafka") == ["in"], "the old one is back", 40)

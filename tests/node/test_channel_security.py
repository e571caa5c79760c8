"""Who is at the other end, on running brokers: clients, tools of others, and brokers among themselves."""

import asyncio
import contextlib
import logging
import ssl

import pytest
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from cryptography.x509.oid import NameOID
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError as PythonKafkaError

from barnabas.admin import AsyncAdmin
from barnabas.admin.types import ConfigResource, NewTopic
from barnabas.client import AsyncConsumer, AsyncProducer
from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.store.sqlite import SqliteStore
from barnabas.core.broker_config import broker_config
from barnabas.core.errors import BarnabasError, ConfigError, KafkaError
from barnabas.core.scram import ScramCredential, ScramMechanism
from barnabas.network.clock import LoopClock
from barnabas.network.errors import SslAuthenticationError
from barnabas.network.sasl.mechanism import SaslAuthenticationError
from barnabas.node.broker_node import BrokerNode, wait
from tls_certificates import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def settings(tmp_path, number=1, **more):
    return {
        "broker.id": str(number),
        "group.initial.rebalance.delay.ms": "0",
        "log.dirs": str(tmp_path / f"data-{number}"),
        "barnabas.metadata.path": str(tmp_path / "store"),
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.inner.plain.sasl.jaas.config": f"{PLAIN} required username=broker "
        "password=inner-secret user_broker=inner-secret;",
        "listener.name.outer.plain.sasl.jaas.config": f'{PLAIN} required user_alice="alice-secret";',
        **more,
    }


def client(node, password="alice-secret", mechanism="PLAIN", user="alice"):
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "bootstrap.servers": f"127.0.0.1:{node.endpoints[1].port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


@contextlib.asynccontextmanager
async def running(*configs):
    nodes = [BrokerNode(each) for each in configs]
    started = []
    try:
        for node in nodes:
            await node.start()
            started.append(node)
        yield nodes
    finally:
        for node in reversed(started):
            await node.stop()


async def write_and_read(options, topic="t", *, partitions=1, replicas=1):
    async with AsyncAdmin(options) as admin:
        await admin.topics.create(NewTopic(topic, partitions=partitions, replication_factor=replicas))
    async with AsyncProducer(options) as producer:
        await producer.send(topic, b"one")
    async with AsyncConsumer({**options, "auto.offset.reset": "earliest", "group.id": "g"}) as consumer:
        consumer.subscribe([topic])
        while not (records := await consumer.poll(timeout_ms=100)):
            pass
        return [record.value for record in records]


def test_brokers_log_in_at_each_other_and_clients_at_both(run, tmp_path):
    async def scenario():
        async with running(settings(tmp_path, 1), settings(tmp_path, 2)) as (first, second):
            # Both replicas have the record before the answer, so the follower has logged in at the leader.
            for node, topic in ((first, "a"), (second, "b")):
                assert await write_and_read(client(node), topic, partitions=2, replicas=2) == [b"one"]

    run(scenario(), 60)


def with_a_control_plane(tmp_path, number):
    """A listener more, for what the controller says, at which nobody of the others has a password."""
    return settings(
        tmp_path,
        number,
        **{
            "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0,CONTROL://127.0.0.1:0",
            "listener.security.protocol.map": ",".join(
                f"{name}:SASL_PLAINTEXT" for name in ("INNER", "OUTER", "CONTROL")
            ),
            "control.plane.listener.name": "CONTROL",
            "listener.name.control.plain.sasl.jaas.config": f"{PLAIN} required username=controller "
            "password=control-secret user_controller=control-secret;",
        },
    )


def test_the_controller_logs_in_at_the_control_plane_with_what_that_listener_says(run, tmp_path):
    async def scenario():
        async with running(*(with_a_control_plane(tmp_path, number) for number in (1, 2))) as nodes:
            # The control plane carries who leads and who follows, the inner listener their records.
            for node, topic in zip(nodes, ("a", "b"), strict=True):
                assert await write_and_read(client(node), topic, partitions=2, replicas=2) == [b"one"]
                control = f"127.0.0.1:{node.endpoints[2].port}"
                for user, password, gets_in in (
                    ("controller", "control-secret", True),
                    ("broker", "inner-secret", False),
                ):
                    options = {**client(node, password, user=user), "bootstrap.servers": control}
                    refused = contextlib.nullcontext() if gets_in else pytest.raises(SaslAuthenticationError)
                    with refused:
                        async with AsyncAdmin(options) as admin:
                            await admin.cluster.describe()

    run(scenario(), 60)


def test_our_clients_are_refused_in_one_line(run, tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def scenario():
        async with running(settings(tmp_path)) as (node,):
            for options in (client(node, "wrong"), client(node, mechanism="SCRAM-SHA-512")):
                with pytest.raises(SaslAuthenticationError, match="Authentication failed") as refused:
                    await AsyncAdmin(options).topics.list()
                assert "secret" not in str(refused.value)
            with pytest.raises(SaslAuthenticationError):
                async with AsyncProducer(client(node, "wrong")) as producer:
                    await producer.send("t", b"x")

    run(scenario(), 60)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_credentials_are_those_of_the_store_and_change_while_brokers_run(run, tmp_path, mechanism):
    async def scenario():
        loop = asyncio.get_running_loop()
        async with running(settings(tmp_path)) as (node,):
            store = SqliteStore(tmp_path / "store", loop.call_soon_threadsafe)
            await wait(store.start())
            configs = ConfigStore(store, LoopClock(loop))

            async def says(password):
                try:
                    await AsyncAdmin(client(node, password, mechanism)).topics.list()
                except SaslAuthenticationError:
                    return False
                return True

            async def until(password, allowed):
                while await says(password) is not allowed:  # noqa: ASYNC110 - another process could be asked too
                    await asyncio.sleep(0.01)

            try:
                assert not await says("first")
                for password in ("first", "second"):
                    credential = ScramCredential.of_password(ScramMechanism(mechanism), password, b"salt")
                    await wait(configs.write("users", "alice", {mechanism: credential.text()}))
                    await until(password, allowed=True)
                assert not await says("first")
                await wait(configs.write("users", "alice", {mechanism: "salt=what,is=this"}))
                await until("second", allowed=False)
            finally:
                await wait(store.close())
        async with running(settings(tmp_path)) as (node,):
            assert not await says("second")

    run(scenario(), 60)


def test_clients_of_others(run, tmp_path):
    async def scenario():
        async with running(settings(tmp_path)) as (node,):
            await asyncio.to_thread(others, f"127.0.0.1:{node.endpoints[1].port}")

    def others(bootstrap):
        options = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
        }
        producer = KafkaProducer(**options, sasl_plain_password="alice-secret")
        producer.send("t", b"one").get(10)
        producer.close()
        consumer = KafkaConsumer(
            "t",
            **options,
            sasl_plain_password="alice-secret",
            auto_offset_reset="earliest",
            consumer_timeout_ms=5000,
        )
        assert next(iter(consumer)).value == b"one"
        consumer.close()
        with pytest.raises(PythonKafkaError):
            KafkaConsumer(**options, sasl_plain_password="wrong", bootstrap_timeout_ms=2000).topics()
        found = ConfluentAdmin(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "alice-secret",
            }
        ).list_topics(timeout=10)
        assert "t" in found.topics

    run(scenario(), 60)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sasl.enabled.mechanisms": "NTLM"}, "NTLM for configuration sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": ""}, "Missing required configuration sasl.enabled.mechanisms"),
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "must be included in sasl.enabled.mechanisms"),
        ({"listener.name.outer.plain.sasl.jaas.config": f"{SCRAM} required;"}, "PLAIN logs in with"),
        (
            {"listener.name.inner.plain.sasl.jaas.config": f"{PLAIN} required user_a=inner-secret;"},
            "has no username and password",
        ),
    ],
)
def test_a_broker_without_what_its_listeners_need_does_not_start(run, tmp_path, changes, words):
    async def scenario():
        with pytest.raises(ConfigError, match=words) as refused:
            BrokerNode(broker_config({**settings(tmp_path), **changes}))
        assert "secret" not in str(refused.value)

    run(scenario())


def test_a_listener_with_users_but_without_a_line_of_jaas(run, tmp_path):
    async def scenario():
        given = settings(tmp_path)
        del given["listener.name.outer.plain.sasl.jaas.config"]
        with pytest.raises(ConfigError, match=r"listener\.name\.outer\.plain\.sasl\.jaas\.config"):
            BrokerNode(broker_config(given))

    run(scenario())


def tls_settings(tmp_path, number, authority, **more):
    signed = authority.sign("localhost", "127.0.0.1", subject=[(NameOID.COMMON_NAME, f"broker-{number}")])
    return {
        **settings(tmp_path, number),
        "listener.security.protocol.map": "INNER:SSL,OUTER:SASL_SSL",
        "ssl.keystore.key": signed.key_pem(),
        "ssl.keystore.certificate.chain": signed.chain_pem,
        "ssl.truststore.certificates": authority.pem_text,
        # Of the clients on SSL; those on SASL_SSL log in without one.
        "ssl.client.auth": "required",
        **more,
    }


def tls_client(node, authority, **more):
    return {
        **client(node),
        "security.protocol": "SASL_SSL",
        "ssl.truststore.certificates": authority.pem_text,
        **more,
    }


def test_brokers_and_clients_speak_tls(run, tmp_path):
    authority = Authority()

    async def scenario():
        configs = [tls_settings(tmp_path, number, authority) for number in (1, 2)]
        async with running(*configs) as (first, second):
            for node, topic in ((first, "a"), (second, "b")):
                options = tls_client(node, authority)
                assert await write_and_read(options, topic, partitions=2, replicas=2) == [b"one"]

    run(scenario(), 60)


def test_a_client_does_not_talk_to_a_broker_that_it_does_not_trust(run, tmp_path):
    authority = Authority()

    async def scenario():
        async with running(tls_settings(tmp_path, 1, authority)) as (node,):
            stranger = tls_client(node, Authority())
            with pytest.raises(SslAuthenticationError, match="certificate verify failed"):
                await AsyncAdmin(stranger).topics.list()
            inner = {
                "bootstrap.servers": f"127.0.0.1:{node.endpoints[0].port}",
                "security.protocol": "SSL",
                "ssl.truststore.certificates": authority.pem_text,
            }
            # The listener asks for a certificate.
            with pytest.raises(SslAuthenticationError):
                await AsyncAdmin(inner).topics.list()
            own = authority.sign("alice")
            shown = {"ssl.keystore.key": own.key_pem(), "ssl.keystore.certificate.chain": own.chain_pem}
            async with AsyncAdmin({**inner, **shown}) as admin:
                assert await admin.topics.list() == []

    run(scenario(), 60)


def test_plaintext_at_a_tls_port_and_tls_at_a_plaintext_port_end_in_one_line(run, tmp_path):
    authority = Authority()
    quick = {"request.timeout.ms": 500, "default.api.timeout.ms": 1500, "retry.backoff.ms": 50}

    async def scenario():
        plain = {"listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_SSL"}
        async with running(tls_settings(tmp_path, 1, authority, **plain)) as (node,):
            inner, outer = (f"127.0.0.1:{endpoint.port}" for endpoint in node.endpoints)
            with pytest.raises(BarnabasError):
                await AsyncAdmin({"bootstrap.servers": outer, **quick}).topics.list()
            with pytest.raises(BarnabasError):
                await AsyncAdmin(
                    {**tls_client(node, authority), "bootstrap.servers": inner, **quick}
                ).topics.list()
            async with AsyncAdmin({"bootstrap.servers": inner}) as admin:
                assert await admin.topics.list() == []

    run(scenario(), 60)


def test_a_password_is_not_set_while_the_broker_runs(run, tmp_path):
    async def scenario():
        async with running(settings(tmp_path)) as (node,), AsyncAdmin(client(node)) as admin:
            own = ConfigResource.broker(1)
            key = "listener.name.new.plain.sasl.jaas.config"
            with pytest.raises(KafkaError, match="Passwords cannot be set dynamically"):
                await admin.configs.alter({own: {key: f"{PLAIN} required user_a=s3cret;"}})
            described = (await admin.configs.describe(own))[own]
            kept = described["listener.name.outer.plain.sasl.jaas.config"]
            assert (kept.value, kept.is_sensitive) == (None, True)

    run(scenario(), 60)


def test_a_new_certificate_is_read_when_the_location_is_set_again(run, tmp_path):
    old, new = Authority(), Authority()
    store = tmp_path / "broker.pem"

    async def scenario():
        given = tls_settings(
            tmp_path,
            1,
            old,
            **{"listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SSL", "ssl.client.auth": "none"},
        )
        for key in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
            del given[key]
        old.sign("127.0.0.1").pem(store)
        given["ssl.keystore.location"] = str(store)
        async with running(given) as (node,):
            inner, outer = (f"127.0.0.1:{endpoint.port}" for endpoint in node.endpoints)

            async def trusts(authority):
                options = {"security.protocol": "SSL", "ssl.truststore.certificates": authority.pem_text}
                try:
                    await AsyncAdmin({"bootstrap.servers": outer, **options}).topics.list()
                except SslAuthenticationError:
                    return False
                return True

            assert (await trusts(old), await trusts(new)) == (True, False)
            async with AsyncAdmin({"bootstrap.servers": inner}) as admin:
                key, own = "listener.name.outer.ssl.keystore.location", ConfigResource.broker(1)
                new.sign("127.0.0.1").pem(store)
                await admin.configs.alter({own: {key: str(store)}})
                while not await trusts(new):  # noqa: ASYNC110 - the notice is on its way
                    await asyncio.sleep(0.01)
                assert not await trusts(old)
                with pytest.raises(KafkaError, match="No such file"):
                    await admin.configs.alter({own: {key: str(tmp_path / "none")}})
            assert await trusts(new)

    run(scenario(), 60)


STORE_KEY = "listener.name.outer.ssl.keystore.location"


@contextlib.asynccontextmanager
async def showing(tmp_path, authority, store, **more):
    """A broker that shows the certificate of this file: an admin of it, and what reads what it shows."""
    given = tls_settings(
        tmp_path,
        1,
        authority,
        **{"listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SSL", "ssl.client.auth": "none"},
        **{"ssl.keystore.location": str(store), **more},
    )
    for each in ("ssl.keystore.key", "ssl.keystore.certificate.chain"):
        del given[each]
    trusting = ssl.create_default_context(cadata=authority.pem_text)
    trusting.check_hostname = False
    async with running(given) as (node,):
        inner, outer = node.endpoints

        async def shown():
            _, writer = await asyncio.open_connection("127.0.0.1", outer.port, ssl=trusting)
            found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            return ssl.DER_cert_to_PEM_cert(found)

        async with AsyncAdmin({"bootstrap.servers": f"127.0.0.1:{inner.port}"}) as admin:
            yield admin, shown


async def until_it_is(look, expected):
    while await look() != expected:  # noqa: ASYNC110 - the notice is on its way
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["localhost"], "Keystore DistinguishedName does not match"),
        (["127.0.0.1"], "Keystore SubjectAltNames do not match"),
    ],
)
def test_a_certificate_with_another_subject_or_fewer_names_does_not_follow(run, tmp_path, names, words):
    authority, store = Authority(), tmp_path / "broker.pem"
    first = authority.sign("127.0.0.1", "localhost")
    first.pem(store)
    own, everyone = ConfigResource.broker(1), ConfigResource.all_brokers()

    async def scenario():
        async with showing(tmp_path, authority, store) as (admin, shown):

            async def backoff():
                return (await admin.configs.describe(own))[own]["log.cleaner.backoff.ms"].value

            authority.sign(*names).pem(store)
            with pytest.raises(KafkaError, match=words):
                await admin.configs.alter({own: {STORE_KEY: str(store)}})
            # As at Kafka's, whatever else is asked of this broker is refused as well.
            with pytest.raises(KafkaError, match=words):
                await admin.configs.alter({own: {"log.cleaner.backoff.ms": "1000"}})
            # A setting of all brokers is taken, and the certificate stays.
            await admin.configs.alter({everyone: {"log.cleaner.backoff.ms": "900"}})
            await until_it_is(backoff, "900")
            assert await shown() == first.chain_pem
            # One with the same subject and more names may follow.
            better = authority.sign("127.0.0.1", "localhost", "elsewhere")
            better.pem(store)
            await admin.configs.alter({own: {STORE_KEY: str(store)}})
            await until_it_is(shown, better.chain_pem)
            # It is the one that the next is compared with.
            first.pem(store)
            with pytest.raises(KafkaError, match="Keystore SubjectAltNames do not match"):
                await admin.configs.alter({own: {STORE_KEY: str(store)}})

    run(scenario(), 60)


def test_another_subject_and_other_names_follow_where_that_is_allowed(run, tmp_path):
    authority, store = Authority(), tmp_path / "broker.pem"
    authority.sign("127.0.0.1", "localhost").pem(store)
    # Of the listener alone, as its other keys of TLS may be.
    allowed = {f"listener.name.outer.ssl.allow.{part}.changes": "true" for part in ("dn", "san")}

    async def scenario():
        async with showing(tmp_path, authority, store, **allowed) as (admin, shown):
            for name in ("elsewhere", "127.0.0.1"):
                signed = authority.sign(name)
                signed.pem(store)
                await admin.configs.alter({ConfigResource.broker(1): {STORE_KEY: str(store)}})
                await until_it_is(shown, signed.chain_pem)

    run(scenario(), 60)


def login_file(tmp_path, monkeypatch, text):
    file = tmp_path / "kafka.jaas"
    file.write_text(text)
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g -Djava.security.auth.login.config={file}")


def test_log_ins_may_be_in_a_file_of_jaas(run, tmp_path, monkeypatch):
    secret = 'a "quoted" \\ secret'
    quoted = secret.replace("\\", "\\\\").replace('"', '\\"')
    login_file(
        tmp_path,
        monkeypatch,
        f"""
        inner.KafkaServer {{
          {PLAIN} required username="broker" password="{quoted}" user_broker="{quoted}";
        }};
        KafkaServer {{
          {SCRAM} required;
          {PLAIN} required user_alice="alice-secret"; // of all other listeners
        }};
        KafkaClient {{ {PLAIN} required username="alice" password="alice-secret"; }};
        """,
    )
    given = settings(tmp_path)
    for listener in ("inner", "outer"):
        del given[f"listener.name.{listener}.plain.sasl.jaas.config"]

    async def scenario():
        second = {**given, "broker.id": "2", "log.dirs": str(tmp_path / "data-2")}
        async with running(given, second) as (node, _):
            options = client(node)
            del options["sasl.jaas.config"]
            assert await write_and_read(options, replicas=2) == [b"one"]
            # What a client is told itself counts.
            with pytest.raises(SaslAuthenticationError):
                await AsyncAdmin(client(node, "wrong")).topics.list()
            inner = {
                **client(node, user="broker"),
                "bootstrap.servers": f"127.0.0.1:{node.endpoints[0].port}",
            }
            inner["sasl.jaas.config"] = f'{PLAIN} required username="broker" password="{quoted}";'
            async with AsyncAdmin(inner) as admin:
                assert [each.name for each in await admin.topics.list()] == ["t"]
            # Who logs in at one listener is nobody at the other.
            with pytest.raises(SaslAuthenticationError):
                await AsyncAdmin({**inner, "bootstrap.servers": options["bootstrap.servers"]}).topics.list()

    run(scenario(), 60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"Missing required configuration listener\.name\.inner\.plain\.sasl\.jaas\.config"),
        ("Other { x required; };", r"Missing required configuration listener\.name\.inner\.plain"),
        (
            f"KafkaServer {{ {SCRAM} required; }};",
            r"Missing required configuration listener\.name\.inner\.plain",
        ),
        (f"KafkaServer {{ {PLAIN} required password=inner-secret", "java.security.auth.login.config"),
    ],
)
def test_a_file_of_jaas_that_does_not_help_is_one_line(run, tmp_path, monkeypatch, text, words):
    login_file(tmp_path, monkeypatch, text)
    given = settings(tmp_path)
    del given["listener.name.inner.plain.sasl.jaas.config"]

    async def scenario():
        with pytest.raises(ConfigError, match=words) as refused:
            BrokerNode(broker_config(given))
        assert "secret" not in str(refused.value)

    run(scenario())

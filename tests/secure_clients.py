"""Outside clients at a listener with SASL_SSL: what becomes of each with right, wrong and missing
credentials, and of one whose user is removed while it is connected. For any broker with the users of `USERS`.
"""

import asyncio
import contextlib
import gc
import ssl
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

USERS = {"alice": "alice-secret", "eve": "eve-secret"}
RIGHT = {"user": "alice", "password": "alice-secret", "mechanism": "SCRAM-SHA-512"}
CASES = {
    "right": RIGHT,
    "right, SHA-256": {**RIGHT, "mechanism": "SCRAM-SHA-256"},
    "wrong password": {**RIGHT, "password": "wrong"},
    "unknown user": {**RIGHT, "user": "nobody"},
    "mechanism that is off": {**RIGHT, "mechanism": "PLAIN"},
    "no log-in": {**RIGHT, "protocol": "SSL"},
    "in clear": {**RIGHT, "protocol": "SASL_PLAINTEXT"},
    "nothing": {**RIGHT, "protocol": "PLAINTEXT"},
    "another authority": {**RIGHT, "ca": "other"},
}
SECONDS = 3
EXPECTED = {
    "confluent-kafka": {
        **dict.fromkeys(CASES, "no answer"),
        "right": "in",
        "right, SHA-256": "in",
        **dict.fromkeys(("wrong password", "unknown user", "mechanism that is off"), "authentication"),
        "another authority": "ssl",
    },
    "kafka-python": {**dict.fromkeys(CASES, "KafkaTimeoutError"), "right": "in", "right, SHA-256": "in"},
    "aiokafka": {**dict.fromkeys(CASES, "KafkaConnectionError"), "right": "in", "right, SHA-256": "in"},
}
"""What becomes of each at Apache Kafka 3.9.2 (tests/jvm/test_outside_credentials.py), and at ours."""


class LibrdKafka:
    """confluent-kafka: its errors come to a callback; the call itself only ends."""

    def __init__(self, bootstrap, given):
        self.errors = set()
        token, own = given.get("token"), given.get("own")
        login = {
            "sasl.mechanisms": given["mechanism"],
            "sasl.username": given["user"],
            "sasl.password": given["password"],
        }
        if token is not None:
            # What the broker says of the token counts, not what this client thinks of its time.
            login = {
                "sasl.mechanisms": "OAUTHBEARER",
                "oauth_cb": lambda _: (token, time.time() + 600, "alice", {}),
            }
        self._admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": given["protocol"],
                **(login if given["protocol"].startswith("SASL_") else {}),
                "ssl.ca.location": given["ca"],
                **({"ssl.certificate.location": own, "ssl.key.location": own} if own else {}),
                "error_cb": lambda error: self.errors.add(error.code()),
                "log_level": 0,
            }
        )

    def work(self):
        self._admin.list_topics(timeout=SECONDS)

    def close(self):
        self._admin.poll(0)


class _Provider(AbstractTokenProvider):
    """A token for kafka-python."""

    def __init__(self, token):
        self._token = token

    def token(self):
        return self._token

    def extensions(self):
        return {}


class _AioProvider(AioTokenProvider):
    """A token for aiokafka."""

    def __init__(self, token):
        self._token = token

    async def token(self):
        return self._token


class KafkaPython:
    def __init__(self, bootstrap, given):
        token = given.get("token")
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol=given["protocol"],
            sasl_mechanism=given["mechanism"],
            sasl_plain_username=given["user"],
            sasl_plain_password=given["password"],
            sasl_oauth_token_provider=None if token is None else _Provider(token),
            ssl_cafile=given["ca"],
            ssl_certfile=given.get("own"),
            ssl_keyfile=given.get("own"),
            bootstrap_timeout_ms=SECONDS * 1000,
            max_block_ms=SECONDS * 1000,
        )

    def work(self):
        self._producer.send("orders", b"x").get(timeout=SECONDS)

    def close(self):
        self._producer.close(0)


class AioKafka:
    """aiokafka, on a loop of its own."""

    def __init__(self, bootstrap, given):
        self._loop = asyncio.new_event_loop()
        self._producer = None
        try:
            self._loop.run_until_complete(self._start(bootstrap, given))
        except BaseException:
            self.close()
            raise

    async def _start(self, bootstrap, given):
        token, own = given.get("token"), given.get("own")
        context = ssl.create_default_context(cafile=given["ca"])
        if own:
            context.load_cert_chain(own)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            security_protocol=given["protocol"],
            sasl_mechanism=given["mechanism"],
            sasl_plain_username=given["user"],
            sasl_plain_password=given["password"],
            sasl_oauth_token_provider=None if token is None else _AioProvider(token),
            ssl_context=context,
            request_timeout_ms=SECONDS * 1000,
        )
        await self._producer.start()

    def work(self):
        self._loop.run_until_complete(self._producer.send_and_wait("orders", b"x"))

    def close(self):
        async def end():
            if self._producer is not None:
                await self._producer.stop()
            await asyncio.sleep(0)  # its transports close in the next turn

        try:
            self._loop.run_until_complete(end())
        finally:
            self._loop.close()


CLIENTS = {"confluent-kafka": LibrdKafka, "kafka-python": KafkaPython, "aiokafka": AioKafka}


_TELLING = {KafkaError._AUTHENTICATION, KafkaError._SSL}


def outcome(kind, bootstrap, given):
    """What becomes of a client: it is in, or the name of its error, or what librdkafka's callback hears."""
    try:
        client = CLIENTS[kind](bootstrap, {"protocol": "SASL_SSL", **given})
    except Exception as error:
        return type(error).__name__
    try:
        client.work()
    except KafkaException:
        client.close()
        deadline = time.monotonic() + 1
        while not client.errors & _TELLING and time.monotonic() < deadline:
            client._admin.poll(0.1)
        if KafkaError._AUTHENTICATION in client.errors:
            return "authentication"
        return "ssl" if KafkaError._SSL in client.errors else "no answer"
    except Exception as error:
        return type(error).__name__
    finally:
        with contextlib.suppress(Exception):
            client.close()
    return "in"


def outcomes(questions):
    """The outcome of each (kind, bootstrap, given), all asked at once, in a process of their own: clients
    that are refused leave sockets open, of which nobody hears there.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as child:
        return child.submit(_outcomes, questions).result()


def _outcomes(questions):
    # They spend their time on waiting.
    with ThreadPoolExecutor(16) as threads:
        return list(threads.map(lambda each: outcome(*each), questions))


def all_outcomes(kind, bootstrap, ca, other_ca):
    """By the name of the case."""
    authorities = {"other": other_ca}
    questions = [
        (kind, bootstrap, {**given, "ca": authorities.get(given.get("ca"), ca)}) for given in CASES.values()
    ]
    return dict(zip(CASES, outcomes(questions), strict=True))


def removed_while_connected(kind, bootstrap, ca, remove):
    """What becomes of eve's open connection, and of her next one, once `remove` has removed her."""
    given = {**RIGHT, "user": "eve", "password": "eve-secret", "ca": ca}
    client = CLIENTS[kind](bootstrap, {"protocol": "SASL_SSL", **given})
    for _ in range(3):
        client.work()  # librdkafka goes to the broker that it has heard of, by a connection of its own
    remove()
    deadline = time.monotonic() + 10
    question = [(kind, bootstrap, given)]
    while outcomes(question) == ["in"] and time.monotonic() < deadline:
        pass  # until the broker has heard of it
    (new,) = outcomes(question)  # the one before may have connected in the middle of it
    try:
        client.work()
        old = "in"
    except Exception as error:
        old = type(error).__name__
    client.close()
    gc.collect()
    return old, new

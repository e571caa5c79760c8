"""What a newcomer touches first: names that can be found, help that opens, waits as elsewhere in Python."""

import asyncio
import contextlib
import inspect
import pickle
import pydoc
import re
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

import barnabas.admin
import barnabas.client
from barnabas.admin import Admin, AsyncAdmin, NewPartitions, NewTopic
from barnabas.client import (
    AsyncConsumer,
    AsyncProducer,
    ConfigError,
    Consumer,
    ConsumerRecord,
    Delivery,
    Producer,
)
from barnabas.client.habits import (
    OF_ADMIN_MODULE,
    OF_ADMINS,
    OF_CONSUMERS,
    OF_DELIVERIES,
    OF_MODULE,
    OF_POLLED,
    OF_PRODUCERS,
    OF_RECORDS,
)
from barnabas.client.producer_batch import ProducerBatch
from barnabas.client.types import ConsumerRecords
from barnabas.core.ids import TopicPartition
from barnabas.records.compression import Codec

FACES = [(Producer, AsyncProducer), (Consumer, AsyncConsumer), (Admin, AsyncAdmin)]


def test_dir_shows_what_is_public() -> None:
    shown = dir(barnabas.client)
    assert set(barnabas.client.__all__) <= set(shown)
    assert {"Producer", "Consumer", "KafkaError", "ConfigError", "TopicPartition"} <= set(shown)


@pytest.mark.parametrize("name", barnabas.client.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(barnabas.client, name).__name__ == name


@pytest.mark.parametrize(("face", "twin"), FACES)
def test_methods_of_a_face_can_be_looked_at_on_the_class(face: type, twin: type) -> None:
    assert pydoc.plain(pydoc.render_doc(face))
    for name, method in inspect.getmembers(face, inspect.isfunction):
        if name.startswith("_"):
            continue
        assert inspect.getdoc(method), name
        assert not inspect.iscoroutinefunction(method), name
        assert next(iter(inspect.signature(method).parameters)) == "self", name


@pytest.mark.parametrize(("face", "twin"), [*FACES[:2]])
def test_a_face_has_every_public_method_of_its_twin(face: type, twin: type) -> None:
    own_loop = {"start", "abort", "gives_way", "try_send", "try_send_section", "make_ready"}
    own_loop |= {"ends", "has_read_to", "leave_to_parent", "silent_brokers", "take_back", "warn_if_dropped"}
    public = {name for name, _ in inspect.getmembers(twin, inspect.isfunction) if not name.startswith("_")}
    assert public - own_loop <= set(dir(face))


async def _nouns_without_their_verbs() -> dict[str, set[str]]:
    twin = AsyncAdmin("127.0.0.1:1")
    with_face = Admin("127.0.0.1:1")
    try:
        return {
            noun: {name for name in dir(verbs) if not name.startswith("_")}
            - set(dir(getattr(with_face, noun)))
            for noun, verbs in vars(twin).items()
            if not noun.startswith("_")
        }
    finally:
        with_face.close()
        await twin.close()


def test_the_admin_client_has_every_verb_of_its_twin() -> None:
    missing = asyncio.run(_nouns_without_their_verbs())
    assert missing
    assert not any(missing.values()), missing


def test_the_old_name_of_the_admin_client_is_kept() -> None:
    assert barnabas.admin.BlockingAdmin is Admin


def _delivery() -> tuple[Delivery, ProducerBatch]:
    batch = ProducerBatch(TopicPartition("t", 0), Codec.NONE, 0.0)
    batch.builder.append(0, None, b"v", (), 100)
    return Delivery(batch, 0, 0), batch


@pytest.mark.parametrize("waiting", [{"timeout": 0.01}, {"timeout_ms": 10}])
def test_a_wait_that_is_over_raises_what_futures_raise(waiting: dict[str, Any]) -> None:
    delivery, _ = _delivery()
    with pytest.raises(TimeoutError, match=r"No acknowledgement from t-0 in 0\.01 s"):
        delivery.result(**waiting)
    with pytest.raises(TimeoutError):
        Future[int]().result(timeout=0.01)
    with pytest.raises(TimeoutError):
        delivery.exception(0.01)


def test_a_delivery_has_a_result_or_an_exception_as_futures_have() -> None:
    stored, batch = _delivery()
    batch.complete(7, -1)
    assert stored.result(timeout=10).offset == 7
    assert stored.exception(timeout=10) is None
    failed, batch = _delivery()
    batch.fail(ValueError("no"))
    assert str(failed.exception()) == "no"
    with pytest.raises(ValueError, match="no"):
        failed.result(10)


@pytest.mark.parametrize("client", [Producer, AsyncProducer, Consumer, AsyncConsumer, Admin, AsyncAdmin])
@pytest.mark.parametrize(
    ("given", "options"),
    [
        (("127.0.0.1:1",), {"client_id": "mine"}),
        ((), {"bootstrap_servers": "127.0.0.1:1", "client_id": "mine"}),
        ((), {"bootstrap_servers": ["127.0.0.1:1"], "client.id": "mine"}),
        (({"bootstrap.servers": "127.0.0.1:1", "client.id": "mine"},), {}),
        (({"bootstrap.servers": "127.0.0.1:1", "client.id": "other"},), {"client_id": "mine"}),
    ],
)
def test_options_come_in_each_habitual_form(client: Any, given: tuple[Any, ...], options: Any) -> None:
    async def made() -> str:
        one = client(*given, **options)
        text = repr(one)
        closing = one.close()
        if inspect.isawaitable(closing):
            await closing
        return text

    text = asyncio.run(made())
    assert text.startswith(f"<{client.__name__} 127.0.0.1:1")


@pytest.mark.parametrize("client", [Consumer, AsyncConsumer])
def test_a_topic_in_the_place_of_the_servers_is_answered_with_what_to_write(client: Any) -> None:
    with pytest.raises(TypeError) as refused:
        client("orders", bootstrap_servers="h:1")
    assert str(refused.value) == (
        "the consumer takes its servers first or by name, not both: write bootstrap_servers='h:1' alone,"
        " and then subscribe(['orders'])"
    )


def test_no_servers_at_all_are_asked_for_by_kafkas_key() -> None:
    with pytest.raises(ConfigError, match=r'^Missing required configuration "bootstrap\.servers"'):
        Producer()


@pytest.mark.parametrize(
    ("client", "option", "instead"),
    [
        (Producer, "stats_cb", r"metrics\(\) has them"),
        (Producer, "retries", "delivery_timeout_ms bounds all tries"),
        (Producer, "value_serializer", "it must be a function of the value"),
        (Producer, "interceptors", "it must be a list of objects that have on_send"),
        (Producer, "on_delivery", "it must be a function"),
        (Consumer, "consumer_timeout_ms", r"write poll\(timeout_ms=\.\.\.\)"),
    ],
)
def test_an_option_of_another_client_is_answered_with_what_to_write(
    client: Any, option: str, instead: str
) -> None:
    with pytest.raises(ConfigError, match=instead):
        client("h:1", **{option: 1})


@pytest.mark.parametrize(
    ("client", "habits"),
    [
        (AsyncProducer, OF_PRODUCERS),
        (Producer, OF_PRODUCERS),
        (AsyncConsumer, OF_CONSUMERS),
        (Consumer, OF_CONSUMERS),
        (AsyncAdmin, OF_ADMINS),
        (Admin, OF_ADMINS),
        (Delivery, OF_DELIVERIES),
        (ConsumerRecord, OF_RECORDS),
        (ConsumerRecords, OF_POLLED),
        (
            TopicPartition,
            {
                "error": "what goes wrong is raised",
                "metadata": "write commit({tp: OffsetAndMetadata(offset, metadata)})",
                "offset": "write seek(tp, offset), commit({tp: offset}) or position(tp)",
            },
        ),
    ],
)
def test_a_name_of_another_client_is_answered_with_what_to_write(client: Any, habits: dict[str, str]) -> None:
    with contextlib.closing(Admin("127.0.0.1:1")) as admin:
        there = {"Admin", *vars(admin)}
    there |= {name for one in (client, Consumer, Producer) for name in dir(one) if hasattr(one, name)}
    fields = getattr(client, "_fields", ())
    values = ("t", 0) if client is TopicPartition else [None] * len(fields)  # its compiled form has types
    for name, instead in habits.items():
        with pytest.raises(AttributeError) as refused:
            getattr(client.__new__(client, *values), name)
        assert str(refused.value) == f"'{client.__name__}' object has no attribute '{name}': {instead}"
        for written in re.findall(r"write (?:producer\.)?(\w+)", instead):
            assert written in there, instead


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (
            lambda c: c.poll(timeout=1.0),
            "poll() has no argument 'timeout': write timeout_ms=..., in millisec",
        ),
        (
            lambda c: c.poll(max_poll_records=1),
            "poll() has no argument 'max_poll_records': write max_records=",
        ),
        (
            lambda c: c.subscribe("t", listener=object()),
            "no argument 'listener': write on_assigned=... and on_",
        ),
        (
            lambda c: c.subscribe("t", "u"),
            "subscribe() takes no 'u' here: write subscribe([topic, ...]), and",
        ),
        (
            lambda c: c.subscribe("t", on_assign=print),
            "no argument 'on_assign': write on_assigned=..., a func",
        ),
        (lambda c: c.subscribe(None), "topics are given as a list, not None"),
        (lambda c: c.subscribe(3), "topics are given as a list, not 3"),
        (
            lambda c: c.commit(asynchronous=False),
            "no argument 'asynchronous': write commit(), or commit_async",
        ),
        (
            lambda c: c.commit(message=3),
            "no argument 'message': write commit({(record.topic, record.partition)",
        ),
        (lambda c: c.commit([("t", 0, 5)]), "offsets to commit are given by partition, as a dict, not [("),
        (lambda c: c.commit({("t", 0): "5"}), "an offset to commit is an int or OffsetAndMetadata, not '5'"),
        (
            lambda c: c.close(timeout=1),
            "close() has no argument 'timeout': write timeout_ms=..., in millisec",
        ),
        (lambda c: c.close(autocommit=False), "write enable_auto_commit=False where the consumer is made"),
    ],
)
def test_an_argument_of_another_consumer_is_answered_with_what_to_write(ask: Any, said: str) -> None:
    with (
        contextlib.closing(Consumer("127.0.0.1:1", group_id="g")) as consumer,
        pytest.raises(TypeError, match=re.escape(said)),
    ):
        ask(consumer)


@pytest.mark.parametrize(
    ("client", "ask", "said"),
    [
        (
            Producer,
            lambda p: p.flush(timeout_ms=1),
            "no argument 'timeout_ms': write timeout=..., in seconds",
        ),
        (
            Producer,
            lambda p: p.close(timeout=1),
            "close() has no argument 'timeout': write flush(timeout=...)",
        ),
        (
            Producer,
            lambda p: p.send("t", b"v", callback=print),
            "Producer.send() has no argument 'callback': write on_delivery=..., a function of (error, metada",
        ),
        (Producer, lambda p: p.send("t", b"v", timestamp=1), "'timestamp': write timestamp_ms=..., in milli"),
        (Producer, lambda p: p.send("t", nonsense=1), "Producer.send() has no argument 'nonsense'"),
        (
            Admin,
            lambda a: a.topics.create("t", partitions=3),
            "'partitions': write create(NewTopic(name, part",
        ),
        (
            Admin,
            lambda a: a.topics.create("t", num_partitions=3),
            "write create(NewTopic(name, partitions=...",
        ),
        (Admin, lambda a: a.topics.create([], validate=True), "'validate': write validate_only=..."),
        (
            Admin,
            lambda a: a.groups.alter_offsets("g", [("t", 0)]),
            "offsets to commit are given by partition",
        ),
    ],
)
def test_an_argument_of_another_client_is_answered_with_what_to_write(
    client: Any, ask: Any, said: str
) -> None:
    with contextlib.closing(client("127.0.0.1:1")) as one, pytest.raises(TypeError, match=re.escape(said)):
        ask(one)


def test_the_asynchronous_send_answers_the_same(run: Any) -> None:
    async def scenario() -> None:
        producer = AsyncProducer("127.0.0.1:1")
        with pytest.raises(
            TypeError, match=r"^AsyncProducer\.send\(\) has no argument 'callback': write on_"
        ):
            await producer.send("t", b"v", callback=print)  # type: ignore[arg-type]
        await producer.close()

    run(scenario())


@pytest.mark.parametrize(("given", "named"), [(("t", 0, 5), {}), (("t", 0), {"offset": 5})])
def test_a_partition_with_an_offset_is_answered_with_what_to_write(given: Any, named: Any) -> None:
    said = "TopicPartition is a topic and a partition; for an offset write seek(tp, offset), commit("
    with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
        TopicPartition(*given, **named)
    copied = pickle.loads(pickle.dumps(T0))
    assert copied == T0 == T0._replace(topic="t") == TopicPartition(topic="t", partition=0)
    assert isinstance(copied, TopicPartition)


def test_a_poll_gives_a_list_that_answers_the_ways_of_others() -> None:
    with contextlib.closing(Consumer("127.0.0.1:1")) as consumer:
        records = consumer.poll()
        assert records == []
        assert repr(records) == "[]"
        with pytest.raises(AttributeError, match=r"'items': poll gives a list of records: write `for record"):
            records.items()  # type: ignore[attr-defined]
        with pytest.raises(
            AttributeError, match=r"'error': poll gives a list of records: .*; what goes wrong"
        ):
            records.error()  # type: ignore[attr-defined]


def test_the_length_of_a_producer_is_what_it_holds() -> None:
    with contextlib.closing(Producer("127.0.0.1:1")) as producer:
        assert len(producer) == producer.held_records == 0
        for one in (producer, AsyncProducer("127.0.0.1:1")):
            assert len(one) == 0
            assert one, "and one that holds nothing is one all the same"


def test_a_poll_of_a_second_says_once_that_it_waits_a_millisecond(caplog: pytest.LogCaptureFixture) -> None:
    with contextlib.closing(Consumer("127.0.0.1:1")) as consumer:
        for timeout in (1, 1.0, 1.0):
            consumer.poll(timeout)
    lines = [one.getMessage() for one in caplog.records if "short_poll" in one.getMessage()]
    assert lines == ['consumer.short_poll timeout_ms=1.0 advice="poll waits milliseconds"']


def test_several_partitions_may_come_as_a_list_as_elsewhere() -> None:
    pair = [TopicPartition("t", 0), TopicPartition("t", 1)]
    with contextlib.closing(Consumer("127.0.0.1:1")) as consumer:
        consumer.assign(pair)
        consumer.pause(pair)
        assert consumer.paused() == set(pair)
        consumer.resume(pair[0], [pair[1]])
        assert consumer.paused() == set()
        consumer.seek_to_beginning(set(pair))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("ssl_cafile", "Unknown configuration ssl.cafile: write ssl_truststore_location=... with ssl_trust"),
        ("sasl_plain_username", "Unknown configuration sasl.plain.username: write sasl_jaas_config=..."),
        ("sasl_username", "Unknown configuration sasl.username: write sasl_jaas_config=..."),
        ("sasl_mechanisms", "Unknown configuration sasl.mechanisms: write sasl_mechanism=..."),
        ("metadata_broker_list", "Unknown configuration metadata.broker.list: write bootstrap_servers=..."),
    ],
)
def test_an_option_of_security_of_another_client_is_answered_with_what_to_write(
    option: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        Consumer("h:1", **{option: "x"})  # type: ignore[misc]


@pytest.mark.parametrize("name", OF_ADMIN_MODULE)
def test_a_name_of_another_admin_client_is_answered_with_what_to_write(name: str) -> None:
    with pytest.raises(ImportError) as refused:
        exec(f"from barnabas.admin import {name}", {})
    assert str(refused.value) == f"there is no {name} in barnabas.admin: {OF_ADMIN_MODULE[name]}"
    assert OF_ADMIN_MODULE[name].split()[-1] in barnabas.admin.__all__


def test_any_other_name_is_missed_as_always() -> None:
    with pytest.raises(AttributeError, match=r"'Delivery' object has no attribute 'nonsense'$"):
        _ = _delivery()[0].nonsense  # type: ignore[attr-defined]
    assert not hasattr(Consumer.__new__(Consumer), "nonsense")


@pytest.mark.parametrize(
    ("client", "options", "said"),
    [
        (Producer, {"bootstrap_servers": object()}, "bootstrap.servers: Expected a text or a list of texts"),
        (Consumer, {"bootstrap_servers": 9092.5}, "bootstrap.servers: Expected a text or a list of texts"),
        (Admin, {"bootstrap_servers": "http://h:1"}, "bootstrap.servers are host:port, without http://"),
        (Consumer, {"bootstrap_servers": "h:1", "max_poll_records": 0}, "max.poll.records: Value must be"),
    ],
)
def test_a_value_of_another_kind_is_refused_by_its_key(client: Any, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        client(**options)


def test_a_number_may_be_the_name_of_a_group() -> None:
    with contextlib.closing(Consumer("127.0.0.1:1", group_id=7)) as consumer:
        assert "group=7 " in repr(consumer)


@pytest.mark.parametrize("name", OF_MODULE)
def test_a_name_that_is_elsewhere_is_answered_with_where(name: str) -> None:
    with pytest.raises(ImportError) as refused:
        exec(f"from barnabas.client import {name}", {})
    assert str(refused.value) == f"there is no {name} in barnabas.client: {OF_MODULE[name]}"
    written = name if "import it" in OF_MODULE[name] else OF_MODULE[name].split()[-1].strip("`")
    assert written in {*barnabas.admin.__all__, *barnabas.client.__all__}


def test_a_module_misses_any_other_name_as_always() -> None:
    with pytest.raises(AttributeError, match=r"module 'barnabas\.client' has no attribute 'nonsense'"):
        _ = barnabas.client.nonsense


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        (("t", 1, 1, {"a": "1"}), {}, "broker ids by partition, not {'a': '1'}: write configs={'a': '1'}"),
        (("t", 1, 1, [[0]]), {}, "an assignment is a dict of broker ids by partition, not [[0]]"),
        (("t", 1, 1, {0: "12"}), {}, "an assignment is a dict of broker ids by partition, not {0: '12'}"),
        (("t", "3"), {}, "partitions must be an int, not '3'"),
        (("t", True), {}, "partitions must be an int, not True"),
        (("t", 1, {"a": "1"}), {}, "replication_factor must be an int, not {'a': '1'}"),
        ((3,), {}, "a topic's name is a str, not 3"),
        (("t",), {"configs": [("a", 1)]}, "configs are a dict of values by key, not [('a', 1)]"),
        (("t",), {"num_partitions": 3}, "NewTopic has no num_partitions: write partitions=..."),
        (("t", 3, 1), {"topic_configs": {}}, "NewTopic has no topic_configs: write configs=..."),
        (("t", 3), {"config": {}}, "NewTopic has no config: write configs=..."),
    ],
)
def test_a_new_topic_of_another_kind_is_answered_with_what_to_write(
    given: Any, named: Any, said: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        NewTopic(*given, **named)


def test_a_new_topic_can_be_copied_and_pickled() -> None:
    topic = NewTopic("t", 3, 1, {0: [1], 1: (2, 1)}, {"a": 1})
    assert pickle.loads(pickle.dumps(topic)) == topic == replace(topic)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonsense'"):
        NewTopic("t", nonsense=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("t", 5), "the count of partitions must be an int, not 't'"),
        ((5, [1]), "assignments are a list of broker ids for each new partition, not [1]"),
        ((5, {0: [1]}), "assignments are a list of broker ids for each new partition, not {0: [1]}"),
    ],
)
def test_new_partitions_of_another_kind_are_refused_in_words(given: Any, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        NewPartitions(*given)
    assert NewPartitions(2, [[1, 2]]).count == 2


def test_what_a_client_shows_of_itself() -> None:
    with contextlib.closing(Consumer("127.0.0.1:1", group_id="readers")) as consumer:
        consumer.subscribe(["b", "a"])
        assert repr(consumer) == "<Consumer 127.0.0.1:1 group=readers topics=a,b 0 partitions>"
    assert repr(consumer).endswith(" closed>")
    producer = Producer("127.0.0.1:1")
    assert repr(producer) == "<Producer 127.0.0.1:1 0 records not stored yet>"
    producer.close()


T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("given", [T0, ("t", 0), [T0], [("t", 0)], {T0: 1}, iter([T0])])
def test_one_partition_or_several_may_be_named(given: Any) -> None:
    with contextlib.closing(Consumer("127.0.0.1:1")) as consumer:
        if given == ("t", 0) and not isinstance(given, TopicPartition):
            with pytest.raises(
                TypeError, match=r"a partition is a TopicPartition or \(topic, number\), not 't'"
            ):
                consumer.assign(given)
            given = [given]
        consumer.assign(given)
        assert consumer.assignment() == {T0}
        consumer.seek(("t", 0), 1)


@pytest.mark.parametrize("given", ["trap", ["trap"], [("t", "0")], [("t", 0, 1)], [3], 3, None, b"t"])
def test_what_is_no_partition_is_refused_in_words(given: Any) -> None:
    with contextlib.closing(Consumer("127.0.0.1:1")) as consumer:
        for ask in (consumer.assign, consumer.beginning_offsets, consumer.end_offsets):
            with pytest.raises(TypeError, match=r"(a partition is|partitions are given as) a "):
                ask(given)
        with pytest.raises(TypeError, match=r"a partition is a TopicPartition"):
            consumer.seek(given, 0)


def _by_name(admin: Any) -> list[Any]:
    return [
        admin.topics.describe,
        admin.topics.try_describe,
        admin.topics.delete,
        admin.topics.try_delete,
        admin.groups.describe,
        admin.groups.delete,
        admin.groups.offsets,
        admin.transactions.describe,
        admin.transactions.fence,
        admin.coordinators.find,
        admin.quotas.scram_credentials,
    ]


@pytest.mark.parametrize("given", [["a", 3], [b"a"], b"a", 3])
def test_what_is_no_name_is_refused_in_words(run: Any, given: Any) -> None:
    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as ending:
            admin = AsyncAdmin("127.0.0.1:1", default_api_timeout_ms=50, request_timeout_ms=50)
            ending.push_async_callback(admin.close)
            for ask in _by_name(admin):
                with pytest.raises(TypeError, match=r"(are named by str|are given as a list), not "):
                    await ask(given)
            with pytest.raises(TypeError, match=r"topics to create are NewTopic\(name, partitions=\.\.\.\)"):
                await admin.topics.create("t")

    run(scenario())

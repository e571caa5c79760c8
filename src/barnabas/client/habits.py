"""What other clients for Python call it: one line instead of an AttributeError that says nothing."""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_POLL: Final = "write poll(timeout_ms=..., max_records=...), which gives a list of records"
_TOPICS: Final = "write Admin(...).topics.list(), with Admin of barnabas.admin"

OF_PRODUCERS: Final = {
    "begin": "write `with producer.transaction():`",
    "bootstrap_connected": "the block of `with Producer(...)` is entered once a broker has answered",
    "create_batch": "write send(...): batches are made by themselves",
    "init": "write init_transactions()",
    "list_topics": _TOPICS,
    "poll": "callbacks are called by themselves: there is nothing to poll",
    "produce": "write send(topic, value, key=..., headers=..., on_delivery=...)",
    "purge": "leave the block with an exception: what is not stored is given up",
    "send_batch": "write send(...): batches are made by themselves",
    "send_offsets_to_transaction": "write send_offsets(offsets, consumer.group_metadata())",
    "stop": "write close()",
}
OF_CONSUMERS: Final = {
    "bootstrap_connected": "the block of `with Consumer(...)` is entered once a broker has answered",
    "commit_sync": "write commit()",
    "consume": _POLL,
    "consumer_group_metadata": "write group_metadata()",
    "end_offset": "write end_offsets([...])",
    "get_watermark_offsets": "write beginning_offsets([...]) and end_offsets([...])",
    "getmany": _POLL,
    "getone": "write `for record in consumer:`, or poll(timeout_ms=..., max_records=1)",
    "highwater": "write end_offsets([...]), or lag(partition)",
    "incremental_assign": "write assign([...]), which keeps the positions of those that stay",
    "incremental_unassign": "write assign([...]), which keeps the positions of those that stay",
    "list_topics": _TOPICS,
    "offsets_for_timestamps": "write offsets_for_times({...})",
    "partitions_for_topic": "write partitions_for(topic)",
    "seek_to_committed": "write seek(tp, offset) for what committed([...]) gives",
    "stop": "write close()",
    "store_offsets": "write commit_async({partition: offset}) with enable_auto_commit=False",
    "subscribe_pattern": "write subscribe(pattern=...)",
    "topics": _TOPICS,
    "unassign": "write assign([])",
}
OF_ADMINS: Final = {
    "alter_configs": "write configs.alter({ConfigResource.topic(name): {key: value}})",
    "create_acls": "write acls.create([...])",
    "create_partitions": "write topics.create_partitions({name: count})",
    "create_topics": "write topics.create([NewTopic(...)])",
    "delete_consumer_groups": "write groups.delete([...])",
    "delete_records": "write partitions.delete_records({...})",
    "delete_topics": "write topics.delete([...])",
    "describe_cluster": "write cluster.describe()",
    "describe_configs": "write configs.describe([ConfigResource.topic(name)])",
    "describe_consumer_groups": "write groups.describe([...])",
    "describe_topics": "write topics.describe([...])",
    "elect_leaders": "write partitions.elect_leaders([...])",
    "incremental_alter_configs": "write configs.alter({ConfigResource.topic(name): {key: value}})",
    "list_consumer_group_offsets": "write groups.offsets(group)",
    "list_consumer_groups": "write groups.list()",
    "list_offsets": "write offsets.list({...})",
    "list_topics": "write topics.list()",
}
OF_DELIVERIES: Final = {
    "add_callback": "write send(..., on_delivery=...), or add_done_callback(...)",
    "add_errback": "write send(..., on_delivery=...), or add_done_callback(...)",
    "error": "write exception()",
    "failed": "write exception() is not None",
    "get": "write result(timeout=...)",
    "is_done": "write done()",
    "offset": "write result().offset, which waits for it",
    "partition": "write result().partition, which waits for it",
    "succeeded": "write exception() is None",
    "value": "write result()",
}
OF_RECORDS: Final = {"error": "what goes wrong is raised by poll"}
_EACH: Final = "poll gives a list of records: write `for record in consumer.poll(timeout_ms=...)`"
OF_POLLED: Final = {
    **dict.fromkeys(("items", "keys", "values"), f"{_EACH}, with record.topic and record.partition"),
    "error": f"{_EACH}; what goes wrong is raised",
    **{
        name: f"{_EACH}, and record.{name}"
        for name in ("headers", "key", "offset", "partition", "timestamp", "topic", "value")
    },
}
_NEW_TOPIC: Final = "write create(NewTopic(name, partitions=..., replication_factor=...))"
IN_CREATE: Final = {
    **dict.fromkeys(("name", "new_topics", "num_partitions", "partitions", "replication_factor"), _NEW_TOPIC),
    "operation_timeout": "write timeout_ms=..., in milliseconds",
    "request_timeout": "write timeout_ms=..., in milliseconds",
    "validate": "write validate_only=...",
}
"""Arguments that are looked for in `topics.create`, and what to write; so below. Those that come by position
behind the last one have the name ``*``.
"""
IN_POLL: Final = {
    "max_poll_records": "write max_records=...",
    "num_messages": "write max_records=...",
    "timeout": "write timeout_ms=..., in milliseconds",
}
IN_SUBSCRIBE: Final = {
    "*": "write subscribe([topic, ...]), and what else there is by its name",
    "listener": "write on_assigned=... and on_revoked=..., functions of a list of partitions",
    "on_assign": "write on_assigned=..., a function of a list of partitions",
    "on_lost_partitions": "write on_lost=..., a function of a list of partitions",
    "on_revoke": "write on_revoked=..., a function of a list of partitions",
}
IN_COMMIT: Final = {
    "async_": "write commit(), or commit_async() for one that is not waited for",
    "asynchronous": "write commit(), or commit_async() for one that is not waited for",
    "callback": "write commit_async(offsets, callback)",
    "message": "write commit({(record.topic, record.partition): record.offset + 1})",
}
IN_SEND: Final = {
    "callback": "write on_delivery=..., a function of (error, metadata)",
    "timestamp": "write timestamp_ms=..., in milliseconds",
}
IN_FLUSH: Final = {"timeout_ms": "write timeout=..., in seconds"}
IN_CLOSE: Final = {
    "timeout": "write flush(timeout=...) of a producer before it",
    "timeout_ms": "write flush(timeout=...) of a producer before it",
}
IN_CLOSE_OF_CONSUMERS: Final = {
    "autocommit": "write enable_auto_commit=False where the consumer is made",
    "timeout": "write timeout_ms=..., in milliseconds",
}
OF_MODULE: Final = {
    **dict.fromkeys(
        ("Admin", "AsyncAdmin", "ConfigResource", "NewPartitions", "NewTopic"),
        "import it from barnabas.admin",
    ),
    "KafkaAdminClient": "write `from barnabas.admin import Admin`",
    "AdminClient": "write `from barnabas.admin import Admin`",
    "AIOKafkaAdminClient": "write `from barnabas.admin import AsyncAdmin`",
    "AIOKafkaConsumer": "write AsyncConsumer",
    "AIOKafkaProducer": "write AsyncProducer",
    "ConsumerRebalanceListener": "give on_assigned=... and on_revoked=... to subscribe() of Consumer",
    "DeserializingConsumer": "give key_deserializer=... and value_deserializer=... to Consumer",
    "KafkaConsumer": "write Consumer",
    "KafkaException": "write KafkaError",
    "KafkaProducer": "write Producer",
    "KafkaTimeoutError": "write ClientTimeoutError",
    "Message": "write ConsumerRecord",
    "NoBrokersAvailable": "write ClientTimeoutError",
    "OFFSET_BEGINNING": "call seek_to_beginning() of Consumer",
    "OFFSET_END": "call seek_to_end() of Consumer",
    "SerializingProducer": "give key_serializer=... and value_serializer=... to Producer",
}
"""Names that are looked for in `barnabas.client`, and what to write."""
OF_ADMIN_MODULE: Final = {
    "AIOKafkaAdminClient": "write AsyncAdmin",
    "AdminClient": "write Admin",
    "KafkaAdminClient": "write Admin",
}
"""The same of `barnabas.admin`."""


def knows_arguments(habits: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of a method that answers these keyword arguments, each with its line, by a TypeError."""

    def decorated(method: Callable[P, R]) -> Callable[P, R]:
        kinds = [each.kind for each in inspect.signature(method).parameters.values()]
        most = kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)

        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name in habits:
                    raise TypeError(f"{method.__qualname__}() has no argument {name!r}: {habits[name]}")
            if len(args) > most and "*" in habits:
                raise TypeError(f"{method.__qualname__}() takes no {args[most]!r:.80} here: {habits['*']}")
            return method(*args, **kwargs)

        return call

    return decorated


def refuse(call: str, others: Iterable[str], habits: Mapping[str, str]) -> None:
    """The same for a method that `knows_arguments` would make slower: it takes all `others`. Raises
    TypeError.
    """
    for name in others:
        instead = f": {habits[name]}" if name in habits else ""
        raise TypeError(f"{call}() has no argument {name!r}{instead}")

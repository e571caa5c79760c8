"""The JSON files of kafka-reassign-partitions.sh, kafka-leader-election.sh and kafka-delete-records.sh.

::

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any",
    "any"]}]} {"version": 1, "topics": [{"topic": "orders"}]} {"partitions": [{"topic": "orders", "partition":
    0}]} {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 3}]}

Everything that a file may have wrong raises `BadJsonError` with the words of Kafka's parser.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.admin import TopicPartitionReplica
from barnabas.cli.options import INT_MAX, LONG_MAX
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import TopicPartition
from barnabas.operations.java_order import partition_order
from barnabas.operations.reassignment_plan import Assignment, duplicates

T = TypeVar("T")

ANY_LOG_DIR: Final = "any"
_VERSION: Final = 1
_SHOWN_MAX: Final = 200


class BadJsonError(BarnabasError):
    """A file is not JSON, or not what its reader expects."""


def text_of(path: str) -> str:
    """The text of a file; raises BadJsonError with its path when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise BadJsonError(f"Unable to read file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise BadJsonError(f"{path} is not a text in UTF-8") from None


class ReassignmentPlan(NamedTuple):
    """What the file of a reassignment says."""

    targets: list[tuple[TopicPartition, list[int]]]
    """The replicas of partitions in the file's order, each as often as it stands there."""
    log_dirs: dict[TopicPartitionReplica, str]
    """The log directories that replicas are to be in, of those for which any will not do."""


def parse_reassignment(text: str) -> ReassignmentPlan:
    """Replicas, and their log directories."""
    whole = _object(_parsed(text))
    _check_version(whole)
    plan = ReassignmentPlan([], {})
    for each in _list(whole.get("partitions", [])):
        fields = _object(each)
        tp = _partition(fields)
        replicas = [_integer(one) for one in _list(_field(fields, "replicas"))]
        directories = [_string(one) for one in _list(fields.get("log_dirs", [ANY_LOG_DIR] * len(replicas)))]
        if len(directories) != len(replicas):
            raise BadJsonError(
                f"Size of replicas list {replicas} is different from size of log dirs list"
                f" [{', '.join(directories)}] for partition {tp}"
            )
        plan.targets.append((tp, replicas))
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_LOG_DIR:
                plan.log_dirs[TopicPartitionReplica(broker, tp.topic, tp.partition)] = directory
    return plan


def parse_topics(text: str) -> list[str]:
    """The names of the topics to move, each as often as it stands there."""
    whole = _object(_parsed(text))
    _check_version(whole)
    return [_string(_field(_object(each), "topic")) for each in _list(whole.get("topics", []))]


def parse_election(text: str) -> list[TopicPartition]:
    """The partitions that are to get leaders."""
    whole = _object(_parsed(text))
    if "partitions" not in whole:
        raise BadJsonError('Replica election data is missing "partitions" field')
    partitions = [_partition(_object(each)) for each in _list(whole["partitions"])]
    if repeated := duplicates(partitions):
        raise BadJsonError(
            f"Replica election data contains duplicate partitions: [{', '.join(map(str, repeated))}]"
        )
    return partitions


def parse_deletion(text: str) -> dict[TopicPartition, int]:
    """Up to which offsets records are to be deleted, in the file's order."""
    whole = _object(_parsed(text))
    _check_version(whole)
    if "partitions" not in whole:
        raise BadJsonError("Missing partitions field")
    entries = [
        (_partition(fields), _long(_field(fields, "offset")))
        for fields in map(_object, _list(whole["partitions"]))
    ]
    if repeated := duplicates(tp for tp, _ in entries):
        named = ",".join(map(str, partition_order(repeated)))
        raise BadJsonError(f"Offset json file contains duplicate topic partitions: {named}")
    return dict(entries)


def format_reassignment(assignment: Assignment) -> str:
    """A reassignment as the script prints it, sorted: the text is a file for it."""
    partitions = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for tp, replicas in sorted(assignment.items())
    ]
    return json.dumps(
        {"version": _VERSION, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadJsonError(f"The input string is not a valid JSON: {error}") from None


def _check_version(whole: Mapping[str, Any]) -> None:
    version = _integer(whole.get("version", _VERSION))
    if version != _VERSION:
        raise BadJsonError(f"Not supported version field value {version}")


def _partition(fields: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(_string(_field(fields, "topic")), _integer(_field(fields, "partition")))


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise BadJsonError(f"No such field exists: `{name}`")
    return fields[name]


def _expecting(what: str, is_one: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not is_one(value):
            shown = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            raise BadJsonError(f"Expected {what}, received {shown[:_SHOWN_MAX]}")
        return value

    return checked


_object: Final = _expecting("JSON object", lambda value: isinstance(value, dict))
_list: Final = _expecting("JSON array", lambda value: isinstance(value, list))
_string: Final = _expecting("`String` value", lambda value: isinstance(value, str))


def _whole_number(largest: int) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and -largest - 1 <= value <= largest
    )


_integer: Final = _expecting("`Integer` value", _whole_number(INT_MAX))
_long: Final = _expecting("`Long` value", _whole_number(LONG_MAX))

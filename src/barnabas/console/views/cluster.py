"""What is asked of the cluster when it is looked at: all configurations, explanations, transactions, the
store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from barnabas.admin import AsyncAdmin, ConfigResource, CoordinatorType
from barnabas.cluster.store import tree
from barnabas.cluster.store.contract import NoNodeError, Stat
from barnabas.console.console import NotHereError
from barnabas.console.figure import Figure, figure, unread
from barnabas.console.health.machines import differences
from barnabas.console.snapshot import ClusterChange, ClusterSnapshot
from barnabas.console.views.brokers import ConfigRow, config_rows
from barnabas.console.views.live import LiveView, state_of
from barnabas.console.watched import WatchedCluster
from barnabas.operations import coordinator_explanation, partition_stations, transaction_explanation
from barnabas.operations.coordinator_stations import visit
from barnabas.operations.errors import OperationError
from barnabas.operations.own_configs import own_source
from barnabas.operations.store_reader import StoreReader, decoded
from barnabas.operations.transaction_stations import look as look_at_transaction

TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class ConfigsView(LiveView):
    """The configuration of a topic or a broker, whole."""

    kind: str
    name: str
    configs: Sequence[ConfigRow]


@dataclass(frozen=True, slots=True)
class DifferencesView:
    """Keys that differ between brokers, and topics with values of their own."""

    differences: dict[str, str]
    overridden: dict[str, Sequence[str]]
    """``KEY=VALUE`` of the watched keys that a topic sets itself."""


@dataclass(frozen=True, slots=True)
class Explanation(LiveView):
    """Stations, each with what is there; the last one says what follows."""

    subject: str
    stations: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ControllerView:
    """The controller, and what has changed since the console looks."""

    controller: Figure
    endpoint: str | None
    changes: Sequence[ClusterChange]
    """Of controllers, brokers, leaders and in-sync replicas, the newest first."""
    reassignments: Sequence[str]
    reassignments_unread: str | None
    """Why it is not known what moves."""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class TransactionsView:
    """All transactional ids, those with something open first."""

    transactions: Sequence[TransactionRow]
    state: Figure
    """How many there are."""


@dataclass(frozen=True, slots=True)
class ZnodeView(LiveView):
    """A znode, decoded, and the names below it; null where these are not known."""

    path: str
    value: Any
    children: Sequence[str]
    version: int | None
    czxid: int | None
    mzxid: int | None
    modified_ms: int | None
    ephemeral_owner: int | None


async def configs(watched: WatchedCluster, kind: str, name: str) -> ConfigsView:
    """All keys with documentation, as the cluster says them now. Raises KafkaError, OperationError."""
    if kind not in {"topic", "broker"}:
        raise OperationError("configurations are those of a topic or a broker")
    if kind == "broker" and not (name.isascii() and name.isdigit() and len(name) < 11):
        raise OperationError(f"{name!r} is no id of a broker")
    resource = ConfigResource.topic(name) if kind == "topic" else ConfigResource.broker(int(name))

    async def ask(admin: AsyncAdmin) -> list[ConfigRow]:
        found = await admin.configs.describe(resource, documentation=True, timeout_ms=TIMEOUT_MS)
        return config_rows(found[resource])

    answer = await watched.ask(("configs", kind, name), ask)
    rows = answer.reading.value or []
    return ConfigsView(state_of(answer, len(rows)), answer.is_pending, kind, name, rows)


def config_differences(snapshot: ClusterSnapshot) -> DifferencesView:
    """What differs."""
    own = own_source(ConfigResource.topic(""))
    overridden = {
        name: [f"{key}={one.value}" for key, one in (reading.value or {}).items() if one.source is own]
        for name, reading in sorted(snapshot.topic_configs.items())
    }
    return DifferencesView(differences(snapshot), {name: keys for name, keys in overridden.items() if keys})


async def explain(watched: WatchedCluster, kind: str, name: str) -> Explanation:
    """Why this coordinator (of a group or a transactional id), why this leader (of TOPIC-PARTITION), where a
    transaction stands. Raises KafkaError, OperationError.
    """
    subjects = {
        "coordinator": f"the coordinator of group {name}",
        "partition": f"partition {name}",
        "transaction": f"transaction {name}",
    }
    if kind not in subjects:
        raise OperationError("what is explained is a coordinator, a partition or a transaction")
    topic, _, number = name.rpartition("-")
    if kind == "partition" and not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise OperationError(f"{name!r} is no TOPIC-PARTITION")

    async def ask(admin: AsyncAdmin) -> Sequence[tuple[str, str]]:
        if kind == "coordinator":
            found = await visit(admin, name, CoordinatorType.GROUP, create=False, timeout_ms=TIMEOUT_MS)
            return coordinator_explanation.lines(found)
        if kind == "partition":
            stations = await partition_stations.look(admin, topic, int(number), None, TIMEOUT_MS)
            return partition_stations.lines(stations)
        transaction = await look_at_transaction(admin, name, None, TIMEOUT_MS)
        return transaction_explanation.lines(transaction)

    answer = await watched.ask(("explain", kind, name), ask)
    stations = answer.reading.value or []
    return Explanation(state_of(answer, len(stations)), answer.is_pending, subjects[kind], stations)


def controller(snapshot: ClusterSnapshot, now_ms: int) -> ControllerView:
    """The controller."""
    cluster = snapshot.cluster.value
    one = cluster.controller if cluster else None
    moving = [
        f"{tp}: {','.join(map(str, each.replicas))}, adding {','.join(map(str, each.adding)) or 'none'},"
        f" removing {','.join(map(str, each.removing)) or 'none'}"
        for tp, each in sorted((snapshot.reassignments.value or {}).items())
    ]
    return ControllerView(
        figure(snapshot.cluster, now_ms, "none" if one is None else f"broker {one.node_id}"),
        f"{one.host}:{one.port}" if one else None,
        list(reversed(snapshot.changes)),
        moving,
        unread(snapshot.reassignments, now_ms),
    )


def transactions(snapshot: ClusterSnapshot, now_ms: int) -> TransactionsView:
    """All transactional ids."""
    found = sorted(
        snapshot.transactions.value or (),
        key=lambda one: (
            str(one.state) in {"Empty", "CompleteCommit", "CompleteAbort"},
            one.transactional_id,
        ),
    )
    rows = [
        TransactionRow(one.transactional_id, one.producer_id, str(one.state), one.coordinator_id)
        for one in found
    ]
    return TransactionsView(rows, figure(snapshot.transactions, now_ms, len(rows)))


async def znode(watched: WatchedCluster, path: str) -> ZnodeView:
    """A znode of the cluster's metadata store. Raises OperationError, NotHereError."""
    try:
        tree.check_path(path)
    except ValueError as error:
        raise OperationError(str(error)) from error

    async def look(reader: StoreReader) -> tuple[Any, Stat, list[str]]:
        try:
            data, stat = await reader.get(path)
            children = await reader.children(path)
        except NoNodeError as error:
            raise NotHereError(f"there is no znode {path}") from error
        return _without_secrets(path, decoded(data)), stat, children

    answer = await watched.ask_store(("store", path), look)
    if answer.reading.value is None:
        state = state_of(answer, 0)
        return ZnodeView(state, answer.is_pending, path, None, [], None, None, None, None, None)
    value, stat, children = answer.reading.value
    return ZnodeView(
        state_of(answer, len(children)),
        answer.is_pending,
        path,
        value,
        children,
        stat.version,
        stat.czxid,
        stat.mzxid,
        stat.modified_ms,
        stat.ephemeral_owner,
    )


_HIDDEN = "hidden"


def _without_secrets(path: str, value: Any) -> Any:
    """The value without credentials: SCRAM's stand in /config/users, and brokers may keep encrypted passwords
    in /config/brokers. The znode of a token has no secret.
    """
    # Anywhere in the path: --zookeeper may leave out the chroot of the cluster.
    is_config = any(each in path for each in ("/config/users/", "/config/brokers/", "/config/clients/"))
    if is_config and isinstance(value, dict):
        config = value.get("config")
        if isinstance(config, dict):
            shown = {key: _HIDDEN if _is_secret(key) else one for key, one in config.items()}
            return {**value, "config": shown}
    return value


def _is_secret(key: str) -> bool:
    return key.startswith("SCRAM-") or any(
        word in key.lower() for word in ("password", "secret", "jaas", ".key")
    )

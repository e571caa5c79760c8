"""The table of what is shown of a cluster, and the views' parameters as HTTP brings them."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from fastapi import Depends, Query, Request
from pydantic import BeforeValidator

from barnabas.console.access.roles import EVERY, Need, ResourceKind
from barnabas.console.console import Console, NotHereError
from barnabas.console.health.verdict import Verdict
from barnabas.console.views import brokers as broker_views
from barnabas.console.views import clients as client_views
from barnabas.console.views import cluster as cluster_views
from barnabas.console.views import groups as group_views
from barnabas.console.views import history as history_views
from barnabas.console.views import lag_rules as lag_rule_views
from barnabas.console.views import messages as message_views
from barnabas.console.views import overview as overview_views
from barnabas.console.views import quorum as quorum_views
from barnabas.console.views import security as security_views
from barnabas.console.views import timeline as timeline_views
from barnabas.console.views import topics as topic_views
from barnabas.console.views.paging import SIZE_MAX
from barnabas.console.watched import WatchedCluster
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError
from barnabas.operations.messages import browse as browsing
from barnabas.operations.messages import filters
from barnabas.operations.messages.decoding import Choice

T = TypeVar("T")


def none_if_empty(value: Any) -> Any:
    """A field of a form that was left empty."""
    return None if value == "" else value


def console_of_request(request: Request) -> Console:
    """The console that answers."""
    console: Console = request.state.console
    return console


def cluster_of_request(
    cluster: str, request: Request, console: Annotated[Console, Depends(console_of_request)]
) -> WatchedCluster:
    """The cluster of the path, as far as whoever asks may see it. Raises NotHereError."""
    found = console.cluster(cluster)
    sight = getattr(request.state, "sight", None)
    return found if sight is None else found.seen_through(sight.cut, user_of(request))


def user_of(request: Request) -> str:
    """Who asks: the name that was signed in with, or the operator of a console on loopback; empty for who
    has not logged in where one must.
    """
    login = console_of_request(request).login
    return getattr(request.state, "user", "operator" if login is None else "")


Watched = Annotated[WatchedCluster, Depends(cluster_of_request)]
AddRoute: TypeAlias = Callable[..., None]
"""`FastAPI.add_api_route` of the application."""
Search = Annotated[str, Query(max_length=249, description="A part of the name.")]
Sort = Annotated[str, Query(max_length=30)]
Page = Annotated[int, Query(ge=1, le=1_000_000)]
Size = Annotated[int, Query(ge=1, le=SIZE_MAX, description="Rows of a page.")]


async def overview(watched: Watched) -> overview_views.Overview:
    """The cluster at a glance, with its verdict."""
    return overview_views.overview(watched, now_ms())


async def brokers(watched: Watched) -> broker_views.BrokersView:
    """The brokers, those that are missing included."""
    return broker_views.brokers(watched.snapshot, now_ms())


async def broker(watched: Watched, broker_id: int) -> broker_views.BrokerView:
    """A broker with its configuration, and where each value comes from."""
    return _there(broker_views.broker(watched.snapshot, broker_id, now_ms()), f"broker {broker_id}")


async def log_dirs(watched: Watched) -> broker_views.LogDirsView:
    """The log directories of all brokers."""
    return broker_views.log_dirs(watched.snapshot, now_ms())


async def topics(
    watched: Watched,
    search: Search = "",
    sort: Sort = "name",
    page: Page = 1,
    size: Size = 100,
    internal: bool = False,
) -> topic_views.TopicsView:
    """A page of topics; `sort` is name, partitions, size, rate or under_replicated."""
    return topic_views.topics(
        watched.snapshot,
        watched.trend,
        now_ms(),
        search=search,
        sort=sort,
        page=page,
        size=size,
        internal=internal,
    )


async def topic(watched: Watched, name: str, page: Page = 1, size: Size = 100) -> topic_views.TopicView:
    """A topic with its partitions, replicas, readers and configuration."""
    found = topic_views.topic(watched.snapshot, watched.trend, name, now_ms(), page=page, size=size)
    return _there(found, f"topic {name}")


async def groups(
    watched: Watched, search: Search = "", sort: Sort = "name", page: Page = 1, size: Size = 100
) -> group_views.GroupsView:
    """A page of groups; `sort` is name or lag."""
    return group_views.groups(
        watched.snapshot, watched.trend, now_ms(), search=search, sort=sort, page=page, size=size
    )


async def group(watched: Watched, name: str) -> group_views.GroupView:
    """A group with its members and its lag in each partition."""
    found = group_views.group(watched.snapshot, watched.trend, name, now_ms(), watched.pace.round_s)
    return _there(found, f"group {name}")


async def clients(
    watched: Watched, search: Search = "", sort: Sort = "name", page: Page = 1, size: Size = 100
) -> client_views.ClientsView:
    """Clients that push their metrics (KIP-714), by client id; `sort` is name, rate, latency, errors, lag or
    heard.
    """
    return client_views.clients(watched.snapshot, now_ms(), search=search, sort=sort, page=page, size=size)


async def client(
    watched: Watched, name: str, search: Search = "", page: Page = 1, size: Size = 100
) -> client_views.ClientView:
    """A client id with all that its clients push, by the names of KIP-714."""
    found = client_views.client(watched.snapshot, name, now_ms(), search=search, page=page, size=size)
    return _there(found, f"client {name} that pushes its metrics")


def lag_rules(
    watched: Watched,
    name: str,
    span: Annotated[str, Query(max_length=3, alias="range")] = "24h",
) -> lag_rule_views.LagRules:
    """A group's lag as Burrow's seven rules and a rule of ours judge it, over what was recorded."""
    return lag_rule_views.lag_rules(watched, name, span, now_ms())


async def health(watched: Watched) -> Verdict:
    """The verdict with all checks: level, number, limit, and what they are about."""
    return watched.verdict(now_ms())


def history(
    watched: Watched,
    kind: Literal["cluster", "broker", "topic", "group", "check"] = "cluster",
    subject: Annotated[str, Query(max_length=1000)] = "",
    span: Annotated[str, Query(max_length=3, alias="range")] = history_views.DEFAULT_RANGE,
) -> history_views.HistoryView:
    """What is remembered of a cluster, a broker, a topic, a group or a check; `range` is 1h, 6h, 24h, 7d,
    30d or 90d.
    """
    return history_views.history(watched, now_ms(), kind=kind, subject=subject, span=span)


def timeline(
    request: Request,
    watched: Watched,
    console: Annotated[Console, Depends(console_of_request)],
    kind: Annotated[str, Query(max_length=200)] = "",
    resource: Annotated[str, Query(max_length=500)] = "",
    start: Annotated[str, Query(max_length=30)] = "-24h",
    end: Annotated[str, Query(max_length=30)] = "",
    count: Annotated[int, Query(ge=1, le=timeline_views.COUNT_MAX)] = 200,
    positions: Annotated[str | None, Query(max_length=50)] = None,
) -> timeline_views.TimelineView:
    """What happened: changes of leaders, in-sync replicas, configurations and groups, actions, alerts.
    `kind` has kinds with commas; `start` and `end` are milliseconds, or hours, days or minutes before now
    such as -24h.
    """
    now = now_ms()
    wanted = timeline_views.TimelineQuery(
        timeline_views.time_of(start or "-24h", now),
        timeline_views.time_of(end, now) if end else now,
        frozenset(one.strip() for one in kind.split(",") if one.strip()),
        resource,
        count,
        positions,
    )
    sight = getattr(request.state, "sight", None)
    may_audit = sight is None or sight.grants.give(watched.name, Need(ResourceKind.AUDIT, EVERY))
    return timeline_views.of_cluster(watched, wanted, console.audit if may_audit else None)


async def controller(watched: Watched) -> cluster_views.ControllerView:
    """The controller, what has changed since the console looks, and partitions that move."""
    return cluster_views.controller(watched.snapshot, now_ms())


async def transactions(watched: Watched) -> cluster_views.TransactionsView:
    """All transactional ids, those with something open first."""
    return cluster_views.transactions(watched.snapshot, now_ms())


async def hanging(watched: Watched) -> quorum_views.HangingView:
    """Open transactions that no coordinator will end; all partitions are asked for it."""
    return await quorum_views.hanging(watched)


async def quorum(watched: Watched) -> quorum_views.QuorumView:
    """KRaft's quorum: voters and observers, how far each has come, epochs."""
    return await quorum_views.quorum(watched)


async def users(watched: Watched) -> security_views.UsersView:
    """Users with SCRAM credentials in the cluster."""
    return await security_views.users(watched)


async def acls(watched: Watched) -> security_views.AclsView:
    """Access rules."""
    return await security_views.acls(watched)


async def quotas(watched: Watched) -> security_views.QuotasView:
    """Quotas of users, client ids and addresses."""
    return await security_views.quotas(watched)


async def tokens(watched: Watched) -> security_views.TokensView:
    """Delegation tokens, without their secrets."""
    return await security_views.tokens(watched)


async def differences(watched: Watched) -> cluster_views.DifferencesView:
    """Keys that differ between brokers, and values that topics set themselves."""
    return cluster_views.config_differences(watched.snapshot)


async def configs(watched: Watched, kind: str, name: str) -> cluster_views.ConfigsView:
    """All keys of a topic or a broker, as the cluster says them now, with their documentation."""
    return await cluster_views.configs(watched, kind, name)


async def explain(watched: Watched, kind: str, name: str) -> cluster_views.Explanation:
    """Why this coordinator (of a group), why this leader (of TOPIC-PARTITION), where a transaction stands."""
    return await cluster_views.explain(watched, kind, name)


async def store(
    watched: Watched, path: Annotated[str, Query(max_length=1000)] = "/"
) -> cluster_views.ZnodeView:
    """A znode of the metadata store, decoded; credentials are hidden."""
    return await cluster_views.znode(watched, path)


async def messages(
    request: Request,
    watched: Watched,
    console: Annotated[Console, Depends(console_of_request)],
    topic: Annotated[str, Query(max_length=249)] = "",
    partition: Annotated[int | None, Query(ge=0), BeforeValidator(none_if_empty)] = None,
    start: Annotated[str, Query(max_length=30)] = "latest",
    positions: Annotated[str | None, Query(max_length=100_000)] = None,
    contains: Annotated[str, Query(max_length=1000)] = "",
    where: Literal["any", "key", "value", "header"] = "any",
    conditions: Annotated[str, Query(max_length=20_000, alias="filter")] = "",
    count: Annotated[int, Query(ge=1, le=browsing.COUNT_MAX)] = 50,
    committed_only: bool = False,
    key: Choice = "auto",
    value: Choice = "auto",
    follow: bool = False,
) -> message_views.ReadMessages | None:
    """Records of a topic, the ranges that were read, and where to go on. `filter` has conditions such as
    value.customer.id=42, one a line; `key` and `value` say how they are read; `follow` gives `next` at
    the end, too.
    """
    if not topic:
        if request.url.path.startswith("/api/"):
            raise OperationError("records are those of a topic: name it, as in /messages?topic=orders")
        return None  # the page has a form for it
    wanted = browsing.MessageQuery(
        topic,
        partition,
        start,
        positions,
        contains,
        where,
        filters.parsed(conditions),
        count,
        committed_only,
        follow,
    )
    return await message_views.messages(console, watched, wanted, key=key, value=value)


def _there(found: T | None, what: str) -> T:
    if found is None:
        raise NotHereError(f"there is no {what} in the cluster, as far as is known")
    return found


class Shown(NamedTuple):
    """A path below a cluster, the view, and the template of its page."""

    path: str
    view: Callable[..., Any]
    template: str


SHOWN: Final = (
    Shown("", overview, "overview.html"),
    Shown("/brokers", brokers, "brokers.html"),
    Shown("/brokers/{broker_id}", broker, "broker.html"),
    Shown("/topics", topics, "topics.html"),
    Shown("/topics/{name}", topic, "topic.html"),
    Shown("/groups", groups, "groups.html"),
    Shown("/groups/{name:path}", group, "group.html"),
    Shown("/lag-rules/{name:path}", lag_rules, "lag_rules.html"),
    Shown("/clients", clients, "clients.html"),
    Shown("/clients/{name:path}", client, "client.html"),
    Shown("/log-dirs", log_dirs, "log_dirs.html"),
    Shown("/messages", messages, "messages.html"),
    Shown("/health", health, "health.html"),
    Shown("/history", history, "history.html"),
    Shown("/timeline", timeline, "timeline.html"),
    Shown("/controller", controller, "controller.html"),
    Shown("/configs", differences, "differences.html"),
    Shown("/configs/{kind}/{name}", configs, "configs.html"),
    Shown("/explain/{kind}/{name:path}", explain, "explain.html"),
    Shown("/transactions", transactions, "transactions.html"),
    Shown("/transactions/hanging", hanging, "hanging.html"),
    Shown("/quorum", quorum, "quorum.html"),
    Shown("/users", users, "users.html"),
    Shown("/acls", acls, "acls.html"),
    Shown("/quotas", quotas, "quotas.html"),
    Shown("/tokens", tokens, "tokens.html"),
    Shown("/store", store, "store.html"),
)

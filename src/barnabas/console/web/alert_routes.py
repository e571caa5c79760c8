"""Alerts over REST, their page and its forms: rules, silences, what fires, and the rehearsal of a rule."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import BeforeValidator, TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from barnabas.console.actions.plans import Effect
from barnabas.console.alerts.book import AlertBook, Silence
from barnabas.console.alerts.rules import AlertRule, Incident, rehearse
from barnabas.console.history.history import ClusterHistory
from barnabas.console.watched import WatchedCluster
from barnabas.console.web.action_routes import HereConsole, first_of, json_routes, sent_form
from barnabas.console.web.routes import AddRoute, Watched, none_if_empty, user_of
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError

REHEARSED_MS: Final = 30 * 86_400_000
_SERIES_MAX: Final = 50
_INCIDENTS_MAX: Final = 100
_SILENCE_S_MAX: Final = 30 * 86_400


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a rule would have done in the last 30 days."""

    rule: AlertRule
    fired: int
    incidents: Sequence[Incident]
    """The newest first, at most 100."""
    series: int
    """How many series it watches now."""
    left_out: int
    """Series beyond those that were rehearsed."""
    samples: int
    from_ms: int | None
    """The oldest sample."""


@dataclass(frozen=True, slots=True)
class AlertsView:
    """The alerts of a cluster."""

    rules: Sequence[AlertRule]
    silences: Sequence[Silence]
    firing: Sequence[Incident]
    past: Sequence[Incident]
    rehearsal: Rehearsal | None
    problem: str | None
    """Why incidents are not kept, or notices do not arrive."""
    notices: bool
    """Whether a webhook or a mailbox is told."""


@dataclass(frozen=True, slots=True)
class SilenceRequest:
    """How long a rule is to tell nobody."""

    rule: str
    for_s: int
    why: str = ""


def _book(watched: WatchedCluster) -> AlertBook:
    if watched.alerts is None:
        raise OperationError("this console has no alerts")
    return watched.alerts


def alerts(
    watched: Watched,
    series: Annotated[str, Query(max_length=1000)] = "",
    when: Literal["above", "below"] = "above",
    limit: Annotated[float | None, Query(), BeforeValidator(none_if_empty)] = None,
    for_s: Annotated[int, Query(ge=0)] = 300,
) -> AlertsView:
    """Rules, silences, what fires and what has fired; with `series` and `limit` a rehearsal over 30 days."""
    book = _book(watched)
    tried = None
    if series and limit is not None:
        tried = rehearsed(watched, AlertRule("rehearsal", series, limit, when, for_s))
    return AlertsView(
        list(book.rules.values()),
        list(book.silences.values()),
        book.firing(),
        book.past(),
        tried,
        book.problem or book.notifier.problem,
        not book.notifier.addresses.is_empty,
    )


def rehearsed(watched: WatchedCluster, rule: AlertRule) -> Rehearsal:
    """What the rule would have done. Raises OperationError where it can watch nothing, NotAnsweredError while
    the history is looked through for somebody else.
    """
    rule.check()
    history = watched.history
    assert history is not None, "a cluster with alerts has a history"
    with history.study():
        return _rehearsal(watched.name, history, rule)


def _rehearsal(cluster: str, history: ClusterHistory, rule: AlertRule) -> Rehearsal:
    names = [one for one in history.series() if rule.watches(one)]
    tried, end_ms = names[:_SERIES_MAX], now_ms()
    newest: list[Incident] = []
    fired, count, first = 0, 0, None
    series = {name: (name,) for name in tried}
    for name, (points,) in history.points_by(series, end_ms - REHEARSED_MS, end_ms):
        count += len(points)
        if points:
            first = min(points[0][0], first or points[0][0])
        found = rehearse(rule, cluster, name, points)
        fired += len(found)
        newest = heapq.nlargest(_INCIDENTS_MAX, newest + found, key=lambda one: one.fired_ms)
    return Rehearsal(rule, fired, newest, len(names), len(names) - len(tried), count, first)


def rest(add: AddRoute, prefix: str) -> None:
    """Adds the routes below a cluster of the API that change rules."""
    asks = json_routes("alerts")
    add(f"{prefix}/alerts/rules", put_rule, **asks)
    add(f"{prefix}/alerts/rules/remove", remove_rule, **asks)
    add(f"{prefix}/alerts/rehearsal", rehearse_rule, **asks)
    add(f"{prefix}/alerts/silences", silence_rule, **asks)


def pages(add: AddRoute, prefix: str) -> None:
    """Adds the forms of the page below a cluster: they do what REST does, and lead back to the page."""

    def form(path: str, kind: type[Any], work: Callable[..., Any]) -> None:
        async def sent(request: Request, console: HereConsole, watched: Watched) -> Response:
            given = await sent_form(request, console)
            try:
                wanted = TypeAdapter(kind).validate_python(given)
            except ValidationError as error:
                raise OperationError(first_of(error)) from error
            # It waits for the disk, and for others who change one.
            await run_in_threadpool(work, request, console, watched, wanted)
            return RedirectResponse(f"/c/{watched.name}/alerts", 303)

        add(f"{prefix}/alerts/{path}", sent, methods=["POST"])

    form("rules", AlertRule, put_rule)
    form("rules/remove", RuleName, remove_rule)
    form("silences", SilenceRequest, silence_rule)


def put_rule(request: Request, console: HereConsole, watched: Watched, rule: AlertRule) -> AlertRule:
    """Keeps a rule, in place of one of the same name."""
    rule.check()
    book = _book(watched)
    with book.editing():
        effects = [Effect(rule.name, _said(book.rules.get(rule.name)), _said(rule))]
        with console.audit.change(watched.name, user_of(request), "put-alert-rule", rule.name, effects):
            return book.put(rule)


def _said(rule: AlertRule | None) -> str:
    if rule is None:
        return "none"
    return f"{rule.series} {rule.when} {rule.limit:g} for {rule.for_s} s"


def rehearse_rule(watched: Watched, rule: AlertRule) -> Rehearsal:
    """What a rule would have done in the last 30 days; it is not kept."""
    _book(watched)
    return rehearsed(watched, rule)


@dataclass(frozen=True, slots=True)
class RuleName:
    """A rule by its name."""

    name: str


def remove_rule(request: Request, console: HereConsole, watched: Watched, rule: RuleName) -> dict[str, Any]:
    """Forgets a rule."""
    book = _book(watched)
    with book.editing():
        effects = [Effect(rule.name, _said(book.rules.get(rule.name)), "none")]
        with console.audit.change(watched.name, user_of(request), "remove-alert-rule", rule.name, effects):
            book.remove(rule.name)
    return {"removed": rule.name}


def silence_rule(request: Request, console: HereConsole, watched: Watched, wanted: SilenceRequest) -> Silence:
    """No notices of a rule for so many seconds; 0 ends a silence."""
    if not 0 <= wanted.for_s <= _SILENCE_S_MAX or len(wanted.why) > 500:
        raise OperationError(f"a silence is of 0 to {_SILENCE_S_MAX} s, its reason of up to 500 characters")
    book, user = _book(watched), user_of(request)
    silence = Silence(wanted.rule, now_ms() + wanted.for_s * 1000, user, wanted.why)
    with book.editing():
        effects = [Effect(wanted.rule, _until(book.silences.get(wanted.rule)), _until(silence))]
        with console.audit.change(watched.name, user, "silence-alert-rule", wanted.rule, effects):
            return book.silence(silence)


def _until(silence: Silence | None) -> str:
    return "not silent" if silence is None else f"silent until {silence.until_ms} ms: {silence.why}"

"""The routes of actions: a preview, its confirmation, the audit log; below the API and as forms."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import parse_qs

from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from barnabas.console.access.check import require
from barnabas.console.access.rules import action_needs
from barnabas.console.actions.audit import AuditEntry
from barnabas.console.actions.kinds import KINDS, ActionKind
from barnabas.console.actions.plans import Effect, Preview
from barnabas.console.actions.records import PRODUCER
from barnabas.console.actions.topics import BrokerDefault
from barnabas.console.console import Console, ForbiddenError, NotHereError
from barnabas.console.questions import NotAnsweredError
from barnabas.console.snapshot import ClusterSnapshot
from barnabas.console.watched import WatchedCluster
from barnabas.console.web.guard import is_form_token
from barnabas.console.web.routes import AddRoute, Watched, console_of_request, user_of
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError

HereConsole = Annotated[Console, Depends(console_of_request)]
_JSON: Final = "application/json"
_UNSAID: Final = frozenset({"the default", "hidden"})
"""What a preview says in the place of a value."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The preview's subject, typed again."""

    confirm: str


@dataclass(frozen=True, slots=True)
class Done:
    """What was done."""

    plan: str
    kind: str
    subject: str
    effects: list[Effect]
    note: str = ""
    """Where a record is that was produced."""


async def plan(console: Console, watched: WatchedCluster, kind: str, user: str, wanted: Any) -> Preview:
    """The preview of a change. Raises ForbiddenError, OperationError, KafkaError, and NotAnsweredError where
    it takes longer than a page: who asks for the same again gets it, or why there is none.
    """
    check_allowed(console)
    needs = action_needs(kind, wanted)
    require(console, user, watched.name, needs)
    # Of each user alone, and given once: what a plan does is what its reader has seen.
    key = ("plan", user, kind, json.dumps(asdict(wanted), sort_keys=True))
    asker = "" if console.login is None else user
    answer = await watched.ask(key, lambda admin: KINDS[kind].plan(admin, wanted), once=True, asker=asker)
    planned = answer.reading.value
    if planned is None and answer.is_pending:
        raise NotAnsweredError(f"{answer.reading.error}: nothing was done; ask for the preview again")
    if planned is None:
        raise NotAnsweredError(f"there is no preview: {answer.reading.error}; nothing was done")
    return console.plans.keep(watched.name, kind, user, planned, now_ms(), needs)


async def carry_out(console: Console, watched: WatchedCluster, plan_id: str, user: str, confirm: str) -> Done:
    """Does what a preview says, once. Raises ForbiddenError, OperationError, KafkaError."""
    check_allowed(console)
    # What they may do may have changed since the preview.
    require(console, user, watched.name, console.plans.needs(plan_id))
    found = console.plans.take(plan_id, watched.name, user, confirm, now_ms())
    console.audit.write(found, "begun", now_ms())
    note, produce = "", found.planned.produce
    try:
        if produce is None:
            await watched.use(found.planned.carry_out)
        else:
            note = await watched.produce(produce, **PRODUCER)
    except Exception as error:  # a bug of ours is written down, too
        console.audit.write(found, "failed", now_ms(), str(error) or type(error).__name__)
        raise
    try:
        console.audit.write(found, "done", now_ms())
    except OperationError as error:
        raise OperationError(f"it was done, but {error}") from error
    seen = found.preview
    return Done(seen.id, seen.kind, seen.subject, list(seen.effects), note)


async def undo(console: Console, watched: WatchedCluster, plan_id: str, user: str) -> Preview:
    """The preview of what takes a change back that stands in the audit log. Raises ForbiddenError,
    OperationError, KafkaError.
    """
    check_allowed(console)
    entry = await run_in_threadpool(console.audit.done, watched.name, plan_id)
    if entry is None or entry.undo is None:
        raise OperationError(
            "there is nothing to take back: no such change was done, or nothing takes back what it did"
        )
    kind = entry.undo.kind
    try:
        wanted = TypeAdapter(_action(kind).parameters).validate_python(entry.undo.parameters)
    except ValidationError as error:
        raise OperationError(f"the audit log does not say how: {first_of(error)}") from error
    found = await plan(console, watched, kind, user, wanted)
    left = {one.subject: one.after for one in entry.effects if one.after not in _UNSAID}
    changed = [
        f"{one.subject} was changed since: it was {left[one.subject]}, it is {one.before}"
        for one in found.effects
        if one.subject in left and left[one.subject] != one.before
    ]
    return replace(found, warnings=[*found.warnings, *changed])


def check_allowed(console: Console) -> None:
    """Raises ForbiddenError where nothing is changed from."""
    if not console.allow_changes:
        raise ForbiddenError("this console changes nothing: it was started without --allow-changes")


def rest(add: AddRoute, prefix: str) -> None:
    """Adds the routes below a cluster of the API."""
    asks = json_routes("actions")
    for kind, action in KINDS.items():
        add(f"{prefix}/actions/{kind}", _preview_of(kind, action), summary=action.title, **asks)
    add(f"{prefix}/plans/{{plan_id}}", _confirmed, summary="Carry a preview out", **asks)
    add(f"{prefix}/audit/{{plan_id}}/undo", _undone, summary="Preview what takes a change back", **asks)


def json_routes(tag: str) -> dict[str, Any]:
    """Of routes that change something: a body must say that it is JSON, which a form of another site
    cannot.
    """
    return {"methods": ["POST"], "dependencies": [Depends(is_json)], "tags": [tag]}


async def _undone(request: Request, console: HereConsole, watched: Watched, plan_id: str) -> Preview:
    """Answers a preview of what takes back a change of the audit log; nothing is done yet."""
    return await undo(console, watched, plan_id, user_of(request))


def is_json(request: Request) -> None:
    """Raises OperationError where a body does not say that it is JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise OperationError(f"the body is {_JSON}, and says so")


def _preview_of(kind: str, action: ActionKind) -> Callable[..., Any]:
    async def preview(request: Request, console: HereConsole, watched: Watched, wanted: Any) -> Preview:
        return await plan(console, watched, kind, user_of(request), wanted)

    preview.__annotations__["wanted"] = action.parameters
    preview.__name__ = kind.replace("-", "_")
    preview.__doc__ = f"{action.parameters.__doc__} Answers a preview; nothing is done yet."
    return preview


async def _confirmed(
    request: Request, console: HereConsole, watched: Watched, plan_id: str, body: Confirmation
) -> Done:
    """Does what a preview says, once; the body repeats its subject."""
    return await carry_out(console, watched, plan_id, user_of(request), body.confirm)


def audit(console: HereConsole, watched: Watched) -> list[AuditEntry]:
    """Who did what, the newest first."""
    return console.audit.entries(watched.name)


# --- forms


@dataclass(frozen=True, slots=True)
class FormField:
    """An input of a form."""

    name: str
    label: str
    kind: str
    value: str
    choices: tuple[str, ...] = ()
    hint: str = ""


def form_fields(action: ActionKind, given: dict[str, str], snapshot: ClusterSnapshot) -> list[FormField]:
    """The inputs of an action's parameters, with what is given or the defaults."""
    hints = get_type_hints(action.parameters)
    annotated = get_type_hints(action.parameters, include_extras=True)
    areas = getattr(action.parameters, "AREAS", ("configs", "positions"))
    found = []
    for one in fields(action.parameters):
        hint = hints[one.name]
        default = one.default if isinstance(one.default, str | int) else ""
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        # A password comes from a person, never from a link.
        is_secret = one.name == "password"
        kind = "select" if choices else "password" if is_secret else "number" if hint is int else "text"
        label = one.name.replace("_", " ").capitalize()
        found.append(
            FormField(one.name, label, "area" if one.name in areas else kind,
                      "" if is_secret else given.get(one.name, str(default)), choices,
                      _hint(getattr(annotated[one.name], "__metadata__", ()), snapshot))
        )  # fmt: skip
    return found


def _hint(metadata: tuple[Any, ...], snapshot: ClusterSnapshot) -> str:
    """What a parameter's annotation says of it, for whoever fills the form in."""
    for one in metadata:
        if isinstance(one, BrokerDefault):
            return f"-1: the cluster's default, {one.key}, {_default_of(one.key, snapshot)}"
    return next((one.description for one in metadata if getattr(one, "description", None)), "")


def _default_of(key: str, snapshot: ClusterSnapshot) -> str:
    """What the brokers have for a key, as far as it was read."""
    values = {
        entries[key].value or "null"
        for reading in snapshot.broker_configs.values()
        if (entries := reading.value) and key in entries
    }
    if not values:
        return "which is not known"
    return f"now {', '.join(sorted(values))}" + (", as brokers differ" if len(values) > 1 else "")


def pages(add: AddRoute, prefix: str, render: Callable[..., Response]) -> None:
    """Adds the forms below a cluster; `render` draws a template."""

    async def form(request: Request, watched: Watched, kind: str) -> Response:
        action = _action(kind)
        given = form_fields(action, dict(request.query_params), watched.snapshot)
        return render(request, "action.html", action=action, kind=kind, fields=given, why=None)

    async def preview(request: Request, console: HereConsole, watched: Watched, kind: str) -> Response:
        action, given = _action(kind), await sent_form(request, console)
        try:
            wanted = TypeAdapter(action.parameters).validate_python(given)
        except ValidationError as error:
            raise OperationError(first_of(error)) from error
        try:
            found = await plan(console, watched, kind, user_of(request), wanted)
        except NotAnsweredError as error:
            # The form as it was sent, so that it can be sent again.
            again = form_fields(action, given, watched.snapshot)
            return render(request, "action.html", 503, action=action, kind=kind, fields=again, why=str(error))
        return render(request, "preview.html", action=action, preview=found)

    async def confirm(request: Request, console: HereConsole, watched: Watched, plan_id: str) -> Response:
        given = await sent_form(request, console)
        done = await carry_out(console, watched, plan_id, user_of(request), given.get("confirm", ""))
        return render(request, "done.html", done=done)

    async def taken_back(request: Request, console: HereConsole, watched: Watched, plan_id: str) -> Response:
        await sent_form(request, console)
        found = await undo(console, watched, plan_id, user_of(request))
        return render(request, "preview.html", action=_action(found.kind), preview=found)

    add(f"{prefix}/actions/{{kind}}", form, methods=["GET"])
    add(f"{prefix}/actions/{{kind}}", preview, methods=["POST"])
    add(f"{prefix}/plans/{{plan_id}}", confirm, methods=["POST"])
    add(f"{prefix}/audit/{{plan_id}}/undo", taken_back, methods=["POST"])


def _action(kind: str) -> ActionKind:
    if kind not in KINDS:
        raise NotHereError(f"there is no action {kind!r}; there are {', '.join(KINDS)}")
    return KINDS[kind]


def first_of(error: ValidationError) -> str:
    """What is wrong with the first parameter that is."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


async def sent_form(request: Request, console: Console) -> dict[str, str]:
    """The fields of a form of ours. Raises ForbiddenError where it does not carry our token,
    OperationError where it is none.
    """
    body = (await request.body()).decode(errors="replace")
    try:
        found = parse_qs(body, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise OperationError("a form has at most 50 fields") from None
    # A browser ends the lines of a text as a form does, not as its writer did.
    given = {name: values[-1].replace("\r\n", "\n") for name, values in found.items()}
    if not is_form_token(console.secret, user_of(request), given.pop("token", "")):
        raise ForbiddenError(
            "this form is from before the console's start: go back, load the page, try again"
        )
    return given

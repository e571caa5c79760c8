"""The limits of checks over REST and as a form: who changes one is written down first."""

from dataclasses import dataclass

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from barnabas.console.actions.plans import Effect
from barnabas.console.console import Console
from barnabas.console.watched import WatchedCluster
from barnabas.console.web.action_routes import HereConsole, json_routes, sent_form
from barnabas.console.web.routes import AddRoute, Watched, user_of
from barnabas.operations.errors import OperationError


@dataclass(frozen=True, slots=True)
class LimitChange:
    """The limit of a check by its key; none brings the former one back."""

    check: str
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class LimitChanged:
    """What a limit was and is."""

    check: str
    before: float
    after: float


def rest(add: AddRoute, prefix: str) -> None:
    """Adds the route below a cluster of the API."""
    add(f"{prefix}/health/limits", put_limit, **json_routes("health"))


def pages(add: AddRoute, prefix: str) -> None:
    """Adds the form below a cluster."""
    add(f"{prefix}/health/limits", limit_form, methods=["POST"])


def put_limit(request: Request, console: HereConsole, watched: Watched, wanted: LimitChange) -> LimitChanged:
    """Changes the limit of a check, from the next verdict on and after a restart."""
    return change_limit(console, watched, user_of(request), wanted)


async def limit_form(request: Request, console: HereConsole, watched: Watched) -> Response:
    """The same from the page."""
    given = await sent_form(request, console)
    text = given.get("limit", "").strip()
    try:
        limit = float(text) if text else None
    except ValueError:
        raise OperationError(f"{text!r} is no number") from None
    wanted = LimitChange(given.get("check", ""), limit)
    # It waits for the disk, and for others who change one.
    await run_in_threadpool(change_limit, console, watched, user_of(request), wanted)
    return RedirectResponse(f"/c/{watched.name}/health", 303)


def change_limit(console: Console, watched: WatchedCluster, user: str, wanted: LimitChange) -> LimitChanged:
    """Does it. Raises OperationError where it is no limit, or cannot be kept."""
    if watched.edited is None:
        raise OperationError("this console keeps no limits")
    with watched.edited.editing():
        before = watched.limit(wanted.check, watched.edited.limits.get(wanted.check))
        after = watched.limit(wanted.check, wanted.limit)
        effects = [Effect(wanted.check, f"{before:g}", f"{after:g}")]
        with console.audit.change(watched.name, user, "set-limit", wanted.check, effects):
            watched.edited.put(wanted.check, wanted.limit)
    watched.judge_again()
    return LimitChanged(wanted.check, before, after)

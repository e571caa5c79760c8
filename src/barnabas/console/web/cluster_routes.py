"""The routes by which clusters are added while the console runs, and taken away again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from barnabas.console.access.check import require
from barnabas.console.access.roles import EVERY, Need, ResourceKind, Verb
from barnabas.console.actions.plans import Effect
from barnabas.console.console import Console
from barnabas.console.stores.added_clusters import added_cluster
from barnabas.console.web.action_routes import (
    Confirmation,
    HereConsole,
    check_allowed,
    json_routes,
    sent_form,
)
from barnabas.console.web.routes import AddRoute, user_of
from barnabas.operations.errors import OperationError

_FIRST_S = 5.0
"""How long an answer waits for the first look."""
_TEXT_MAX = 200_000


@dataclass(frozen=True, slots=True)
class ClusterRequest:
    """A cluster: its name here, its bootstrap servers, and the properties of a client, one a line."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    bootstrap: Annotated[str, Field(min_length=1, max_length=2_000)]
    properties: Annotated[str, Field(max_length=_TEXT_MAX)] = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """What became of it."""

    name: str
    bootstrap: str
    problem: str | None
    """Why nothing is read of it yet; it is tried again."""


async def add(console: Console, user: str, wanted: ClusterRequest) -> ClusterAnswer:
    """Begins to look at a cluster, now and after each start. Raises ForbiddenError, OperationError."""
    check_allowed(console)
    require(console, user, wanted.name, [Need(ResourceKind.CLUSTER, EVERY, Verb.CHANGE)])
    one = added_cluster(wanted.name, wanted.bootstrap, wanted.properties)
    effect = Effect(f"cluster {one.name}", "not looked at", one.described())
    with console.audit.change(one.name, user, "add-cluster", one.name, [effect]):
        watched = await run_in_threadpool(console.add, one)
    await run_in_threadpool(watched.wait_for_round, _FIRST_S)
    return ClusterAnswer(one.name, one.bootstrap, watched.problem)


async def remove(console: Console, user: str, name: str, confirm: str) -> ClusterAnswer:
    """Looks at a cluster no more; its history stays. Raises ForbiddenError, OperationError."""
    check_allowed(console)
    require(console, user, name, [Need(ResourceKind.CLUSTER, EVERY, Verb.CHANGE)])
    bootstrap = console.cluster(name).bootstrap
    if confirm != name:
        raise OperationError(f"the confirmation is not {name!r}: nothing was done")
    effect = Effect(f"cluster {name}", bootstrap, "not looked at")
    with console.audit.change(name, user, "remove-cluster", name, [effect]):
        await run_in_threadpool(console.remove, name)
    return ClusterAnswer(name, bootstrap, None)


def rest(add_route: AddRoute, api: str) -> None:
    """Adds the routes below the API."""

    async def added(request: Request, console: HereConsole, body: ClusterRequest) -> ClusterAnswer:
        """Looks at one more cluster, after each start of the console, too; needs the right to change it."""
        return await add(console, user_of(request), body)

    async def removed(
        request: Request, console: HereConsole, cluster: str, body: Confirmation
    ) -> ClusterAnswer:
        """Looks at a cluster no more that was added while the console ran; the body repeats its name."""
        return await remove(console, user_of(request), cluster, body.confirm)

    asks = json_routes("clusters")
    add_route(f"{api}/clusters", added, **asks)
    add_route(f"{api}/clusters/{{cluster}}/remove", removed, **asks)


def pages(add_route: AddRoute, render: Callable[..., Response]) -> None:
    """Adds the forms."""

    async def form(request: Request) -> Response:
        return render(request, "add_cluster.html")

    async def added(request: Request, console: HereConsole) -> Response:
        given = await sent_form(request, console)
        wanted = ClusterRequest(
            given.get("name", "").strip()[:200],
            given.get("bootstrap", "")[:2_000],
            given.get("properties", "")[:_TEXT_MAX],
        )
        answer = await add(console, user_of(request), wanted)
        return RedirectResponse(f"/c/{answer.name}", 303)

    async def removed(request: Request, console: HereConsole, cluster: str) -> Response:
        given = await sent_form(request, console)
        await remove(console, user_of(request), cluster, given.get("confirm", ""))
        return RedirectResponse("/", 303)

    add_route("/add-cluster", form, methods=["GET"])
    add_route("/add-cluster", added, methods=["POST"])
    add_route("/c/{cluster}/remove", removed, methods=["POST"])

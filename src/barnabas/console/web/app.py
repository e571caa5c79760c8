"""The console as an ASGI application: REST below ``/api/v1``, pages above the same views.

`SHOWN` is the table: a path, the view that answers it, the template that draws it. REST answers the view's
value, the page gives it to the template; a parameter of the view is one of both. OpenAPI is at
``/api/v1/openapi.json``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Final

import jinja2
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barnabas import __version__
from barnabas.console import units
from barnabas.console.access import entrance
from barnabas.console.access.check import check, grants_of
from barnabas.console.access.files import UnreadableFileError
from barnabas.console.access.gate import LoginGate
from barnabas.console.access.login import RefusedLoginError, TooManyError
from barnabas.console.access.roles import EVERY, Need, ResourceKind, Verb
from barnabas.console.access.rules import button_needs
from barnabas.console.console import Console, ForbiddenError, NotHereError
from barnabas.console.history.sampler import METRICS
from barnabas.console.questions import NotAnsweredError, UnexpectedError
from barnabas.console.views import overview as overviews
from barnabas.console.views.history import RANGES, HistoryView, history
from barnabas.console.web import (
    action_routes,
    alert_routes,
    cluster_routes,
    limit_routes,
    metrics_routes,
    shapes,
)
from barnabas.console.web.chart import chart
from barnabas.console.web.guard import Guard, form_token
from barnabas.console.web.routes import SHOWN, console_of_request, user_of
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.operations.clock import now_ms

_log = EventLog("console")

API: Final = "/api/v1"
_TEMPLATES: Final = files("barnabas.console") / "templates"
_STATIC: Final = files("barnabas.console") / "static"


class _AnyText(PathConvertor):
    """Ids of clients and of groups may have line breaks, which Starlette's own ``path`` does not match, and
    be steps of a path.
    """

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """The name, for whoever asks whether its reader may have it as well as for the view."""
        return shapes.name_of(value)


register_url_convertor("path", _AnyText())


def application(console: Console) -> ASGIApp:
    """The console's application, behind its guard."""
    login = console.login
    routes = routes_of(login is not None, login is not None and login.provider is not None)
    behind = routes if login is None else LoginGate(routes, login, API)

    async def with_console(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["console"] = console
        await behind(scope, receive, send)

    return Guard(Unbroken(with_console), console.hosts)


class Unbroken:
    """An ASGI application around another one: whatever that raises, a bug of ours among it, is answered in
    one line, and stands in the console's log.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers."""
        is_begun = is_ended = False

        async def noted(message: Message) -> None:
            nonlocal is_begun, is_ended
            is_begun = True
            is_ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:
            _log.error("console.request", path=scope.get("path"), error=repr(error), exc_info=True)
            if not is_begun:  # the page that says so failed, too
                await JSONResponse({"error": _fault_of(error)}, 500)(scope, receive, send)
            elif not is_ended:
                raise  # the server breaks the connection: what was sent is no whole answer


@cache
def routes_of(has_login: bool, has_provider: bool) -> FastAPI:
    """All routes. Each request brings its console: what FastAPI makes of a signature takes half a second for
    all of them, and is the same for every console.
    """
    app = FastAPI(
        title="Barnabas console",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(check)],
    )
    # All routes are added to the application itself: those of an included router FastAPI makes a second
    # time, at the first request.
    rest, page = app.add_api_route, partial(app.add_api_route, include_in_schema=False)
    below, pages_below = f"{API}/clusters/{{cluster}}", "/c/{cluster}"
    if has_login:
        entrance.rest(rest, API)
        entrance.pages(page, render, has_provider)
    page("/metrics", metrics_routes.metrics, methods=["GET"])
    rest(f"{API}/clusters", clusters, methods=["GET"], tags=["clusters"])
    for path, view, _ in SHOWN:
        name = path.strip("/").partition("/")[0] or "overview"
        rest(f"{below}{path}", view, methods=["GET"], tags=[name])
    rest(f"{below}/alerts", alert_routes.alerts, methods=["GET"], tags=["alerts"])
    rest(f"{below}/audit", action_routes.audit, methods=["GET"], tags=["audit"])
    page(f"{API}/healthz", _healthz, methods=["GET"])
    action_routes.rest(rest, below)
    cluster_routes.rest(rest, API)
    alert_routes.rest(rest, below)
    limit_routes.rest(rest, below)
    page("/", _page(clusters, "clusters.html"), methods=["GET"])
    for path, view, template in SHOWN:
        page(f"{pages_below}{path}", _page(view, template), methods=["GET"])
    page(f"{pages_below}/alerts", _page(alert_routes.alerts, "alerts.html"), methods=["GET"])
    page(f"{pages_below}/audit", _page(action_routes.audit, "audit.html"), methods=["GET"])
    cluster_routes.pages(page, render)
    action_routes.pages(page, pages_below, render)
    alert_routes.pages(page, pages_below)
    limit_routes.pages(page, pages_below)
    app.mount("/static", StaticFiles(directory=str(_STATIC)), name="static")
    # FastAPI answers with the handler of Exception, and raises it again all the same.
    kinds = (NotHereError, ForbiddenError, BarnabasError, HTTPException, RequestValidationError, Exception)
    for kind in kinds:
        app.add_exception_handler(kind, _refused)
    return app


async def clusters(
    request: Request, console: Annotated[Console, Depends(console_of_request)]
) -> list[overviews.ClusterRow]:
    """All clusters that the reader knows, each with its verdict; its reasons for those who may read the
    whole cluster, as they name topics and groups.
    """
    now, grants = now_ms(), grants_of(console, user_of(request))
    whole = Need(ResourceKind.CLUSTER, EVERY)
    rows = [overviews.cluster_row(one, now) for one in console.clusters.values() if grants.know(one.name)]
    return [one if grants.give(one.name, whole) else replace(one, reasons=[]) for one in rows]


async def _healthz() -> Response:
    """Whether the console itself answers."""
    return PlainTextResponse("ok\n")


def _page(view: Callable[..., Any], template: str) -> Callable[..., Any]:
    async def page(request: Request, shown: Annotated[Any, Depends(view)]) -> Response:
        # Plots are read from files: not on the loop that serves everybody.
        return await run_in_threadpool(render, request, template, shown=shown)

    return page


def render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """A page."""
    console: Console = request.state.console
    name = request.path_params.get("cluster")
    user = user_of(request)

    def may(kind: str, given: Mapping[str, Any] | None = None) -> bool:
        """Whether a button leads somewhere."""
        if not console.allow_changes or name not in console.clusters or request.url.path == "/login":
            return False
        try:
            grants = grants_of(console, user)
            return all(grants.give(name, need) for need in button_needs(kind, given or {}))
        except UnreadableFileError:
            return False

    def may_change_cluster() -> bool:
        """Whether limits of checks may be changed."""
        try:
            need = Need(ResourceKind.CLUSTER, EVERY, Verb.CHANGE)
            return grants_of(console, user).give(str(name), need)
        except UnreadableFileError:
            return False

    def plots(kind: str, subject: str) -> HistoryView:
        watched, span = console.cluster(str(name)), request.query_params.get("range", "")
        return history(watched, now_ms(), kind=kind, subject=subject, span=span)

    text = (
        _templates()
        .get_template(template)
        .render(
            console=console,
            cluster=name if name in console.clusters else None,
            here=request.url.path,
            # As it was written: a name may have slashes and dots, encoded, which are none of the path's.
            written=request.scope.get("raw_path", request.url.path.encode()).decode("latin-1"),
            query=request.query_params,
            asked=request.url.query,
            user=user,
            is_login=console.login is not None,
            may=may,
            may_change_cluster=may_change_cluster,
            problem=_problem(console, str(name), user),
            may_add=_may_add(console, user) if request.url.path == "/" else False,
            token=form_token(console.secret, user),
            now=now_ms(),
            plots=plots,
            **values,
        )
    )
    return HTMLResponse(text, status)


def _problem(console: Console, cluster: str, user: str) -> str | None:
    """Why nothing is read of a cluster, for those who know that there is one."""
    try:
        is_known = cluster in console.clusters and grants_of(console, user).know(cluster)
    except UnreadableFileError:
        return None
    return console.cluster(cluster).problem if is_known else None


def _may_add(console: Console, user: str) -> bool:
    try:
        return console.allow_changes and grants_of(console, user).change_clusters()
    except UnreadableFileError:
        return False


async def _refused(request: Request, error: Exception) -> Response:
    """What cannot be done, or has failed, as JSON below the API and as a page elsewhere."""
    if isinstance(error, HTTPException):
        status, why = error.status_code, str(error.detail)
    elif isinstance(error, ClientDisconnect):
        status, why = 400, "the request ended before its body"
    elif isinstance(error, RequestValidationError):
        each = error.errors()[0]
        status, why = 422, f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}"
    elif not isinstance(error, BarnabasError):
        status, why = 500, _fault_of(error)
    else:
        codes: dict[type, int] = {
            NotHereError: 404,
            ForbiddenError: 403,
            UnreadableFileError: 403,
            RefusedLoginError: 401,
            TooManyError: 429,
            NotAnsweredError: 503,
            UnexpectedError: 500,
        }
        status, why = codes.get(type(error), 409), str(error)
    if request.url.path.startswith(API):
        return JSONResponse({"error": why}, status)
    is_change = request.method not in {"GET", "HEAD"}
    return render(request, "refused.html", status, why=why, code=status, changes=is_change)


def _fault_of(error: Exception) -> str:
    """What whoever asked may know of an error of the console: what it says may be of others."""
    return f"the console has failed here ({type(error).__name__}); its log says more"


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(_TEMPLATES)), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "counted": units.counted,
        "in_unit": units.in_unit,
        "number": units.number,
        "segment": shapes.segment,
        "size": units.size,
        "seconds": units.seconds,
        "when": shapes.when_element,
    }
    environment.globals |= {
        "query_without": shapes.query_without,
        "messages_command": shapes.messages_command,
        "query_without_page": shapes.query_without_page,
        "sparkline": shapes.sparkline,
        "chart": chart,
        "metrics": METRICS,
        "ranges": list(RANGES),
        "version": __version__,
    }
    return environment

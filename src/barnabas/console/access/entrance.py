"""The routes of logging in and out, as forms and as calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import Field
from starlette.responses import JSONResponse, RedirectResponse, Response

from barnabas.console.access.gate import (
    origin_of,
    safe_target,
    set_cookie,
    set_try_cookie,
    token_of,
    try_cookie_name,
)
from barnabas.console.access.login import Login, RefusedLoginError, TooManyError
from barnabas.console.access.oidc import CALLBACK, OidcRefusedError
from barnabas.console.access.passwords import NAME_MAX, PASSWORD_MAX
from barnabas.console.console import ForbiddenError
from barnabas.console.web.guard import is_form_token
from barnabas.console.web.routes import AddRoute
from barnabas.operations.clock import monotonic_ms


@dataclass(frozen=True, slots=True)
class Credentials:
    """A name and its password."""

    user: Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
    password: Annotated[str, Field(min_length=1, max_length=PASSWORD_MAX, repr=False)]


@dataclass(frozen=True, slots=True)
class SessionToken:
    """What a program sends from now on, as ``Authorization: Bearer TOKEN``, from the same address and as the
    same program.
    """

    user: str
    token: str


def rest(add: AddRoute, prefix: str) -> None:
    """Adds the routes below the API."""

    async def log_in(request: Request, given: Credentials) -> SessionToken:
        """Begins a session."""
        token = await _login(request).log_in(
            given.user, given.password, origin_of(request.scope), monotonic_ms()
        )
        return SessionToken(given.user, token)

    async def log_out(request: Request) -> Response:
        """Ends this session."""
        _login(request).sessions.end(token_of(request.scope))
        return JSONResponse({"user": None})

    add(f"{prefix}/login", log_in, methods=["POST"], tags=["login"])
    add(f"{prefix}/logout", log_out, methods=["POST"], tags=["login"])


def pages(add: AddRoute, render: Callable[..., Response], has_provider: bool) -> None:
    """Adds the form, and the way out."""

    def answered(request: Request, status: int, why: str | None, target: str) -> Response:
        login = _login(request)
        provider = None if login.provider is None else login.provider.settings.label
        given = {"why": why, "target": target, "provider": provider, "asks": login.passwords is not None}
        return render(request, "login.html", status, **given)

    async def form(request: Request) -> Response:
        return answered(request, 200, None, request.query_params.get("next", "/"))

    async def log_in(request: Request) -> Response:
        login, given = _login(request), await _fields(request)
        target = safe_target(given.get("next", "/"))
        try:
            token = await login.log_in(
                given.get("user", ""), given.get("password", ""), origin_of(request.scope), monotonic_ms()
            )
        except (RefusedLoginError, TooManyError) as error:
            code = 429 if isinstance(error, TooManyError) else 401
            return answered(request, code, str(error), target)
        login.sessions.end(token_of(request.scope))
        answer = RedirectResponse(target, 303)
        set_cookie(answer, request.scope, token)
        return answer

    async def log_out(request: Request) -> Response:
        given = await _fields(request)
        if not is_form_token(request.state.console.secret, request.state.user, given.get("token", "")):
            raise ForbiddenError("this form is not from a page of yours: load the page and try again")
        _login(request).sessions.end(token_of(request.scope))
        answer = RedirectResponse("/login", 303)
        set_cookie(answer, request.scope, "")
        return answer

    async def to_provider(request: Request) -> Response:
        target = safe_target(request.query_params.get("next", "/"))
        try:
            begun = await _login(request).begin_at_provider(target, origin_of(request.scope).address)
        except (OidcRefusedError, TooManyError) as error:
            return answered(request, 429 if isinstance(error, TooManyError) else 502, str(error), target)
        answer = RedirectResponse(begun.url, 303)
        set_try_cookie(answer, request.scope, begun.state)
        return answer

    async def from_provider(request: Request) -> Response:
        state = request.cookies.get(try_cookie_name(request.scope), "")
        login, origin = _login(request), origin_of(request.scope)
        try:
            token, target = await login.end_at_provider(dict(request.query_params), state, origin)
        except (OidcRefusedError, TooManyError) as error:
            return answered(request, 429 if isinstance(error, TooManyError) else 401, str(error), "/")
        login.sessions.end(token_of(request.scope))
        answer = RedirectResponse(target, 303)
        set_cookie(answer, request.scope, token)
        set_try_cookie(answer, request.scope, "")
        return answer

    if has_provider:
        add("/login/oidc", to_provider, methods=["GET"])
        add(CALLBACK, from_provider, methods=["GET"])
    add("/login", form, methods=["GET"])
    add("/login", log_in, methods=["POST"])
    add("/logout", log_out, methods=["POST"])


def _login(request: Request) -> Login:
    """The log-in of the request's console: without one there are no such routes."""
    login: Login = request.state.console.login
    return login


async def _fields(request: Request) -> dict[str, str]:
    body = (await request.body()).decode(errors="replace")
    try:
        found = parse_qs(body, keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[-1] for name, values in found.items()}

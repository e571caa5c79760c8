"""What ``barnabas delegation-tokens`` does once its flags are understood (``DelegationTokenCommand``)."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from barnabas.cli.facts import print_facts
from barnabas.cli.java_errors import java_text
from barnabas.cli.options import ToolError, admin_options, connected_admin
from barnabas.cli.printing import printable
from barnabas.core.acl import is_principal
from barnabas.core.delegation_token import DelegationToken
from barnabas.core.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.admin import AsyncAdmin

_WIDTHS: Final = (15, 30, 15, 15, 25, 15, 15, 15)
_HEADINGS: Final = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)


def run(given: Mapping[str, Any]) -> None:
    """Does what was asked for, and prints the script's lines. Raises ToolError."""
    for option in ("owner-principal", "renewer-principal"):
        for principal in given[option]:
            if not is_principal(principal.strip()):
                raise ToolError(
                    f"expected a string in format principalType:principalName but got {principal.strip()}"
                )
    try:
        asyncio.run(_run(given))
    except BarnabasError as error:
        raise ToolError(java_text(error)) from error


async def _run(given: Mapping[str, Any]) -> None:
    options = admin_options(given["command-config"], given["bootstrap-server"], "delegation-tokens")
    async with connected_admin(options) as admin:
        if given["create"]:
            await _create(admin, given)
        elif given["describe"]:
            await _describe(admin, given)
        else:
            await _change(admin, given)


async def _create(admin: "AsyncAdmin", given: Mapping[str, Any]) -> None:
    renewers, lifetime_ms = _stripped(given["renewer-principal"]), given["max-life-time-period"]
    click.echo(
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period "
        f":{lifetime_ms}"
    )
    owners = _stripped(given["owner-principal"])
    token = await admin.delegation_tokens.create(
        owner=owners[0] if owners else None, renewers=renewers, max_lifetime_ms=lifetime_ms
    )
    click.echo(f"Created delegation token with tokenId : {printable(token.information.token_id)}")
    _print([token])


async def _describe(admin: "AsyncAdmin", given: Mapping[str, Any]) -> None:
    owners = _stripped(given["owner-principal"])
    if given["as-json"]:
        tokens = await admin.delegation_tokens.describe(owners or None)
        print_facts({"tokens": list(map(_facts, tokens))})
        return
    if owners:
        click.echo(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        click.echo("Calling describe token operation for current user.")
    # Kafka's script asks for the tokens of no owner at all here, and so shows none.
    tokens = await admin.delegation_tokens.describe(owners or None)
    click.echo(f"Total number of tokens : {len(tokens)}", nl=False)
    _print(tokens)


def _facts(token: DelegationToken) -> dict[str, Any]:
    information = token.information
    return {
        "token_id": information.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": information.owner,
        "requester": information.requester,
        "renewers": information.renewers,
        "issued_ms": information.issued_ms,
        "expires_ms": information.expires_ms,
        "max_ms": information.max_ms,
    }


async def _change(admin: "AsyncAdmin", given: Mapping[str, Any]) -> None:
    """Renews or ends a token."""
    verb, adjective = ("renew", "renew") if given["renew"] else ("expire", "expiry")
    period_ms = given[f"{adjective}-time-period"]
    shown = printable(given["hmac"])
    click.echo(f"Calling {verb} token operation with hmac :{shown} , {verb}-time-period :{period_ms}")
    try:
        secret = base64.b64decode(given["hmac"], validate=True)
    except (binascii.Error, ValueError):
        raise ToolError("the HMAC of a token is written in base64, as --describe prints it") from None
    change = admin.delegation_tokens.renew if given["renew"] else admin.delegation_tokens.expire
    ends_ms = await change(secret, period_ms)
    click.echo(f"Completed {verb} operation. New expiry date : {_date(ends_ms)}", nl=False)


def _print(tokens: Iterable[DelegationToken]) -> None:
    """``printToken``: a table with an empty line before each row."""
    click.echo(f"\n{_row(_HEADINGS)}")
    for token in tokens:
        information = token.information
        columns = (
            information.token_id,
            base64.b64encode(token.hmac).decode(),
            information.owner,
            information.requester,
            _listed(information.renewers),
            _date(information.issued_ms),
            _date(information.expires_ms),
            _date(information.max_ms),
        )
        click.echo(f"\n{_row(columns)}")


def _row(columns: Iterable[str]) -> str:
    return " ".join(printable(text).ljust(width) for text, width in zip(columns, _WIDTHS, strict=True))


def _date(ms: int) -> str:
    """``yyyy-MM-dd'T'HH:mm`` of the local time."""
    return datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%dT%H:%M")


def _stripped(principals: Iterable[str]) -> list[str]:
    return [each.strip() for each in principals]


def _listed(items: Iterable[str]) -> str:
    return f"[{', '.join(items)}]"

"""``barnabas console``: pages, REST and a check of the health of clusters. No script of Kafka's does this."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from barnabas.cli.bootstrap import bootstrap_option, with_ports
from barnabas.cli.options import admin_options, command_config_option, key_values, pairs_option
from barnabas.cli.printing import printable
from barnabas.cli.registry_options import registry_options, schema_source
from barnabas.core.extras import extra
from barnabas.operations.errors import OperationError

if TYPE_CHECKING:
    from barnabas.console.access.certificate import TlsFiles
    from barnabas.console.access.files import WatchedFile
    from barnabas.console.access.login import Login
    from barnabas.console.alerts.notices import Notifier
    from barnabas.console.health.verdict import Verdict
    from barnabas.console.watched import WatchedCluster
    from barnabas.operations.messages.masks import MaskRules


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@bootstrap_option(required=True, changes=["allow_changes"])
@command_config_option
@click.option(
    "--name", default="cluster", show_default=True, help="What the cluster is called in the console."
)
@pairs_option("--cluster", "more", "One more cluster, NAME=HOST:PORT; repeatable.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8989, show_default=True, help="Where to listen."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that browsers call it by.")
@click.option("--allow-changes", is_flag=True, help="Offer actions that change clusters.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("barnabas-console"),
    show_default=True,
    help="The console's folder.",
)
@click.option("--store", type=click.Path(path_type=Path), help="The folder of the cluster's embedded store.")
@click.option("--zookeeper", metavar="HOST:PORT[,...][/PATH]", help="The cluster's ZooKeeper servers.")
@pairs_option("--metrics", "metrics", "The metrics of a broker, ID=URL; repeatable.")
@pairs_option("--limit", "limits", "The limit of a check, KEY=NUMBER; repeatable.")
@click.option("--webhook", metavar="URL", help="Where incidents are posted as JSON.")
@click.option("--mail-to", multiple=True, metavar="ADDRESS", help="Who gets mail of incidents; repeatable.")
@click.option(
    "--mail-from",
    default="barnabas-console@localhost",
    show_default=True,
    metavar="ADDRESS",
    help="The sender of mail.",
)
@click.option(
    "--smtp", default="127.0.0.1:25", show_default=True, metavar="HOST:PORT", help="The mail server."
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.2),
    default=10,
    show_default=True,
    metavar="S",
    help="How often to look, in seconds.",
)
@click.option("--passwords", type=_FILE, help="Who may log in: a file that --set-password writes.")
@click.option("--oidc", type=_FILE, help="Log in by OpenID Connect: a TOML file about the provider.")
@click.option("--roles", type=_FILE, help="What each may do: a TOML file, read again when it changes.")
@click.option(
    "--masking", type=_FILE, help="What of records nobody sees: a TOML file, read again when it changes."
)
@registry_options
@click.option("--tls-cert", type=_FILE, help="The certificate with its chain, PEM, to serve over TLS.")
@click.option("--tls-key", type=_FILE, help="The key of --tls-cert, PEM.")
@click.option("--set-password", metavar="NAME", help="Ask for a password, write it to --passwords and end.")
@click.option("--check", is_flag=True, help="Look once, print the verdict and end with it as the exit code.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict of --check as JSON.")
@click.option(
    "--show", metavar="PATH", help="Look once, and print what REST answers at a path, such as /clients."
)
@click.pass_context
def console(
    ctx: click.Context,
    bootstrap_server: str,
    command_config: Path | None,
    name: str,
    more: tuple[str, ...],
    port: int,
    host: str,
    hosts: tuple[str, ...],
    allow_changes: bool,
    data: Path,
    store: Path | None,
    zookeeper: str | None,
    metrics: tuple[str, ...],
    limits: tuple[str, ...],
    webhook: str | None,
    mail_to: tuple[str, ...],
    mail_from: str,
    smtp: str,
    every_s: float,
    passwords: Path | None,
    oidc: Path | None,
    roles: Path | None,
    masking: Path | None,
    registry: str | None,
    registry_login: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    set_password: str | None,
    check: bool,
    as_json: bool,
    show: str | None,
) -> None:
    """Look at clusters, of any vendor, in a browser, by REST, or once for a script.

    The console listens on this machine alone unless --host says otherwise, and changes nothing without
    --allow-changes. Every page is answered from what was read in the background; each value says how old it
    is, or why it is not known.

    --check looks once and ends with 0 for a good cluster, 1 for a warning, 2 for critical, 3 where too
    little is known. --show prints a page as JSON; PATH is what follows the cluster's name in its address.

    Others than this machine are served over TLS, to those who log in. What each may do stands in --roles, by
    cluster, resource and pattern; without that file they read.

    Needs the extra "console".

    \b
    Examples:
      barnabas console --bootstrap-server 127.0.0.1:9092
      barnabas console --bootstrap-server 127.0.0.1:9092 --store ./barnabas-data --allow-changes
      barnabas console --bootstrap-server kafka1:9092 --zookeeper zk1:2181 --metrics 1=http://kafka1:7071/
      barnabas console --bootstrap-server 127.0.0.1:9092 --check --limit lag-seconds=60
      barnabas console --bootstrap-server kafka1:9092 --metrics 1=http://kafka1:7071/metrics --show /clients
      barnabas console --passwords users --set-password alice
    """
    if set_password is not None:
        _set_password(passwords, set_password)
        return
    _refuse_what_contradicts(check=check, as_json=as_json, show=show, more=more)
    with extra("console", "the console", "fastapi", "uvicorn", "jinja2"):
        from barnabas.console import server
        from barnabas.console.collector import Pace
        from barnabas.console.watched import WatchedCluster

    options = admin_options(command_config, bootstrap_server, "barnabas-console")
    pace = Pace(round_s=every_s)
    first = WatchedCluster(
        name, options, pace, store=store, zookeeper_connect=zookeeper, **_scrapers(metrics, zookeeper)
    )
    first.limits.update(_limits(limits))
    if check:
        verdict = server.check(first)
        _print(verdict, as_json=as_json)
        ctx.exit(server.EXIT_CODES[verdict.level])
    reading = {"masking": _masking(masking), "schemas": schema_source(registry, registry_login), "data": data}
    if show is not None:
        _show(first, show, reading)
        return
    others = [
        WatchedCluster(each, {**options, "bootstrap.servers": with_ports(servers)}, pace)
        for each, servers in key_values(more).items()
    ]
    login, tls = _login(passwords, roles, oidc), _tls(tls_cert, tls_key)
    notifier = _notifier(webhook, mail_to, mail_from, smtp)
    given = {"allow_changes": allow_changes, "login": login, "notifier": notifier, "pace": pace, **reading}
    _serve([first, *others], host, port, hosts, tls, **given)


def _refuse_what_contradicts(*, check: bool, as_json: bool, show: str | None, more: tuple[str, ...]) -> None:
    """Of three things to do (serve, check, show) one is done."""
    if check and show is not None:
        raise click.UsageError("--check and --show are two commands: give one of them")
    if more and (check or show is not None):
        raise click.UsageError("--check and --show look at one cluster: leave --cluster out")
    if as_json and not check and show is None:
        raise click.UsageError("--json says how --check prints: give --check, or --show, which prints JSON")


def _serve(
    clusters: "list[WatchedCluster]",
    host: str,
    port: int,
    hosts: tuple[str, ...],
    tls: "TlsFiles | None",
    **given: Any,
) -> None:
    from barnabas.console.console import LOOPBACK, Console
    from barnabas.console.server import Address, listen, serve

    if host not in LOOPBACK and (given["login"] is None or tls is None):
        raise click.UsageError(
            f"--host {host}: others than this machine are served over TLS and log in: give --tls-cert,"
            " --tls-key and --passwords or --oidc"
        )
    try:
        listener = listen(Address(host, port))
    except OSError as error:
        raise click.ClickException(f"cannot listen at {host}:{port}: {error.strerror}") from error
    console = Console({}, hosts=LOOPBACK | {each.lower() for each in (*hosts, host)}, **given)
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if tls is None else "https"
    click.echo(f"The console is at {scheme}://{shown}:{listener.getsockname()[1]}/", err=True)
    serve(console, clusters, listener, tls)


def _set_password(passwords: Path | None, name: str) -> None:
    from barnabas.console.access.passwords import check_name, set_password

    if passwords is None:
        raise click.UsageError("--set-password: name the file with --passwords")
    try:
        check_name(name)
        set_password(passwords, name, click.prompt("Password", hide_input=True, confirmation_prompt=True))
    except OperationError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{name} is in {passwords}.", err=True)


def _login(passwords: Path | None, roles: Path | None, oidc: Path | None) -> "Login | None":
    from barnabas.console.access.files import UnreadableFileError
    from barnabas.console.access.login import Login
    from barnabas.console.access.oidc import provider_of
    from barnabas.console.access.passwords import PasswordFile
    from barnabas.console.access.roles import RoleFile

    if passwords is None and oidc is None:
        if roles is not None:
            raise click.UsageError("--roles: who somebody is says a login: give --passwords or --oidc, too")
        return None
    try:
        login = Login(
            None if passwords is None else PasswordFile(passwords),
            None if roles is None else RoleFile(roles),
            None if oidc is None else provider_of(oidc),
        )
        if login.passwords is not None:
            login.passwords.entry("")
        login.grants("")
    except (UnreadableFileError, OperationError) as error:
        raise click.ClickException(str(error)) from error
    return login


def _masking(path: Path | None) -> "WatchedFile[MaskRules] | None":
    from barnabas.console.access.files import UnreadableFileError, WatchedFile
    from barnabas.operations.messages.masks import parsed

    if path is None:
        return None
    file = WatchedFile(path, parsed)
    try:
        file.read()
    except UnreadableFileError as error:
        raise click.ClickException(str(error)) from error
    return file


def _tls(cert: Path | None, key: Path | None) -> "TlsFiles | None":
    from barnabas.console.access.certificate import TlsFiles, context_of

    if cert is None and key is None:
        return None
    if cert is None or key is None:
        raise click.UsageError("--tls-cert and --tls-key go together")
    files = TlsFiles(cert, key)
    try:
        context_of(files)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{cert} and {key} are no certificate and its key: {error}") from error
    return files


def _notifier(webhook: str | None, mail_to: tuple[str, ...], mail_from: str, smtp: str) -> "Notifier":
    from barnabas.console.alerts.notices import Addresses, Notifier

    if webhook is not None and not webhook.startswith(("http://", "https://")):
        raise click.UsageError("--webhook: it begins with http:// or https://")
    if not smtp.partition(":")[2].isdigit():
        raise click.UsageError(f"--smtp {smtp}: it is HOST:PORT")
    return Notifier(Addresses(webhook, smtp, mail_from, mail_to))


def _scrapers(metrics: tuple[str, ...], zookeeper: str | None) -> dict[str, Any]:
    from barnabas.operations.scrapes import BrokerScraper, ZookeeperScraper

    urls = {}
    for broker, url in key_values(metrics).items():
        if not (broker.isascii() and broker.isdigit()):
            raise click.UsageError(f"--metrics {broker}={url}: it begins with the id of a broker")
        urls[int(broker)] = url
    return {
        "brokers": BrokerScraper(urls) if urls else None,
        "zookeeper": ZookeeperScraper(zookeeper) if zookeeper else None,
    }


def _limits(given: tuple[str, ...]) -> dict[str, float]:
    from barnabas.console.health.limits import checked

    found = {}
    for key, text in key_values(given).items():
        try:
            found[key] = checked(key, float(text))
        except ValueError:
            raise click.UsageError(f"--limit {key}={text}: {text!r} is no number") from None
        except OperationError as error:
            raise click.UsageError(f"--limit {key}={text}: {error}") from error
    return found


def _show(cluster: "WatchedCluster", page: str, reading: dict[str, Any]) -> None:
    from barnabas.console import server

    if any("\ud800" <= one <= "\udfff" for one in page):
        # Bytes of the command line that are no UTF-8 come as these.
        raise click.UsageError("--show: the path is not in UTF-8")
    path = page if page.startswith("/") else f"/{page}"
    status, body = server.show(cluster, path, **reading)
    # Starlette leads a path with a slash too many elsewhere, without a body.
    found = json.loads(body) if body else {"error": "there is no such page"}
    if status != HTTPStatus.OK:
        raise click.ClickException(f"{path}: {found['error']}")
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _print(verdict: "Verdict", *, as_json: bool) -> None:
    if as_json:
        from dataclasses import asdict

        click.echo(json.dumps(asdict(verdict), indent=2, ensure_ascii=False))
        return
    click.echo(verdict.level)
    for reason in verdict.reasons:
        click.echo(printable(f"  {reason}"))

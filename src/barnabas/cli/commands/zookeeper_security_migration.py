"""``barnabas zookeeper-security-migration``: zookeeper-security-migration.sh."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from barnabas.cli.options import ToolCommand, ToolError, properties, zk_tls_option
from barnabas.cli.printing import printable

if TYPE_CHECKING:
    from barnabas.cluster.store.zookeeper_security import ZookeeperSecurity
    from barnabas.core.config import Config

_TIMEOUT_MS: Final = 30_000


@click.command(cls=ToolCommand)
@click.option(
    "--zookeeper.acl",
    "acl",
    required=True,
    type=click.Choice(("secure", "unsecure")),
    help="Whether znodes are to be for Kafka's brokers alone, or open to all.",
)
@click.option(
    "--zookeeper.connect",
    "connect",
    default="localhost:2181",
    show_default=True,
    metavar="HOST:PORT[,...][/PATH]",
    help="The ZooKeeper servers.",
)
@click.option(
    "--zookeeper.session.timeout",
    "session_timeout",
    default=_TIMEOUT_MS,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="MS",
    help="How long a session lasts without a connection.",
)
@click.option(
    "--zookeeper.connection.timeout",
    "connection_timeout",
    default=_TIMEOUT_MS,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="MS",
    help="How long a server may take to let this tool in.",
)
@click.option(
    "--enable.path.check",
    "path_check",
    is_flag=True,
    help="Change nothing where a path of Kafka's is missing: the chroot may be a wrong one.",
)
@zk_tls_option
def zookeeper_security_migration(
    acl: str,
    connect: str,
    session_timeout: int,
    connection_timeout: int,
    path_check: bool,
    zk_tls_config_file: Path | None,
) -> None:
    """Set the ACLs of all znodes of a cluster, with the flags of zookeeper-security-migration.sh.

    First all brokers get the section Client of a file of JAAS (KAFKA_OPTS), or a certificate, then
    zookeeper.set.acl=true, then this is run with the same KAFKA_OPTS. The way back is the other way round.

    \b
    Examples:
      barnabas zookeeper-security-migration --zookeeper.acl secure --zookeeper.connect 127.0.0.1:2181/kafka
      barnabas zookeeper-security-migration --zookeeper.acl unsecure --zookeeper.connect 127.0.0.1:2182 \\
          --zk-tls-config-file zookeeper.properties
    """
    from barnabas.node.environment import security_of
    from barnabas.operations.direct_store import zookeeper_config

    config = zookeeper_config(connect, session_timeout, properties(zk_tls_config_file))
    security = security_of(config, tool=True)
    if not security.is_somebody:
        raise ToolError(
            "ERROR: No JAAS configuration file has been specified and no TLS client certificate has been "
            "specified. Please make sure that you set the system property java.security.auth.login.config "
            "(KAFKA_OPTS) or provide a ZooKeeper client TLS configuration via --zk-tls-config-file "
            "<filename> identifying at least zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, and "
            "zookeeper.ssl.keystore.location"
        )
    _migrate(config, security, connection_timeout, secure=acl == "secure", path_check=path_check)


def _migrate(
    config: "Config", security: "ZookeeperSecurity", timeout_ms: int, *, secure: bool, path_check: bool
) -> None:
    from barnabas.cluster.store.zookeeper_client import make_client
    from barnabas.operations.zookeeper_acls import AclMigration

    servers, slash, chroot = config["zookeeper.connect"].partition("/")
    refusals: list[str] = []
    client = make_client(servers, config["zookeeper.session.timeout.ms"], security, refusals.append)
    try:
        client.start(timeout_ms / 1000)
    except client.handler.timeout_exception:
        client.stop()
        client.close()
        why = refusals[-1] if refusals else client.handler.last_failure
        raise ToolError(
            f"no ZooKeeper server of {printable(servers)} let this tool in within {timeout_ms} ms: "
            f"{printable(why) or 'none answered'}"
        ) from None
    try:
        migration = AclMigration(client, slash + chroot, secure=secure)
        if missing := migration.missing_roots():
            click.echo(
                "Warning: The following secure root paths do not exist in ZooKeeper: " + ",".join(missing)
            )
            click.echo("That might be due to an incorrect chroot is specified when executing the command.")
            if path_check:
                raise ToolError("Exit the command.")
        migration.run()
    finally:
        client.stop()
        client.close()

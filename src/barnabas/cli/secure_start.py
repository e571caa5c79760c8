"""What ``barnabas serve --secure`` makes and keeps: an authority, the brokers' key, and a first user.

Theory of operation
-------------------
All of it lies beside the metadata store, in files that only their owner reads:

    ca.key, ca.pem       the authority; clients trust ca.pem
    broker.pem           the key and certificate of all brokers on this store
    broker.properties    the settings that --secure stands for, with the password of the brokers' own user
    client.properties    how the first user connects, in one file that may be copied to another machine

A file that is there is kept, so each later start is the same. What the brokers need is made good at every
start: their user's credential in the store, and a certificate for a host that it does not name yet. The first
user is made once: its credential goes to the store before client.properties is there, so a start that was
killed in between makes it anew, and one that was removed or got another password later stays so.

The first user and the brokers are super users; everybody else may do what rules allow.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.metadata.registration import ensure_paths
from barnabas.cluster.store.contract import StoreError, StoreUnusableError
from barnabas.cluster.store.znodes import CONFIG_CHANGES, sanitize
from barnabas.core.broker_config import log_directories, read_properties
from barnabas.core.config import Config
from barnabas.core.errors import ConfigError
from barnabas.core.jaas import parse_jaas
from barnabas.core.scram import SALT_BITS, ScramCredential, ScramMechanism, parse_credential, salt_of
from barnabas.log.directory import META_PROPERTIES
from barnabas.network.clock import LoopClock
from barnabas.network.endpoints import (
    ADVERTISED,
    INTER_BROKER_NAME,
    LISTENERS,
    PROTOCOL_MAP,
    PROTOCOL_MAP_DEFAULT,
    parse_endpoints,
    parse_protocol_map,
)
from barnabas.network.sasl.scram import MODULE
from barnabas.network.selector import completed
from barnabas.node.environment import metadata_path, refuse_new_store_for_old_data
from barnabas.operations.direct_store import opened
from barnabas.security.acl_authorizer import CLASS_NAME, parse_super_users

FIRST_USER: Final = "admin"
BROKER_USER: Final = "broker"
PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = ScramMechanism.SHA_512
_JAAS: Final = f"listener.name.{PROTOCOL.lower()}.{MECHANISM.value.lower()}.sasl.jaas.config"
SUPER_USERS: Final = "super.users"
_KEY_LOCATION: Final = "ssl.keystore.location"
_TRUST_LOCATION: Final = "ssl.truststore.location"
_PASSWORD_BYTES: Final = 24
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_BROKER_SETTINGS: Final = "broker.properties"
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


class SecureFolder:
    """The files of one metadata store."""

    def __init__(self, config: Config) -> None:
        """Raises ConfigError where the store is not the embedded one."""
        store = metadata_path(config)
        if store is None:
            raise ConfigError(
                "--secure is for brokers on one machine, whose keys lie beside the embedded store; with "
                "ZooKeeper set the keys of docs/security.md, and make the first user with barnabas configs "
                "--zookeeper"
            )
        self._store = store
        advertised = config[ADVERTISED]
        self._advertised = advertised and advertised.partition("://")[2]
        self._data = [Path(each) for each in log_directories(config)]
        self.path = store.parent
        self.authority = self.path / "ca.pem"
        self.client = self.path / "client.properties"
        self._authority_key = self.path / "ca.key"
        self._broker_key = self.path / "broker.pem"
        self._broker = self.path / _BROKER_SETTINGS

    @property
    def user(self) -> str:
        """The first user. Raises ConfigError."""
        return _user_of(_read(self.client), "sasl.jaas.config", self.client)[0]

    def settings(self) -> dict[str, str]:
        """What a broker is given beside its listeners. Raises ConfigError."""
        # The folder may have been moved since they were written.
        return {**_read(self._broker), **self._stores()}

    def refuse_own(self, file: Iterable[str]) -> None:
        """Raises ConfigError for a configuration file that has some of it: one of the two would not count."""
        own = {*self.settings(), LISTENERS, ADVERTISED, PROTOCOL_MAP, INTER_BROKER_NAME}
        if both := sorted(own.intersection(file)):
            raise ConfigError(
                f"--secure sets {both[0]} itself: take it out of the file, or leave --secure out"
            )

    def make(self, config: Config, user: str | None) -> None:
        """Makes what is missing for a broker with these listeners. Raises ConfigError."""
        if user is not None and (not _NAME.fullmatch(user) or user == BROKER_USER):
            raise ConfigError(
                f"--user {user}: a name has letters, digits, dots, dashes and underscores, and is not "
                f"{BROKER_USER}"
            )
        with _named_errors(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_open(self.path)
            with _alone(self.path):
                first = self._first_user(user)
                self._make_keys(_names(_hosts(config)))
                if not self._broker.exists():
                    _write(self._broker, self._broker_settings(first))
                asyncio.run(self._make_users(first))

    def _first_user(self, user: str | None) -> str:
        """Who it is, as an earlier start has it, also one that was killed before it was through: the super
        users are written before. Raises ConfigError where `user` is another one.
        """
        kept = None
        if self.client.exists():
            kept = self.user
        elif self._broker.exists():
            super_users = parse_super_users(_read(self._broker).get(SUPER_USERS, ""))
            names = sorted(each.removeprefix("User:") for each in super_users)
            kept = next((each for each in names if each != BROKER_USER), None)
        if user is not None and kept not in (None, user):
            raise ConfigError(
                f"--user {user}: the first user of {self.path} is {kept} already; make others with "
                "barnabas configs --alter --entity-type users"
            )
        return user or kept or FIRST_USER

    def _make_keys(self, names: set[str]) -> None:
        from barnabas.node.certificates import Authority, certificate_text, names_of

        try:
            if not self.authority.exists():
                made = Authority.new("authority")
                _write(self._authority_key, made.key_pem)
                _write(self.authority, made.certificate_pem)
            certificate_text(self.authority.read_bytes())
            named = names_of(self._broker_key.read_bytes()) if self._broker_key.exists() else set()
            if not names <= named:
                authority = Authority.of_pem(self._authority_key.read_bytes(), self.authority.read_bytes())
                _write(self._broker_key, authority.broker(names | named))
        except ValueError as error:
            raise ConfigError(f"The keys in {self.path} cannot be read: {error}") from None

    def _stores(self) -> dict[str, str]:
        return {
            _KEY_LOCATION: str(self._broker_key.absolute()),
            _TRUST_LOCATION: str(self.authority.absolute()),
        }

    def _broker_settings(self, user: str) -> bytes:
        settings = {
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.enabled.mechanisms": ",".join(sorted(each.value for each in ScramMechanism)),
            "sasl.mechanism.inter.broker.protocol": MECHANISM.value,
            _JAAS: _jaas(BROKER_USER, secrets.token_urlsafe(_PASSWORD_BYTES)),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            **self._stores(),
            "authorizer.class.name": CLASS_NAME,
            SUPER_USERS: f"User:{BROKER_USER};User:{user}",
        }
        return _properties("What barnabas serve --secure stands for. Keep it secret.", settings)

    def _client_settings(self, user: str, password: str) -> bytes:
        from barnabas.node.certificates import certificate_text

        settings = {
            "security.protocol": PROTOCOL,
            "sasl.mechanism": MECHANISM.value,
            "sasl.jaas.config": _jaas(user, password),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": certificate_text(self.authority.read_bytes()),
        }
        return _properties("How a user connects, from any machine. Keep it secret.", settings)

    async def _make_users(self, user: str) -> None:
        folders = [found.parent for data in self._data for found in data.glob(f"*/{META_PROPERTIES}")]
        try:
            refuse_new_store_for_old_data(self._store, [str(each) for each in (*self._data, *folders)])
        except StoreUnusableError as error:
            raise ConfigError(str(error)) from error
        try:
            async with opened(None, self._store) as session:
                await completed(ensure_paths(session, (CONFIG_CHANGES,)))
                users = ConfigStore(session, LoopClock(asyncio.get_running_loop()))
                await _ensure(users, *_user_of(_read(self._broker), _JAAS, self._broker))
                if not self.client.exists():
                    password = secrets.token_urlsafe(_PASSWORD_BYTES)
                    await _ensure(users, user, password)
                    with _named_errors(self.path):
                        _write(self.client, self._client_settings(user, password))
        except (StoreError, StoreUnusableError) as error:
            raise ConfigError(f"The users cannot be written to {self._store}: {error}") from error

    def lines(self, listeners: Sequence[str], *, shared: bool = False) -> str:
        """How to connect to brokers that listen on these; `shared` says that it is the one address of all."""
        addresses = [each.partition("://")[2] for each in listeners]
        if self._advertised is not None:
            host = self._advertised.rpartition(":")[0]
            several = [f"{host}:{each.rpartition(':')[2]}" for each in addresses]
            addresses = [self._advertised] if len(addresses) == 1 and not shared else several
        return (
            f"secure user={self.user} settings={self.client} ca={self.authority}\n"
            f"Connect with: barnabas topics --list --bootstrap-server {','.join(addresses)}"
            f" --command-config {self.client}"
        )


def refuse_without(config: Config) -> None:
    """Raises ConfigError for a broker that would let everybody in to what was made with --secure."""
    store = metadata_path(config)
    if store is not None and not config["authorizer.class.name"]:
        made = store.parent / _BROKER_SETTINGS
        if made.exists():
            raise ConfigError(
                f"{store.parent} was made with --secure, and would be open to everybody without it: add "
                f"--secure, or remove {made}"
            )


async def _ensure(users: ConfigStore, user: str, password: str) -> None:
    """Writes the credential of a user, unless the one that is there is of this password."""
    entity = sanitize(user)
    values = await completed(users.read("users", entity))
    with contextlib.suppress(KeyError, ValueError):
        kept = parse_credential(MECHANISM, values[MECHANISM.value])
        made = ScramCredential.of_password(MECHANISM, password, kept.salt, kept.iterations)
        if secrets.compare_digest(kept.stored_key, made.stored_key):
            return
    made = ScramCredential.of_password(MECHANISM, password, salt_of(secrets.randbits(SALT_BITS)))
    await completed(users.write("users", entity, {**values, MECHANISM.value: made.text()}))


def _hosts(config: Config) -> Iterator[str]:
    """Where clients may come to."""
    protocols = parse_protocol_map(PROTOCOL_MAP_DEFAULT)
    for key in (LISTENERS, ADVERTISED):
        for endpoint in parse_endpoints(config[key] or "", protocols, distinct_ports=False):
            yield endpoint.host


def _names(hosts: Iterable[str]) -> set[str]:
    """The names of a certificate: those of this machine, and what clients may write."""
    names = {"localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts}
    found = set()
    for name in names.difference(_EVERYWHERE):
        try:
            found.add(str(ip_address(name)))
        except ValueError:
            if name.isascii():
                found.add(name)
    return found


def _jaas(user: str, password: str) -> str:
    return f'{MODULE} required username="{user}" password="{password}";'


def _user_of(settings: Mapping[str, str], key: str, file: Path) -> tuple[str, str]:
    """Name and password in a line of JAAS."""
    try:
        options = parse_jaas(settings[key], key).options
        return options["username"], options["password"]
    except KeyError:
        raise ConfigError(
            f"{file} has no {key} with username and password: remove the file to make it anew"
        ) from None


def _properties(comment: str, settings: Mapping[str, str]) -> bytes:
    lines = [f"# {comment}"]
    for key, value in settings.items():
        escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
        lines.append(f"{key}={escaped}")
    return ("\n".join(lines) + "\n").encode()


def _read(file: Path) -> dict[str, str]:
    with _named_errors(file):
        try:
            return read_properties(file.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            raise ConfigError(f"{file} is not a text in UTF-8") from None


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{error.filename or path}: {error.strerror}") from None


def _refuse_open(folder: Path) -> None:
    """Raises ConfigError for a folder in which others could put keys and users of their own."""
    if folder.stat().st_mode & 0o022:
        raise ConfigError(
            f"{folder} can be written by others, who could replace the keys in it: chmod go-w {folder}, or "
            "name a folder in it that is not there yet"
        )


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One start at a time: of two authorities one would have the key, the other the certificate."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(file: Path, data: bytes) -> None:
    """The file is there whole or not at all, and for its owner alone from the first byte."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as out:  # noqa: PTH123 - a descriptor
        out.write(data)
        out.flush()
        os.fsync(descriptor)
    new.replace(file)

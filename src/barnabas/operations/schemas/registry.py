"""A schema registry (Confluent's REST API): what the id before a value means."""

import base64
import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

from barnabas.core.errors import BarnabasError
from barnabas.network.tls_context import https_context
from barnabas.network.within import within

_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_BYTES_MAX: Final = 8 << 20
"""A schema with more is refused."""
_REFERENCES_MAX: Final = 100
_READS_MAX: Final = 3
"""How many time-outs one answer may take in all."""
AWAY: Final = "[SCHEMA_REGISTRY_AWAY]"
_NOT_FOUND: Final = 404
_FRAME_BYTES: Final = 5


def unframed(value: bytes) -> bytes:
    """What is behind a schema registry's frame: a 0 and the 4 bytes of an id.
    Raises ValueError where there is none.
    """
    if len(value) < _FRAME_BYTES or value[0] != 0:
        raise ValueError("it does not begin with a 0 and the id of a schema")
    return value[_FRAME_BYTES:]


def schema_id(value: bytes) -> int:
    """The id in a value's frame. Raises ValueError where there is none."""
    return int.from_bytes(value[1 : len(value) - len(unframed(value))])


class RegistryError(BarnabasError, ValueError):
    """What a registry says is of no use here, or it refuses the log-in."""


class RegistryAwayError(RegistryError):
    """The registry does not answer, or answers with an error of its own."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{AWAY} the schema registry {address} does not answer: {reason}")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a registry to another address without the log-in, which is for the one that was named."""

    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        """The request for the new address."""
        asked, following = args[0], super().redirect_request(*args)
        if following is not None and _origin(following.full_url) != _origin(asked.full_url):
            following.remove_header("Authorization")
        return following


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """Where a registry is, and how to log in to it. It may travel by pickle."""

    url: str
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = field(default="", repr=False)
    """The PEM of the authorities that its certificate is checked by; empty for those of the system."""
    timeout_s: float = 10.0

    def get(self, path: str) -> Any:
        """What it says of a path, None where it has none. Raises RegistryAwayError, and RegistryError where
        it refuses the log-in.
        """
        request = urllib.request.Request(f"{self.url}{path}", headers={"Accept": _ACCEPT})  # noqa: S310
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        handlers: list[urllib.request.BaseHandler] = [_Redirects()]
        if self.ca:
            handlers.append(urllib.request.HTTPSHandler(context=https_context(self.ca)))
        opener = urllib.request.build_opener(*handlers)

        def read() -> bytes:
            with opener.open(request, timeout=self.timeout_s) as answer:
                found: bytes = answer.read(_BYTES_MAX + 1)
                return found

        try:
            text = within(_READS_MAX * self.timeout_s, read)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == _NOT_FOUND:
                return None
            if error.code in {401, 403}:
                raise RegistryError(
                    f"the schema registry {self.url} refuses the user {self.username or 'without a name'} "
                    f"(HTTP {error.code})"
                ) from None
            raise RegistryAwayError(self.url, f"HTTP {error.code}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RegistryAwayError(self.url, str(getattr(error, "reason", error))) from None
        if len(text) > _BYTES_MAX:
            raise RegistryError(f"{self.url}{path} has more than {_BYTES_MAX:,} bytes")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise RegistryAwayError(self.url, "its answer is no JSON") from None

    def schema(self, number: int, *, compiled: bool = False) -> "RegisteredSchema | None":
        """The schema of an id with those that it refers to, None where there is none; `compiled` texts are
        descriptors of Protobuf in base64.
        """
        query = "?format=serialized" if compiled else ""
        found = self.get(f"/schemas/ids/{number}{query}")
        return None if found is None else self._whole(found, query)

    def latest(self, subject: str, *, compiled: bool = False) -> "tuple[int, int, RegisteredSchema] | None":
        """The newest version of a subject: its number, its id and the schema; None where there is none."""
        query = "?format=serialized" if compiled else ""
        found = self.get(f"/subjects/{quote(subject, safe='')}/versions/latest{query}")
        if found is None:
            return None
        try:
            return int(found["version"]), int(found["id"]), self._whole(found, query)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, RegistryError):
                raise
            raise RegistryAwayError(self.url, f"its answer is no version ({error})") from None

    def _whole(self, found: Any, query: str) -> "RegisteredSchema":
        try:
            named: dict[tuple[str, int], tuple[str, str]] = {}
            self._collect(found, named, query)
            return RegisteredSchema(
                str(found.get("schemaType", "AVRO")),
                str(found["schema"]),
                [text for _, text in named.values()],
                [name for name, _ in named.values()],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RegistryAwayError(self.url, f"its answer is no schema ({error})") from None

    def _collect(self, found: Any, named: dict[tuple[str, int], tuple[str, str]], query: str) -> None:
        """The schemas that one refers to, each behind those that it refers to itself."""
        for reference in found.get("references") or ():
            key = str(reference["subject"]), int(reference["version"])
            if key in named:
                continue
            if len(named) >= _REFERENCES_MAX:
                raise RegistryError(f"a schema of {self.url} refers to more than {_REFERENCES_MAX} others")
            one = self.get(f"/subjects/{quote(key[0], safe='')}/versions/{key[1]}{query}")
            if one is None:
                raise RegistryError(
                    f"{self.url} has no version {key[1]} of {key[0]}, which a schema refers to"
                )
            named[key] = "", ""  # a circle ends here
            self._collect(one, named, query)
            del named[key]
            named[key] = str(reference.get("name", "")), str(one["schema"])


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """What an id means."""

    kind: str
    """AVRO, PROTOBUF or JSON."""
    text: str
    references: list[str]
    """The texts of those that it refers to, each behind those that it refers to itself."""
    names: list[str] = field(default_factory=list)
    """What each of these is called where it is referred to."""

"""The control port of a broker in a process of its own (``barnabas serve --control``): faults, waits and
moves over HTTP, for tests in any language.

::

    GET    /                     the broker, and the faults that are planted
    POST   /faults               {"apis": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER"}
    GET    /faults/1/wait        ?hits=2&timeout_s=10
    DELETE /faults/1             and /faults for all of them
    GET    /groups/readers/wait  ?state=Stable&members=2&timeout_s=10
    POST   /leaders              {"topic": "orders", "partition": 0, "broker": 2}
    POST   /time                 {"advance_s": 60}
    POST   /disk                 {"full": true}
    GET    /disk/wait            ?hits=1&timeout_s=10

Answers are JSON; what cannot be is 400, what does not come in time 408, each with an "error" that says why.
It listens on 127.0.0.1 only, for whoever has a process on this machine, and takes no request that a page in
a browser could send: those name another host, or another type of content.
"""

import itertools
import json
import math
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from barnabas.admin import Admin, GroupState
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.testing.kafka import inspection
from barnabas.testing.kafka.fault import Fault
from barnabas.testing.kafka.full_disk import FillableDisk
from barnabas.testing.kafka.planted import WAIT_S, PlantedFault, PlantedFaults

_log = EventLog("testing.control")

BODY_BYTES_MAX: Final = 64 * 1024
WAIT_S_MAX: Final = 3600.0
ADVANCE_S_MAX: Final = 100.0 * 366 * 86_400
"""A time a century ahead: what a broker computes with it still fits into its numbers."""
_HOSTS: Final = frozenset({"127.0.0.1", "localhost"})


class _NoAnswerError(Exception):
    """An answer that is none of 200."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(error)
        self.status = status


class Control:
    """What the control port can do with a broker. Called by threads of the server."""

    def __init__(
        self,
        faults: PlantedFaults,
        bootstrap_servers: str,
        advance: Callable[[float], None],
        disk: FillableDisk,
    ) -> None:
        """`advance` moves the broker's time on, by seconds; `disk` is what it writes to."""
        self._faults = faults
        self._bootstrap_servers = bootstrap_servers
        self._advance = advance
        self._disk = disk
        self._planted: dict[int, PlantedFault] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._admin: Admin | None = None

    def close(self) -> None:
        """Ends its connection to the brokers."""
        if self._admin is not None:
            self._admin.close()

    def answer(self, method: str, path: list[str], given: dict[str, Any]) -> Any:
        """The answer to a request. Raises _NoAnswerError, ValueError, BarnabasError, AssertionError."""
        match (method, *path):
            case ("GET",):
                return {
                    "bootstrap_servers": self._bootstrap_servers,
                    "faults": self._list(),
                    "disk_full": self._disk.full,
                }
            case ("POST", "faults"):
                return self._plant(given)
            case ("GET", "faults"):
                return self._list()
            case ("DELETE", "faults"):
                self._remove_all()
                return {}
            case ("GET", "faults", number, "wait"):
                return self._wait(self._fault(number), given)
            case ("DELETE", "faults", number):
                self._remove(number)
                return {}
            case ("GET", "groups", group, "wait"):
                return self._wait_for_group(unquote(group), given)
            case ("POST", "leaders"):
                return self._move_leader(given)
            case ("POST", "time"):
                seconds = _number(given, "advance_s", None)
                _refuse_rest(given)
                if seconds > ADVANCE_S_MAX:
                    raise ValueError(f"advance_s={seconds:g}: it is at most {ADVANCE_S_MAX:g}")
                self._advance(seconds)
                return {}
            case ("POST", "disk"):
                return self._fill_disk(given)
            case ("GET", "disk", "wait"):
                return self._wait_for_disk(given)
        raise _NoAnswerError(404, f"there is nothing at {method} /{'/'.join(path)}")

    def _plant(self, given: dict[str, Any]) -> Any:
        planted = self._faults.plant(Fault.of(given))
        with self._lock:
            number = next(self._numbers)
            self._planted[number] = planted
        _log.info("fault.planted", number=number, fault=planted.fault)
        return _described(number, planted)

    def _list(self) -> Any:
        with self._lock:
            return [_described(number, planted) for number, planted in self._planted.items()]

    def _fault(self, number: str) -> PlantedFault:
        with self._lock:
            planted = self._planted.get(int(number) if number.isdecimal() else -1)
        if planted is None:
            raise _NoAnswerError(404, f"there is no fault {number}")
        return planted

    def _remove(self, number: str) -> None:
        self._fault(number).remove()
        with self._lock:
            self._planted.pop(int(number), None)

    def _remove_all(self) -> None:
        self._faults.clear()
        self._disk.free()
        with self._lock:
            self._planted.clear()

    def _wait(self, planted: PlantedFault, given: dict[str, Any]) -> Any:
        hits = _whole(given, "hits")
        timeout_s = _timeout(given)
        _refuse_rest(given)
        planted.wait(hits, timeout_s)
        return {"hits": planted.fired()}

    def _wait_for_group(self, group: str, given: dict[str, Any]) -> Any:
        state = str(given.pop("state", GroupState.STABLE))
        members = _whole(given, "members")
        timeout_s = _timeout(given)
        _refuse_rest(given)
        found = inspection.group_in(self._brokers, group, state, members, timeout_s)
        return {"group": group, "state": found.state, "members": len(found.members)}

    def _move_leader(self, given: dict[str, Any]) -> Any:
        topic = str(given.pop("topic", ""))
        if not topic:
            raise ValueError("topic is missing")
        partition, broker = int(_number(given, "partition", 0)), int(_number(given, "broker", None))
        timeout_s = _timeout(given)
        _refuse_rest(given)
        inspection.move_leader(self._brokers, topic, partition, broker, timeout_s)
        return {"topic": topic, "partition": partition, "leader": broker}

    def _fill_disk(self, given: dict[str, Any]) -> Any:
        full = given.pop("full", None)
        if full is not True and full is not False:
            raise ValueError(f"full={full}: it is true or false")
        _refuse_rest(given)
        if full:
            self._disk.fill()
        else:
            self._disk.free()
        _log.info("disk.filled" if full else "disk.freed")
        return {"disk_full": full, "hits": self._disk.refused()}

    def _wait_for_disk(self, given: dict[str, Any]) -> Any:
        hits = int(_number(given, "hits", 1))
        timeout_s = _timeout(given)
        _refuse_rest(given)
        self._disk.wait(hits, timeout_s)
        return {"hits": self._disk.refused()}

    @property
    def _brokers(self) -> Admin:
        with self._lock:
            if self._admin is None:
                self._admin = Admin(self._bootstrap_servers)
            return self._admin


def _described(number: int, planted: PlantedFault) -> dict[str, Any]:
    return {"id": number, "fault": str(planted.fault), "hits": planted.fired()}


def _number(given: dict[str, Any], name: str, default: float | None) -> float:
    value = given.pop(name, default)
    if value is None:
        raise ValueError(f"{name} is missing")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    # JSON as Python reads it has NaN and Infinity, which no clock and no wait can be given.
    if not math.isfinite(number):
        raise ValueError(f"{name}={value}: it is a number")
    return number


def _whole(given: dict[str, Any], name: str) -> int | None:
    """A whole number, None where it is not given."""
    return int(_number(given, name, None)) if name in given else None


def _timeout(given: dict[str, Any]) -> float:
    return min(_number(given, "timeout_s", WAIT_S), WAIT_S_MAX)


def _refuse_rest(given: dict[str, Any]) -> None:
    """A word that nobody understands is a slip of the pen."""
    if given:
        raise ValueError(f"there is no field {', '.join(given)}")


class ControlServer:
    """The port: a thread that takes requests, and one for each that waits."""

    def __init__(self, control: Control, port: int) -> None:
        """Binds 127.0.0.1; port 0 takes a free one. Raises OSError."""
        self._control = control

        class Handler(_Handler):
            """Requests of this port."""

        Handler.control = control
        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="barnabas-control", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Ends it; waits that are under way are left."""
        self._server.shutdown()
        self._server.server_close()
        self._control.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One who does not wait for an answer, as a test that was ended, is no fault of the broker."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    control: Control
    timeout = 60

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    def _handle(self) -> None:
        try:
            status, answer = 200, self._answer()
        except _NoAnswerError as error:
            status, answer = error.status, {"error": str(error)}
        except AssertionError as error:
            status, answer = 408, {"error": str(error)}
        except (ValueError, TypeError, BarnabasError) as error:
            status, answer = 400, {"error": str(error)}
        body = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> Any:
        if urlsplit(f"//{self.headers.get('Host', '')}").hostname not in _HOSTS:
            raise _NoAnswerError(403, "the control port answers to 127.0.0.1 only")
        place = urlsplit(self.path)
        path = [part for part in place.path.split("/") if part]
        if self.command == "POST":
            given = self._body()
        else:
            given = {name: values[-1] for name, values in parse_qs(place.query).items()}
        return self.control.answer(self.command, path, given)

    def _body(self) -> dict[str, Any]:
        if self.headers.get_content_type() != "application/json":
            raise _NoAnswerError(415, "send JSON, with Content-Type: application/json")
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > BODY_BYTES_MAX:
            raise _NoAnswerError(413, f"a body has at most {BODY_BYTES_MAX} bytes, and says how many")
        try:
            given = json.loads(self.rfile.read(int(size)))
        except RecursionError:
            raise _NoAnswerError(400, "send a JSON object that is less deep") from None
        if not isinstance(given, dict):
            raise _NoAnswerError(400, "send a JSON object")
        return given

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        _log.debug("control.request", request=format % args)

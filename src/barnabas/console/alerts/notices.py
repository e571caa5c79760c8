"""`Notifier`: tells a webhook and a mailbox of incidents, on a thread of its own."""

import http.client
import json
import queue
import smtplib
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from email.message import EmailMessage
from typing import Final

from barnabas.console.alerts.rules import Incident
from barnabas.core.eventlog import EventLog

_log = EventLog("console")
_WAITING_MAX: Final = 1_000
_TRIES: Final = 3
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where notices go; a password of a webhook is in its URL, which is never shown."""

    webhook: str | None = None
    smtp: str | None = None
    """HOST or HOST:PORT of a server that takes mail from here."""
    mail_from: str = "barnabas-console@localhost"
    mail_to: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is told."""
        return self.webhook is None and not (self.smtp and self.mail_to)


class Notifier:
    """Sends on a thread: `send` neither raises nor waits. What cannot be delivered in three tries is logged
    and shown.
    """

    def __init__(self, addresses: Addresses, retry_s: float = 5.0) -> None:
        self.problem: str | None = None
        self.addresses = addresses
        self._retry_s = retry_s
        self._waiting: queue.Queue[tuple[str, Incident]] = queue.Queue(_WAITING_MAX)
        self._thread: threading.Thread | None = None

    def send(self, cluster: str, incident: Incident) -> None:
        """Tells that an incident began or ended, some time soon."""
        if self.addresses.is_empty:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="barnabas-console-notices", daemon=True)
            self._thread.start()
        try:
            # As it is now: it may be over before its beginning is delivered.
            self._waiting.put_nowait((cluster, replace(incident)))
        except queue.Full:
            self.problem = f"more than {_WAITING_MAX} notices wait: this one was not sent"

    def _run(self) -> None:
        while True:
            cluster, incident = self._waiting.get()
            answers = [self._deliver(way, cluster, incident) for way in (self._post, self._mail)]
            self.problem = next((one for one in answers if one is not None), None)

    def _deliver(self, way: Callable[[str, Incident], None], cluster: str, incident: Incident) -> str | None:
        """Why it did not arrive; None where it did, or goes nowhere this way."""
        for left in reversed(range(_TRIES)):
            try:
                way(cluster, incident)
                return None
            except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
                # The URL may have a secret: only the kind of the error is said.
                kind = type(error).__name__
            if left:
                time.sleep(self._retry_s)
        _log.warning("console.notice", rule=incident.rule, error=kind)
        return f"a notice was not delivered: {kind}"

    def _post(self, cluster: str, incident: Incident) -> None:
        if self.addresses.webhook is None:
            return
        state = "firing" if incident.ended_ms is None else "resolved"
        body = json.dumps({"cluster": cluster, "state": state, **asdict(incident)}).encode()
        # The scheme was looked at when the console started.
        request = urllib.request.Request(  # noqa: S310
            self.addresses.webhook, body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            pass

    def _mail(self, cluster: str, incident: Incident) -> None:
        if self.addresses.smtp is None or not self.addresses.mail_to:
            return
        state = "firing" if incident.ended_ms is None else "resolved"
        message = EmailMessage()
        message["Subject"] = f"[{cluster}] {state}: {incident.rule}"
        message["From"], message["To"] = self.addresses.mail_from, ", ".join(self.addresses.mail_to)
        message.set_content("".join(f"{name}: {value}\n" for name, value in asdict(incident).items()))
        host, _, port = self.addresses.smtp.partition(":")
        with smtplib.SMTP(host, int(port or 25), timeout=_TIMEOUT_S) as server:
            server.send_message(message)

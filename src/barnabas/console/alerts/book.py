"""`AlertBook`: the rules and silences of one cluster, what fires, and what has fired; kept in the folder.

``alerts.json`` has rules, silences and the incidents that are open, and is replaced as a whole with each
change; what of it cannot be read is kept (`KeptSettings`). ``incidents.jsonl`` has a line for each beginning
and each end (`LineLog`). A restart goes on with the incidents that were open, under their ids, and tells
nobody a second time.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from barnabas.console.alerts.notices import Notifier
from barnabas.console.alerts.rules import AlertRule, Incident, RuleState
from barnabas.console.stores.line_log import LineLog
from barnabas.console.stores.private_files import KeptSettings
from barnabas.core.eventlog import EventLog
from barnabas.operations.clock import now_ms
from barnabas.operations.errors import OperationError

_log = EventLog("console")
RULES_MAX: Final = 200
SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Silence:
    """No notices of a rule until a time; its incidents are kept all the same."""

    rule: str
    until_ms: int
    by: str
    why: str


class AlertBook:
    """Of one cluster. Raises OperationError where a change cannot be kept."""

    def __init__(self, folder: Path, cluster: str, notifier: Notifier) -> None:
        self._folder = folder
        self._cluster = cluster
        self.notifier = notifier
        self._lock = threading.Lock()
        self._file = KeptSettings(folder / "alerts.json")
        self._incidents = LineLog(folder / "incidents.jsonl")
        self._unwritten: str | None = None
        kept = self._file.read(_kept)
        self.rules: dict[str, AlertRule]
        self.silences: dict[str, Silence]
        self._states: dict[tuple[str, str], RuleState]
        self.rules, self.silences, self._states = kept or ({}, {}, {})

    @property
    def problem(self) -> str | None:
        """Why rules of before do not count, or incidents are not written down."""
        return self._file.problem or self._unwritten

    def put(self, rule: AlertRule) -> AlertRule:
        """Keeps a rule, in place of one of the same name."""
        rule.check()
        with self._lock:
            if rule.name not in self.rules and len(self.rules) >= RULES_MAX:
                raise OperationError(f"there are {RULES_MAX} rules already")
            self._keep({**self.rules, rule.name: rule}, self.silences)
            self._drop_states(rule.name)
        return rule

    def remove(self, name: str) -> None:
        """Forgets a rule. Raises OperationError where there is none."""
        with self._lock:
            if name not in self.rules:
                raise OperationError(f"there is no rule {name!r}")
            self._keep(
                {key: one for key, one in self.rules.items() if key != name},
                {key: one for key, one in self.silences.items() if key != name},
            )
            self._drop_states(name)

    def silence(self, silence: Silence) -> Silence:
        """Keeps a silence, in place of the rule's former one. Raises OperationError."""
        with self._lock:
            if silence.rule not in self.rules:
                raise OperationError(f"there is no rule {silence.rule!r}")
            self._keep(self.rules, {**self.silences, silence.rule: silence})
        return silence

    def judge(self, at_ms: int, samples: Mapping[str, float]) -> list[Incident]:
        """Takes the samples of a time; the incidents that began or ended with it."""
        with self._lock:
            found = []
            for rule in self.rules.values():
                for series in self._watched(rule, samples):
                    state = self._states.setdefault((rule.name, series), RuleState())
                    incident = state.step(rule, self._cluster, series, at_ms, samples[series])
                    if incident is not None:
                        found.append(incident)
                    if state.begun_ms is None:
                        del self._states[rule.name, series]
            if found:
                self._write_down(found)
        for incident in found:
            silence = self.silences.get(incident.rule)
            if silence is None or silence.until_ms <= at_ms:
                self.notifier.send(self._cluster, incident)
        return found

    def firing(self) -> list[Incident]:
        """What fires now, the oldest first."""
        with self._lock:
            open_ = [one.incident for one in self._states.values() if one.incident is not None]
        return sorted(open_, key=lambda one: one.fired_ms)

    def past(self) -> list[Incident]:
        """What has fired, the newest first, at most `SHOWN_MAX`."""
        found: dict[str, Incident] = {}
        for line in islice(self._incidents.newest(), 2 * SHOWN_MAX):
            try:
                one = Incident(**json.loads(line))
            except (ValueError, TypeError):  # cut off by a kill
                continue
            found.setdefault(one.id, one)
        return sorted(found.values(), key=lambda one: -one.fired_ms)[:SHOWN_MAX]

    @staticmethod
    def _watched(rule: AlertRule, samples: Mapping[str, float]) -> list[str]:
        if not rule.series.endswith("*"):
            return [rule.series] if rule.series in samples else []
        return [series for series in samples if rule.watches(series)]

    def _drop_states(self, rule: str) -> None:
        """A rule that is another one, or none, begins anew: what was open under the former one is over."""
        dropped = [one for key, one in self._states.items() if key[0] == rule]
        self._states = {key: one for key, one in self._states.items() if key[0] != rule}
        over = [one.incident for one in dropped if one.incident is not None]
        for incident in over:
            incident.ended_ms = now_ms()
        if over:
            self._write_down(over)

    def _write_down(self, found: list[Incident]) -> None:
        try:
            self._incidents.append(*(json.dumps(asdict(one)) for one in found))
            self._replace(self.rules, self.silences)
            self._unwritten = None
        except (OSError, OperationError) as error:
            self._unwritten = f"incidents cannot be written to {self._folder}: {error}"
            _log.warning("console.incidents", folder=str(self._folder), error=error)

    def _keep(self, rules: dict[str, AlertRule], silences: dict[str, Silence]) -> None:
        self._replace(rules, silences)
        self.rules, self.silences = rules, silences

    def _replace(self, rules: dict[str, AlertRule], silences: dict[str, Silence]) -> None:
        kept = {
            "rules": [asdict(one) for one in rules.values()],
            "silences": [asdict(one) for one in silences.values()],
            "open": [asdict(one.incident) for one in self._states.values() if one.incident is not None],
        }
        self._file.write(kept)


def _kept(
    kept: Any,
) -> tuple[dict[str, AlertRule], dict[str, Silence], dict[tuple[str, str], RuleState]]:
    """The content of ``alerts.json``: all of it, or an error."""
    rules = {one["name"]: AlertRule(**one).check() for one in kept["rules"]}
    silences = {one["rule"]: Silence(**one) for one in kept["silences"]}
    open_ = [Incident(**one) for one in kept["open"]]
    return rules, silences, {(one.rule, one.series): RuleState(one.begun_ms, one.worst, one) for one in open_}

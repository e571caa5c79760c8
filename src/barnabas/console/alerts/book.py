"""`AlertBook`: the rules and silences of one cluster, what fires, and what has fired; kept in the folder.

``alerts.json`` has rules, silences and the incidents that are open, and is replaced as a whole with each
change; each field is looked at when it is read, and what cannot be read is kept (`KeptSettings`).
``incidents.jsonl`` has a line for each beginning and each end (`LineLog`). A restart goes on with the
incidents that were open, under their ids, and tells nobody a second time. An incident ends with its rule:
when that is removed or put again, or is no longer there at a start.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter

from barnabas.console.alerts.notices import Notifier
from barnabas.console.alerts.rules import AlertRule, Incident, RuleState, TimeMs
from barnabas.console.stores.line_log import LineLog
from barnabas.console.stores.private_files import KeptSettings, checked_part
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
    until_ms: TimeMs
    by: str
    why: str


_STRICT: Final = ConfigDict(extra="forbid", allow_inf_nan=False)
_RULES: Final = TypeAdapter(list[AlertRule], config=_STRICT)
_SILENCES: Final = TypeAdapter(list[Silence], config=_STRICT)
_OPEN: Final = TypeAdapter(list[Incident], config=_STRICT)
_INCIDENT: Final = TypeAdapter(Incident)


class AlertBook:
    """Of one cluster. Raises OperationError where a change cannot be kept."""

    def __init__(self, folder: Path, cluster: str, notifier: Notifier) -> None:
        self._folder = folder
        self._cluster = cluster
        self.notifier = notifier
        self._lock = threading.Lock()
        self._editing = threading.Lock()
        self._file = KeptSettings(folder / "alerts.json")
        self._incidents = LineLog(folder / "incidents.jsonl")
        self._unwritten: str | None = None
        kept = self._file.read(_kept)
        self.rules: dict[str, AlertRule]
        self.silences: dict[str, Silence]
        self._states: dict[tuple[str, str], RuleState]
        self.rules, self.silences, self._states = kept or ({}, {}, {})
        if any(rule not in self.rules for rule, _ in self._states):
            # The console was killed between the end of a rule and that of its incidents.
            self._end_states(lambda rule: rule not in self.rules)

    @property
    def problem(self) -> str | None:
        """Why rules of before do not count, or incidents are not written down."""
        return self._file.problem or self._unwritten

    @contextmanager
    def editing(self) -> Iterator[None]:
        """For a change from the reading of what was before: of two at once the later one sees the earlier."""
        with self._editing:
            yield

    def put(self, rule: AlertRule) -> AlertRule:
        """Keeps a rule, in place of one of the same name."""
        rule.check()
        with self._lock:
            if rule.name not in self.rules and len(self.rules) >= RULES_MAX:
                raise OperationError(f"there are {RULES_MAX} rules already")
            self._keep({**self.rules, rule.name: rule}, self.silences)
            self._end_states(lambda name: name == rule.name)
        return rule

    def remove(self, name: str) -> None:
        """Forgets a rule. Raises OperationError where there is none."""
        with self._lock:
            if name not in self.rules:
                raise OperationError(f"there is no rule {name!r}")
            silences = self.silences
            self._keep(
                {key: one for key, one in self.rules.items() if key != name},
                {key: one for key, one in self.silences.items() if key != name},
            )
            self._end_states(lambda rule: rule == name, silences)

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
                self._tell(incident, self.silences.get(incident.rule), at_ms)
        return found

    def _tell(self, incident: Incident, silence: Silence | None, at_ms: int) -> None:
        if silence is None or silence.until_ms <= at_ms:
            self.notifier.send(self._cluster, incident)

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
                one = _INCIDENT.validate_json(line)
            except ValueError:  # cut off by a kill
                continue
            found.setdefault(one.id, one)
        return sorted(found.values(), key=lambda one: -one.fired_ms)[:SHOWN_MAX]

    @staticmethod
    def _watched(rule: AlertRule, samples: Mapping[str, float]) -> list[str]:
        if not rule.series.endswith("*"):
            return [rule.series] if rule.series in samples else []
        return [series for series in samples if rule.watches(series)]

    def _end_states(
        self, is_over: Callable[[str], bool], silences: Mapping[str, Silence] | None = None
    ) -> None:
        """A rule that is another one, or none, begins anew: what was open under the former one is over.
        `silences` are those that counted until then; they go with a rule.
        """
        silences = self.silences if silences is None else silences
        dropped = [one for (rule, _), one in self._states.items() if is_over(rule)]
        self._states = {key: one for key, one in self._states.items() if not is_over(key[0])}
        over = [one.incident for one in dropped if one.incident is not None]
        for incident in over:
            incident.ended_ms = now_ms()
        if over:
            self._write_down(over)
        for incident in over:
            self._tell(incident, silences.get(incident.rule), now_ms())

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
    content: Any,
) -> tuple[dict[str, AlertRule], dict[str, Silence], dict[tuple[str, str], RuleState]]:
    """The content of ``alerts.json``: all of it, or an error."""
    rules = {one.name: one.check() for one in checked_part(_RULES, content["rules"], "rules")}
    silences = {one.rule: one for one in checked_part(_SILENCES, content["silences"], "silences")}
    open_ = checked_part(_OPEN, content["open"], "open")
    return rules, silences, {(one.rule, one.series): RuleState(one.begun_ms, one.worst, one) for one in open_}

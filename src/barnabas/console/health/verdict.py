"""The verdict on a cluster: the worst of its checks, and the sentences that say why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.console.health.checks import CHECKS
from barnabas.console.health.outcome import CheckOutcome, Level, outcome
from barnabas.console.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a cluster is."""

    level: Level
    reasons: Sequence[str]
    checks: Sequence[CheckOutcome]

    @property
    def is_bad(self) -> bool:
        """Whether somebody has to do something."""
        return self.level in {Level.WARNING, Level.CRITICAL}


def verdict(
    snapshot: ClusterSnapshot,
    now_ms: int,
    limits: Mapping[str, float] | None = None,
    problem: str | None = None,
) -> Verdict:
    """The verdict, with limits other than the default ones by the keys of checks.

    `problem` is why nothing can be read at all.
    """
    found = [outcome(check, snapshot, (limits or {}).get(check.key, check.limit), now_ms) for check in CHECKS]
    order = list(Level)
    worst = max((one.level for one in found if one.level is not Level.NO_SOURCE), key=order.index)
    if problem is not None:
        worst = max(worst, Level.CRITICAL, key=order.index)
    said = sorted(
        (one for one in found if one.level in {Level.CRITICAL, Level.WARNING, Level.UNKNOWN}),
        key=lambda one: -order.index(one.level),
    )
    unread = sum(one.level is Level.UNKNOWN for one in said)
    if problem is not None:  # one reason for all that is not known
        said = [one for one in said if one.level is not Level.UNKNOWN]
    reasons = [f"{one.title if one.level is Level.UNKNOWN else one.wrong}: {one.why}" for one in said]
    if problem is not None and unread:
        reasons.append(f"{unread} checks are not known")
    missing = sum(one.level is Level.NO_SOURCE for one in found)
    if not reasons and problem is None:
        reasons = [f"{len(found) - missing} checks are as they should be"]
    if missing:
        reasons.append(f"{missing} checks have no source")
    return Verdict(worst, [problem, *reasons] if problem is not None else reasons, found)

"""A plan: what a change does, and the call that does it; kept between its preview and its confirmation."""

import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from barnabas.admin import AsyncAdmin
from barnabas.client import AsyncProducer
from barnabas.console.access.roles import Need
from barnabas.console.fair_shares import make_room
from barnabas.operations.errors import OperationError

KEPT_MS: Final = 600_000
_PLANS_MAX: Final = 200
_EACH_MAX: Final = 50
"""Of one user: nobody pushes out what others are about to confirm."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What becomes of one thing."""

    subject: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Undo:
    """The action that takes a change back, with the parameters that it had before."""

    kind: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Planned:
    """What a planner comes to."""

    subject: str
    """What has to be typed to confirm it."""
    effects: Sequence[Effect]
    carry_out: Callable[[AsyncAdmin], Awaitable[None]] = field(repr=False)
    warnings: Sequence[str] = ()
    content: Sequence[tuple[str, str]] = ()
    """What is in a record that is produced: of the preview alone, never of the audit log."""
    produce: Callable[[AsyncProducer], Awaitable[str]] | None = field(default=None, repr=False)
    """In the place of `carry_out`, what a producer does; says where the record is."""
    undo: Undo | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan as it is shown."""

    id: str
    cluster: str
    kind: str
    subject: str
    effects: Sequence[Effect]
    warnings: Sequence[str]
    expires_ms: int
    content: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """A preview, and what it stands for."""

    preview: Preview
    user: str
    planned: Planned
    needs: Sequence[Need] = ()
    """The rights that it takes."""


class Plans:
    """The plans that wait for their confirmation. Nothing survives a restart: a preview of yesterday is
    none.
    """

    def __init__(self) -> None:
        self._plans: dict[str, KeptPlan] = {}

    def keep(
        self, cluster: str, kind: str, user: str, planned: Planned, now_ms: int, needs: Sequence[Need] = ()
    ) -> Preview:
        """The plan's preview. Raises OperationError for a plan that does nothing."""
        if not planned.effects:
            raise OperationError("nothing would change")
        self._forget(now_ms)
        make_room(self._plans, lambda one: one.user, user, each_max=_EACH_MAX, total_max=_PLANS_MAX)
        preview = Preview(
            secrets.token_urlsafe(16),
            cluster,
            kind,
            planned.subject,
            planned.effects,
            planned.warnings,
            now_ms + KEPT_MS,
            planned.content,
        )
        self._plans[preview.id] = KeptPlan(preview, user, planned, needs)
        return preview

    def needs(self, plan_id: str) -> list[Need]:
        """The rights that a plan takes; none for one that is not there."""
        plan = self._plans.get(plan_id)
        return [] if plan is None else list(plan.needs)

    def take(self, plan_id: str, cluster: str, user: str, confirm: str, now_ms: int) -> KeptPlan:
        """The plan, for once: nobody gets it a second time. Raises OperationError, and keeps it when only the
        confirmation was wrong.
        """
        self._forget(now_ms)
        plan = self._plans.get(plan_id)
        # Somebody else's plan is as good as none: what they confirm they must have seen.
        if plan is None or plan.user != user or plan.preview.cluster != cluster:
            raise OperationError(
                "there is no such preview: it was carried out, is too old, or was never made"
            )
        if not hmac.compare_digest(confirm.encode(), plan.preview.subject.encode()):
            raise OperationError(f"the confirmation is not {plan.preview.subject!r}: nothing was done")
        del self._plans[plan_id]
        return plan

    def _forget(self, now_ms: int) -> None:
        for key in [key for key, one in self._plans.items() if one.preview.expires_ms <= now_ms]:
            del self._plans[key]

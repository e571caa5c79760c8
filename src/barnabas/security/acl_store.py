"""`AclStore`: the access rules in the metadata store, and how every broker learns of changes
(the part of ``AclAuthorizer`` that reads and writes ZooKeeper).

Theory of operation
-------------------
The rules of one resource pattern lie in one znode. A change reads that znode, and writes it back only if it
still has the version that was read; another broker that was quicker is why there are ten more tries. A
pattern without rules has no znode. A notice names the pattern afterwards (`ChangeNotices`), so every broker
knows the new rules within moments.

Rules are read when the watch is there: what is written meanwhile leaves a notice. After a new session all of
them are read again, as notices may have come and gone. A pattern has been read before what a later notice
says of it is, as both ways are one queue.

A znode that is no list of rules counts as one rule that denies everything to everyone: whatever it was meant
to forbid is forbidden, nobody gets in by it, and the tools show and remove that rule like any other.
"""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from barnabas.cluster.metadata.change_notices import ChangeNotices, in_background
from barnabas.cluster.metadata.registration import ensure_paths
from barnabas.cluster.store import acl_znodes
from barnabas.cluster.store.absent import children_if_there
from barnabas.cluster.store.contract import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
)
from barnabas.cluster.store.unreadable import readable
from barnabas.core.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    is_principal,
)
from barnabas.core.clock import Clock
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.in_order import InOrder
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.slices import Sliced, sliced_pending
from barnabas.security.acl_index import AclIndex

_events: Final = EventLog("security.acls")

T = TypeVar("T")

RETRIES_MAX: Final = 10
RETRY_BACKOFF_MS: Final = 100
RETRY_JITTER_MS: Final = 50

DENIED_TO_ALL: Final = frozenset(
    {AccessControlEntry(WILDCARD_PRINCIPAL, WILDCARD, Operation.ALL, Permission.DENY)}
)
"""What counts for a pattern whose znode is unreadable."""

_REFUSED: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Characters that the name of a znode cannot have."""

_DECODE_NOTICE: Final = {
    PatternType.LITERAL: acl_znodes.decode_literal_notice,
    PatternType.PREFIXED: acl_znodes.decode_extended_notice,
}

_Change = Callable[[frozenset[AccessControlEntry]], Sliced[frozenset[AccessControlEntry]]]


class _Versioned(NamedTuple):
    entries: frozenset[AccessControlEntry]
    version: int
    """Of the znode; -1 where there is none."""


_NOTHING: Final = _Versioned(frozenset(), -1)


class AclsNotUpdatedError(BarnabasError):
    """Other brokers wrote the rules of the same pattern each time."""


class AclStore:
    """Keeps an index of all rules as the store has them, and changes them."""

    def __init__(self, store: MetadataStore, clock: Clock, rng: random.Random) -> None:
        self.index = AclIndex()
        self._store = store
        self._clock = clock
        self._rng = rng
        self._on_change: Callable[[], object] = lambda: None
        self._notices = {
            kind: ChangeNotices(
                store,
                clock,
                f"{path}/{acl_znodes.NOTICE_NAME}",
                decode=_DECODE_NOTICE[kind],
                apply=self._read_again,
                on_notice=partial(self._read_notices, kind),
            )
            for kind, path in acl_znodes.NOTICES.items()
        }
        self._queue = InOrder()

    @steps
    def start(self, on_change: Callable[[], object]) -> Steps[None]:
        """Makes the znodes that hold rules, watches the notices and reads all rules.

        `on_change` is called after every later change of the index.
        """
        self._on_change = on_change
        yield ensure_paths(self._store, acl_znodes.PATHS)
        self._store.listen(self)
        yield self._queue.run(self._watch_and_load)

    def session_expired(self) -> Pending[None]:
        """Nothing has to happen before the next session."""
        return Pending.of(None)

    def session_renewed(self) -> None:
        """The watches ended with the session, and notices may have come and gone."""
        self._in_background(self._watch_and_load)

    # ------------------------------------------------------------------------------------------ changes

    def create(self, bindings: Sequence[AclBinding]) -> Pending[list[KafkaError | None]]:
        """Adds rules; the error of each (``createAcls``).

        INVALID_REQUEST for what is no rule, UNKNOWN_SERVER_ERROR for what could not be written.
        """
        return sliced_pending(self._create(bindings), self._clock)

    def _create(self, bindings: Sequence[AclBinding]) -> Sliced[list[KafkaError | None]]:
        results: list[KafkaError | None] = []
        by_pattern: dict[ResourcePattern, list[int]] = {}
        for at, binding in enumerate(bindings):
            yield
            results.append(_problem(binding))
            if results[at] is None:
                by_pattern.setdefault(binding.pattern, []).append(at)
        for pattern, those in by_pattern.items():
            added = frozenset(bindings[at].entry for at in those)
            error = yield self._try_update(pattern, partial(_with, added))
            for at in those:
                results[at] = error
        return results

    def delete(
        self, filters: Sequence[AclFilter]
    ) -> Pending[list[list[tuple[AclBinding, KafkaError | None]]]]:
        """Removes the rules that filters match; those of each filter, with the error of each rule.

        A rule that several filters match stands with the first (``deleteAcls``).
        """
        return sliced_pending(self._delete(filters), self._clock)

    def _delete(
        self, filters: Sequence[AclFilter]
    ) -> Sliced[list[list[tuple[AclBinding, KafkaError | None]]]]:
        results: list[list[tuple[AclBinding, KafkaError | None]]] = [[] for _ in filters]
        patterns = dict.fromkeys(self.index.patterns())
        for each in filters:
            yield
            # A pattern that a filter names is read from the store: this broker may not know of it yet.
            patterns.update(dict.fromkeys(pattern for pattern in each.patterns() if _has_place(pattern)))
        for pattern in patterns:
            matching = []
            for at, each in enumerate(filters):
                yield
                if each.matches_pattern(pattern):
                    matching.append((at, each))
            if not matching:
                continue
            first: dict[AccessControlEntry, int] = {}
            error = yield self._try_update(pattern, partial(_without, matching, first))
            for entry, at in first.items():
                results[at].append((AclBinding(pattern, entry), error))
        return results

    @steps
    def _try_update(self, pattern: ResourcePattern, change: _Change) -> Steps[KafkaError | None]:
        try:
            yield self._queue.run(partial(self._update, pattern, change))
        except BarnabasError as error:
            _events.error("acls_not_updated", pattern=pattern, reason=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None

    @steps
    def _update(self, pattern: ResourcePattern, change: _Change) -> Steps[None]:
        """``updateResourceAcls``: one change of one pattern, repeated while others are quicker."""
        for attempt in range(RETRIES_MAX + 1):
            if attempt:
                yield self._pause(RETRY_BACKOFF_MS + self._rng.randrange(RETRY_JITTER_MS))
            now = yield self._read(pattern)
            new = yield sliced_pending(change(now.entries), self._clock)
            if new == now.entries:
                # Nothing to write; what was read may be news to this broker.
                self._put(pattern, new)
                return
            if not (yield self._write(pattern, now.version, new)):
                continue
            self._put(pattern, new)
            _events.info("acls_updated", pattern=pattern, rules=len(new))
            yield self._notices[pattern.pattern_type].write(acl_znodes.encode_notice(pattern))
            return
        raise AclsNotUpdatedError(
            f"Failed to update ACLs for {pattern} after trying a maximum of {RETRIES_MAX} times"
        )

    @steps
    def _write(
        self, pattern: ResourcePattern, version: int, entries: frozenset[AccessControlEntry]
    ) -> Steps[bool]:
        """Writes the rules if the znode still has the version; whether it had."""
        path = acl_znodes.pattern_path(pattern)
        try:
            if not entries:
                yield self._store.delete(path, version)
            elif version >= 0:
                yield self._store.set(path, acl_znodes.encode_acls(entries), version)
            else:
                yield self._store.create(path, acl_znodes.encode_acls(entries))
        except (BadVersionError, NodeExistsError, NoNodeError):
            return False
        return True

    def _pause(self, ms: float) -> Pending[None]:
        later: Pending[None] = Pending()
        self._clock.call_later(ms, lambda: later.complete(None))
        return later

    # ------------------------------------------------------------------------------------------ reading

    @steps
    def _read(self, pattern: ResourcePattern) -> Steps[_Versioned]:
        path = acl_znodes.pattern_path(pattern)
        try:
            data, stat = yield self._store.get(path)
        except NoNodeError:
            return _NOTHING
        entries = readable(self._store, path, acl_znodes.decode_acls, data)
        return _Versioned(DENIED_TO_ALL if entries is None else entries, stat.version)

    def _put(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> None:
        self.index.put(pattern, entries)
        self._on_change()

    @steps
    def _watch_and_load(self) -> Steps[None]:
        for notices in self._notices.values():
            yield notices.watch()
        found: set[ResourcePattern] = set()
        for kind, root in acl_znodes.ROOTS.items():
            for resource in acl_znodes.RESOURCES:
                where = acl_znodes.pattern_path(ResourcePattern(resource, "", kind)).rstrip("/")
                assert where.startswith(root)
                for name in (yield children_if_there(self._store, where)):
                    pattern = ResourcePattern(resource, name, kind)
                    found.add(pattern)
                    self._put(pattern, (yield self._read(pattern)).entries)
        # After a new session: rules whose znode went meanwhile.
        for pattern in [each for each in self.index.patterns() if each not in found]:
            self._put(pattern, ())

    def _read_notices(self, kind: PatternType) -> None:
        self._in_background(self._notices[kind].read)

    @steps
    def _read_again(self, pattern: ResourcePattern) -> Steps[None]:
        self._put(pattern, (yield self._read(pattern)).entries)
        _events.info("acls_changed", pattern=pattern)

    # ------------------------------------------------------------------------------------------ the queue

    def _in_background(self, work: Callable[[], Pending[None]]) -> None:
        in_background(self._queue, work, lambda error: _events.error("acls_not_read", error=error))

    def __repr__(self) -> str:
        return f"<AclStore {self.index!r}>"


def _with(
    added: frozenset[AccessControlEntry], now: frozenset[AccessControlEntry]
) -> Sliced[frozenset[AccessControlEntry]]:
    """The rules of a pattern with others."""
    yield
    return now | added


def _without(
    filters: Sequence[tuple[int, AclFilter]],
    first: dict[AccessControlEntry, int],
    now: frozenset[AccessControlEntry],
) -> Sliced[frozenset[AccessControlEntry]]:
    """The rules of a pattern without those that filters match; `first` gets the filter of each that goes."""
    for entry in sorted(now):
        for at, each in filters:
            yield
            if each.matches_entry(entry):
                first.setdefault(entry, at)
                break
    return now.difference(first)


def _problem(binding: AclBinding) -> KafkaError | None:
    """Why a rule cannot be kept (``validateAclBinding``, ``KafkaPrincipal``, ZooKeeper's ``PathUtils``)."""
    pattern, entry = binding
    is_unknown = (
        pattern.resource <= 0 or pattern.pattern_type <= 0 or entry.operation <= 0 or entry.permission <= 0
    )
    if is_unknown or "/" in pattern.name:
        return KafkaError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
    if not _has_place(pattern) or not is_principal(entry.principal):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


def _has_place(pattern: ResourcePattern) -> bool:
    """Whether the name can be that of a znode; no other pattern has rules."""
    name = pattern.name
    return name not in ("", ".", "..") and "/" not in name and _REFUSED.search(name) is None

"""Whether a user may have a path. It is asked before the parameters of a route are looked at. What stands in
a body, such as the topic of an action, the route asks for itself (`require`).
"""

from dataclasses import replace
from typing import Final, NamedTuple

from fastapi import Request

from barnabas.console.access.roles import EVERY, OPERATOR, Grants, Need, ResourceKind, Verb
from barnabas.console.access.rules import READ_RULES, Rule, action_needs
from barnabas.console.console import Console, ForbiddenError
from barnabas.console.snapshot import ClusterSnapshot

_BELOW: Final = ("/api/v1/clusters/{cluster}", "/c/{cluster}")
_OPEN: Final = frozenset({"/", "/api/v1/clusters", "/login", "/login/oidc", "/login/oidc/callback", "/logout",
                          "/api/v1/login", "/api/v1/logout", "/api/v1/healthz", "/metrics"})  # fmt: skip
"""For everybody who has logged in, or wants to. The lists of clusters, and metrics, are cut down to what the
user may know.
"""
_ADDING: Final = frozenset({"/api/v1/clusters", "/add-cluster"})
"""Where clusters are added; the first of them lists clusters, too, and that is open."""


class Sight(NamedTuple):
    """What a user sees of one cluster: `lists` is the kind of names that the page has a list of."""

    cluster: str
    grants: Grants
    lists: ResourceKind | None

    def cut(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Without the names that the reader may not have in this list."""
        if self.lists is None or self._sees("*"):
            return snapshot
        if self.lists is ResourceKind.TOPIC:
            topics = {name: one for name, one in (snapshot.topics.value or {}).items() if self._sees(name)}
            known = (
                snapshot.topics if snapshot.topics.value is None else replace(snapshot.topics, value=topics)
            )
            return replace(snapshot, topics=known)
        if self.lists is ResourceKind.GROUP:
            listings = {
                broker: one
                if one.value is None
                else replace(one, value=[each for each in one.value if self._sees(each.group_id)])
                for broker, one in snapshot.group_listings.items()
            }
            groups = {name: one for name, one in snapshot.groups.items() if self._sees(name)}
            positions = {name: one for name, one in snapshot.positions.items() if self._sees(name)}
            return replace(snapshot, group_listings=listings, groups=groups, positions=positions)
        found = snapshot.transactions
        if self.lists is ResourceKind.TRANSACTION and found.value is not None:
            seen = [one for one in found.value if self._sees(one.transactional_id)]
            return replace(snapshot, transactions=replace(found, value=seen))
        return snapshot

    def _sees(self, name: str) -> bool:
        assert self.lists is not None, "nothing is cut down"
        return self.grants.give(self.cluster, Need(self.lists, name))


def grants_of(console: Console, user: str) -> Grants:
    """What a user may do now. Raises UnreadableFileError."""
    return OPERATOR if console.login is None else console.login.grants(user)


def require(console: Console, user: str, cluster: str, needs: list[Need]) -> None:
    """Raises ForbiddenError for the first right that is not there."""
    grants = grants_of(console, user)
    for need in needs:
        if not grants.give(cluster, need):
            raise ForbiddenError(f"{user} may not {need} in {cluster}: no role says so")


async def check(request: Request) -> None:
    """Runs before each route of the application. Raises ForbiddenError."""
    console: Console = request.state.console
    if console.login is None:
        return
    path: str = request.scope["route"].path
    user: str = getattr(request.state, "user", "")
    if path in _ADDING and (request.method == "POST" or path == "/add-cluster"):
        # Which cluster it is stands in the body: whoever reads it asks for that one.
        if not grants_of(console, user).change_clusters():
            raise ForbiddenError(f"{user} may not add clusters: no role says so")
        return
    if path in _OPEN:
        return
    below = next((path.removeprefix(each) for each in _BELOW if path.startswith(each)), None)
    cluster = request.path_params.get("cluster", "")
    if below is None:
        raise ForbiddenError(f"{user} may not: {path} has no rule")
    if below.startswith("/actions/"):
        kind = request.path_params.get("kind") or below.removeprefix("/actions/")
        try:
            needs = action_needs(kind)
        except KeyError:
            raise ForbiddenError(f"{user} may not: there is no rule of {kind!r}") from None
        require(console, user, cluster, needs)
        return
    if below == "/remove" or below.startswith(("/alerts/", "/health/")):
        require(console, user, cluster, [Need(ResourceKind.CLUSTER, EVERY, Verb.CHANGE)])
        return
    if below in {"/plans/{plan_id}", "/audit/{plan_id}/undo"}:
        # The plan says which rights it takes, and the route asks for them. Who may change nothing does not
        # even learn whether there is such a plan.
        if not any(
            grants_of(console, user).give(cluster, Need(each, None, Verb.CHANGE)) for each in ResourceKind
        ):
            raise ForbiddenError(f"{user} may change nothing in {cluster}: no role says so")
        return
    rule: Rule | None = READ_RULES.get(below)
    if rule is None or request.method not in {"GET", "HEAD"}:
        raise ForbiddenError(f"{user} may not: {below} has no rule")
    given = {**request.query_params, **request.path_params}
    require(console, user, cluster, list(rule.needs({key: str(value) for key, value in given.items()})))
    request.state.sight = Sight(cluster, grants_of(console, user), rule.lists)

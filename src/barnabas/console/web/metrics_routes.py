"""``/metrics``: what the console knows of its clusters, in the text format of Prometheus."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Final

from fastapi import Depends, Request
from fastapi.responses import PlainTextResponse
from starlette.responses import Response

from barnabas.console.access.check import grants_of
from barnabas.console.access.roles import EVERY, Need, ResourceKind
from barnabas.console.console import Console, ForbiddenError
from barnabas.console.history.sampler import METRICS, samples_of
from barnabas.console.watched import WatchedCluster
from barnabas.console.web.routes import console_of_request, user_of
from barnabas.operations.clock import now_ms

_TYPE: Final = "text/plain; version=0.0.4"
_LEFT_OUT: Final = ("topic.", "group.offset", "broker.produce", "broker.fetch")
"""What brokers say themselves, topic by topic and request by request; positions of partitions."""
_OWN: Final = {
    "up": "1 while the cluster can be read",
    "round_seconds": "how long the last look at the cluster took",
    "refreshed_seconds": "how long ago the last look was over",
    "requests_total": "calls to the cluster since the start",
}
_LABELS: Final = {"check": "check", "group": "group", "broker": "broker", "log_dir": "log_dir"}


def metrics(request: Request, console: Annotated[Console, Depends(console_of_request)]) -> Response:
    """The clusters whose brokers and health the reader may see. Raises ForbiddenError where there is none."""
    grants, need = grants_of(console, user_of(request)), Need(ResourceKind.CLUSTER, EVERY)
    seen = [one for one in console.clusters.values() if grants.give(one.name, need)]
    if not seen:
        raise ForbiddenError(f"{user_of(request)} may not {need} anywhere: no role says so")
    return PlainTextResponse(exposition(seen), media_type=_TYPE)


def exposition(clusters: Iterable[WatchedCluster]) -> str:
    """The text. What is not known, or too old, is no sample."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for watched in clusters:
        now, cluster = now_ms(), {"cluster": watched.name}
        snapshot = watched.snapshot
        found["up"].append(_sample("up", cluster, float(watched.problem is None)))
        found["requests_total"].append(_sample("requests_total", cluster, snapshot.requests))
        if snapshot.refreshed_ms:
            found["round_seconds"].append(_sample("round_seconds", cluster, snapshot.round_ms / 1000))
            ago_s = (now - snapshot.refreshed_ms) / 1000
            found["refreshed_seconds"].append(_sample("refreshed_seconds", cluster, ago_s))
        for series, value in samples_of(snapshot, watched.trend, watched.verdict(now), now).items():
            metric, _, subject = series.partition("/")
            if metric.startswith(_LEFT_OUT):
                continue
            name = metric.replace(".", "_")
            label = _LABELS.get(metric.partition(".")[0])
            found[name].append(_sample(name, cluster | ({label: subject} if label else {}), value))
    docs = _OWN | {metric.replace(".", "_"): title for metric, (title, _) in METRICS.items()}
    lines = []
    for name, samples in found.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        head = f"barnabas_console_{name}"
        lines += [f"# HELP {head} {docs[name]}", f"# TYPE {head} {kind}", *samples]
    return "\n".join([*lines, ""])


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    said = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
    return f"barnabas_console_{name}{{{said}}} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

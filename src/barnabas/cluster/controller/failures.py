"""One log line for what went wrong with many partitions: a broker that dies may take thousands along."""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final

NAMED_MAX: Final = 10


def report(log: Callable[..., None], event: str, failures: Mapping[Any, Any], **fields: Any) -> None:
    """Logs the event, with the number of failures, the first of the partitions or replicas, and one reason."""
    if failures:
        named = ",".join(str(each) for each in islice(failures, NAMED_MAX))
        more = ",..." if len(failures) > NAMED_MAX else ""
        reason = next(iter(failures.values()))
        log(event, count=len(failures), partitions=f"{named}{more}", reason=reason, **fields)

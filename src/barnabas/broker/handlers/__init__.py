"""One file for each API. A file in this folder with a function under `@handles` is all that an API needs."""

from collections.abc import Collection
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from barnabas.broker.registry import HANDLERS, ApiTable

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")


def api_table(rebalance_protocols: Collection[str] = ("classic",)) -> ApiTable:
    """The APIs of a broker with these ``group.coordinator.rebalance.protocols``, in the order of their
    keys.
    """
    apis = [HANDLERS[key] for key in sorted(HANDLERS)]
    if "consumer" not in rebalance_protocols:
        apis = [replace(api, max_version=api.classic_max) for api in apis]
    return {int(api.key): api for api in apis}

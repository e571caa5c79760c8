"""One file for each API. A file in this folder with a function under `@handles` is all that an API needs."""

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from barnabas.broker.profiles import Profile
from barnabas.broker.registry import HANDLERS, ApiTable

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")


def wider(table: ApiTable, other: ApiTable) -> ApiTable:
    """The APIs of both tables, at all versions of both: what a broker handles whose profile changes, as
    connections keep the versions that they were told of.
    """
    both = dict(sorted({**other, **table}.items()))
    for key in table.keys() & other.keys():
        both[key] = replace(
            table[key],
            min_version=min(table[key].min_version, other[key].min_version),
            max_version=max(table[key].max_version, other[key].max_version),
        )
    return both


def api_table(profile: Profile) -> ApiTable:
    """The APIs of a broker with this profile, in the order of their keys, at the versions that it has."""
    apis = {}
    for key in sorted(HANDLERS.keys() & profile.versions.keys()):
        api = HANDLERS[key]
        low, high = profile.versions[key]
        apis[int(key)] = replace(
            api,
            min_version=max(low, api.min_version),
            max_version=min(high, api.max_version),
            advertised=key not in profile.between_brokers,
        )
    return apis

"""``admin.configs``: the configuration of topics and brokers."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from barnabas.admin.context import AdminContext, error_of
from barnabas.admin.types import (
    AlterConfigOp,
    AlterOp,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)
from barnabas.client import named
from barnabas.client.keyed_call import raise_first
from barnabas.core.config import ConfigType, Source
from barnabas.core.errors import BarnabasError
from barnabas.protocol.message import Response
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

Entries = dict[str, ConfigEntry]

Changes = Mapping[str, str | int | bool | None] | Iterable[AlterConfigOp]
"""New values by key, None for the default; or operations, of which there are more kinds."""

R = TypeVar("R", bound=Response)

_OF_ONE_BROKER: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)


class Configs:
    """Configurations. A broker knows only its own, so each broker is asked itself;
    any may speak for topics.
    """

    def __init__(self, context: AdminContext) -> None:
        self._context = context

    async def describe(
        self,
        resources: Iterable[ConfigResource] | ConfigResource,
        *,
        synonyms: bool = False,
        documentation: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, Entries]:
        """All keys of these resources by name; raises `KafkaError` for the first that cannot be described."""
        results = await self.try_describe(
            resources, synonyms=synonyms, documentation=documentation, timeout_ms=timeout_ms
        )
        return raise_first(results)

    async def try_describe(
        self,
        resources: Iterable[ConfigResource] | ConfigResource,
        *,
        synonyms: bool = False,
        documentation: bool = False,
        keys: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, Entries | BarnabasError]:
        """As `describe`, with an error per resource; only these keys where some are named."""
        wanted = None if keys is None else named.names(keys, "keys")
        deadline = self._context.deadline(timeout_ms)
        requests = [
            (
                broker,
                DescribeConfigsRequest(
                    resources=[
                        DescribeConfigsResource(
                            resource_type=one.type, resource_name=one.name, configuration_keys=wanted
                        )
                        for one in members
                    ],
                    include_synonyms=synonyms,
                    include_documentation=documentation,
                ),
            )
            for broker, members in _by_broker(_resources(resources)).items()
        ]
        responses = await asyncio.gather(
            *(
                self._context.send_to(broker, request, DescribeConfigsResponse, deadline)
                for broker, request in requests
            )
        )
        return {
            ConfigResource(ResourceType(one.resource_type), one.resource_name): (
                error_of(one.error_code, one.error_message)
                or {entry.name: _entry(entry) for entry in one.configs}
            )
            for response in responses
            for one in response.results
        }

    async def alter(
        self,
        changes: Mapping[ConfigResource, Changes],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Sets these keys, and deletes those with None; or does what the operations say.

        Raises `KafkaError` for the first resource that is refused; others may have been changed all the same.
        """
        raise_first(await self.try_alter(changes, validate_only=validate_only, timeout_ms=timeout_ms))

    async def try_alter(
        self,
        changes: Mapping[ConfigResource, Changes],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[ConfigResource, BarnabasError | None]:
        """As `alter`, with an error per resource."""
        changes = named.by_key(changes, "changes", "resource")
        deadline = self._context.deadline(timeout_ms)
        requests = [
            (
                broker,
                IncrementalAlterConfigsRequest(
                    resources=[_change(one, changes[one]) for one in members], validate_only=validate_only
                ),
            )
            for broker, members in _by_broker(_resources(changes)).items()
        ]
        responses = await asyncio.gather(
            *(
                self._context.send_to(broker, request, IncrementalAlterConfigsResponse, deadline)
                for broker, request in requests
            )
        )
        return {
            ConfigResource(ResourceType(one.resource_type), one.resource_name): error_of(
                one.error_code, one.error_message
            )
            for response in responses
            for one in response.responses
        }

    async def list_resources(
        self, types: Iterable[ResourceType] = (), *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """The resources of these types, or of all, that have or may have a configuration (KIP-1142).

        Types that this client does not know are left out. Raises `KafkaError`, and `UnsupportedVersionError`
        for a broker that cannot say.
        """
        wanted = named.numbers(types, "types of resources")
        deadline = self._context.deadline(timeout_ms)
        request = ListConfigResourcesRequest(resource_types=[int(one) for one in wanted])
        response = await self._context.cluster.send_to_any(request, ListConfigResourcesResponse, deadline)
        if error := error_of(response.error_code, None):
            raise error
        known = set(ResourceType)
        return [
            ConfigResource(ResourceType(one.resource_type), one.resource_name)
            for one in response.config_resources
            if one.resource_type in known
        ]


def _by_broker(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    grouped: dict[int | None, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in _OF_ONE_BROKER and resource.name.isdigit()
        grouped.setdefault(int(resource.name) if own else None, []).append(resource)
    return grouped


def _change(resource: ConfigResource, changes: Changes) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=[
            AlterableConfig(name=one.name, config_operation=one.op, value=one.value)
            for one in _operations(changes)
        ],
    )


def _resources(given: Iterable[ConfigResource] | ConfigResource) -> list[ConfigResource]:
    resources = named.several(
        given, ConfigResource, "a resource is ConfigResource.topic(name), or of another type"
    )
    named.names([one.name for one in resources], "resources")
    return resources


def _operations(changes: Changes) -> Iterable[AlterConfigOp]:
    if not isinstance(changes, Mapping):
        return named.several(
            changes, AlterConfigOp, "changes are a dict of values by key, or operations, AlterConfigOp(...)"
        )
    return [
        AlterConfigOp(name, named.value(value), AlterOp.DELETE if value is None else AlterOp.SET)
        for name, value in changes.items()
    ]


def _entry(answer: DescribeConfigsResourceResult) -> ConfigEntry:
    source = _source(answer.config_source)
    if answer.config_source < 0 and answer.is_default:
        source = Source.DEFAULT  # v0 says only whether it is the default
    return ConfigEntry(
        name=answer.name,
        value=answer.value,
        source=source,
        is_read_only=answer.read_only,
        is_sensitive=answer.is_sensitive,
        synonyms=[ConfigSynonym(one.name, one.value, _source(one.source)) for one in answer.synonyms],
        type=ConfigType(answer.config_type) if answer.config_type in set(ConfigType) else None,
        documentation=answer.documentation,
    )


def _source(number: int) -> Source | None:
    return Source(number) if number in set(Source) else None

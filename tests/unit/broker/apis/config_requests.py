"""Requests about configurations, and what their answers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import klamm.protocol.messages.alter_configs as replacing
import klamm.protocol.messages.incremental_alter_configs as altering
from klamm.protocol.api import ApiKey
from klamm.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from unit.broker.apis.admin_jar import AdminJar

Restart = Callable[[AdminJar], AdminJar]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)

Operation = tuple[str, int, str | None]


def alter(
    jar: AdminJar, resource: tuple[int, str], *operations: Operation, version: int = 1, dry: bool = False
) -> int:
    return alter_all(jar, [(resource, operations)], version=version, dry=dry)[0]


def alter_all(
    jar: AdminJar,
    changes: Sequence[tuple[tuple[int, str], Sequence[Operation]]],
    *,
    version: int = 1,
    dry: bool = False,
) -> list[int]:
    request = altering.IncrementalAlterConfigsRequest(
        resources=[
            altering.AlterConfigsResource(*resource, [altering.AlterableConfig(*each) for each in operations])
            for resource, operations in changes
        ],
        validate_only=dry,
    )
    answers = jar.client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request).responses
    assert [(each.resource_type, each.resource_name) for each in answers] == [each for each, _ in changes]
    assert all((each.error_message is None) == (each.error_code == 0) for each in answers)
    return [each.error_code for each in answers]


def replace(
    jar: AdminJar,
    resource: tuple[int, str],
    *entries: tuple[str, str | None],
    version: int = 2,
    dry: bool = False,
) -> int:
    request = replacing.AlterConfigsRequest(
        resources=[
            replacing.AlterConfigsResource(*resource, [replacing.AlterableConfig(*each) for each in entries])
        ],
        validate_only=dry,
    )
    (answer,) = jar.client.ask(ApiKey.ALTER_CONFIGS, version, request).responses
    return int(answer.error_code)


def describe(
    jar: AdminJar, resource: tuple[int, str], keys: Sequence[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest([DescribeConfigsResource(*resource, keys)], True, version >= 3)
    (result,) = jar.client.ask(ApiKey.DESCRIBE_CONFIGS, version, request).results
    assert isinstance(result, DescribeConfigsResult)
    return result


def entry(jar: AdminJar, resource: tuple[int, str], key: str) -> DescribeConfigsResourceResult:
    (found,) = describe(jar, resource, [key]).configs
    return found


def synonyms(found: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in found.synonyms]

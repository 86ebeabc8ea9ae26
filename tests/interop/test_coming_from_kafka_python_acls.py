"""ACLs of kafka-python's admin: the same with it and with `klamm.compat.kafka`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.testing import SecureBroker

pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.mark.parametrize("library", ["kafka", "klamm.compat.kafka"], ids=["theirs", "ours"])
def test_acls_are_created_described_and_deleted(library: str, tmp_path: Path) -> None:
    lib = importlib.import_module(f"{library}.admin")
    errors = importlib.import_module(f"{library}.errors")
    with SecureBroker(clock="system") as broker:
        login = broker.client("boss")
        broker.allow("boss", "alter", "describe", cluster="kafka-cluster")
        authority = tmp_path / "ca.pem"
        authority.write_text(broker.ca_pem)
        admin = lib.KafkaAdminClient(
            bootstrap_servers=login["bootstrap.servers"],
            security_protocol="SASL_SSL",
            ssl_cafile=str(authority),
            sasl_mechanism=login["sasl.mechanism"],
            sasl_plain_username="boss",
            sasl_plain_password=login["sasl.password"],
        )
        allow, operations, kinds = lib.ACLPermissionType.ALLOW, lib.ACLOperation, lib.ACLResourcePatternType
        topic = lib.ResourcePattern(lib.ResourceType.TOPIC, "orders")
        reading = lib.ACL("User:a", "*", operations.READ, allow, topic)
        wrong = lib.ACL("nobody", "*", operations.READ, allow, topic)
        assert admin.create_acls([reading, wrong]) == {
            "succeeded": [reading],
            "failed": [errors.InvalidRequestError],
        }

        def chosen(name: Any, kind: Any, principal: Any = None) -> Any:
            pattern = lib.ResourcePatternFilter(lib.ResourceType.TOPIC, name, kind)
            return lib.ACLFilter(principal, None, operations.ANY, lib.ACLPermissionType.ANY, pattern)

        every = chosen(None, kinds.ANY)
        assert admin.describe_acls(every) == ([reading], errors.NoError)
        assert admin.describe_acls(chosen("orders", kinds.MATCH, "User:a")) == ([reading], errors.NoError)
        assert admin.describe_acls(chosen("orders", kinds.PREFIXED)) == ([], errors.NoError)
        assert admin.delete_acls([every]) == [(every, [reading], errors.NoError)]
        assert admin.delete_acls([every]) == [(every, [], errors.NoError)]
        wrong_calls: list[Callable[[], Any]] = [
            lambda: admin.create_acls([every]),
            lambda: lib.ResourcePattern(lib.ResourceType.ANY, "t"),
            lambda: lib.ACL("User:a", "*", operations.ANY, allow, topic),
        ]
        for refused in wrong_calls:
            with pytest.raises(errors.IllegalArgumentError):
                refused()
        admin.close()

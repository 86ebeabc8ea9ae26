"""Operations on ACLs, users and quotas, each as a future."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future

from klamm.access.acls import Acl, AclFilter
from klamm.client.admin import access, access_arguments, arguments, quotas
from klamm.client.admin.access_model import QuotaEntity, ScramMechanism
from klamm.client.admin.arguments import milliseconds
from klamm.client.admin.operations_host import OperationsHost
from klamm.client.admin.results import Results


class AccessOperations(OperationsHost):
    """Who may connect, what they may do, and how fast."""

    def create_acls(
        self, acls: Acl | Iterable[Acl], *, raise_errors: bool = True, timeout: float | None = None
    ) -> Future[Results[Acl, None]]:
        """Add ACLs, as in `[Acl.of("User:alice", "read", "topic", "orders")]`; one that exists stays."""
        wanted, due_ms = access_arguments.acls(acls), milliseconds(timeout)
        return self._each(raise_errors, lambda calls: access.create_acls(calls, wanted, timeout_ms=due_ms))

    def describe_acls(
        self, matching: AclFilter | Acl | None = None, *, timeout: float | None = None
    ) -> Future[list[Acl]]:
        """The ACLs that a filter selects, or all; by resource, denials first."""
        chosen, due_ms = access_arguments.acl_filter(matching), milliseconds(timeout)
        return self._run(lambda calls: access.describe_acls(calls, chosen, timeout_ms=due_ms))

    def delete_acls(
        self,
        filters: Acl | AclFilter | Iterable[Acl | AclFilter],
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[AclFilter, list[Acl]]]:
        """Delete these ACLs, and those that filters select; returns what was deleted."""
        chosen, due_ms = access_arguments.acl_filters(filters), milliseconds(timeout)
        return self._each(raise_errors, lambda calls: access.delete_acls(calls, chosen, timeout_ms=due_ms))

    def describe_users(
        self,
        names: str | Iterable[str] | None = None,
        *,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, dict[ScramMechanism, int]]]:
        """The SCRAM mechanisms of users, or of all users, each with its iterations; never a key."""
        chosen, due_ms = access_arguments.some_users(names), milliseconds(timeout)
        return self._each(raise_errors, lambda calls: access.describe_users(calls, chosen, timeout_ms=due_ms))

    def set_passwords(
        self,
        passwords: Mapping[str, str],
        *,
        mechanism: ScramMechanism | str = ScramMechanism.SHA_512,
        iterations: int = access_arguments.MIN_ITERATIONS,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, None]]:
        """Make SCRAM users, or give them new passwords, as in `{"alice": password}`.

        The broker is sent a salted hash, not the password. A user can have one password for each mechanism.
        """
        how, due_ms = access_arguments.mechanism(mechanism), milliseconds(timeout)
        upserts = access_arguments.credentials(passwords, how, iterations)
        return self._each(
            raise_errors, lambda calls: access.alter_users(calls, upserts=upserts, timeout_ms=due_ms)
        )

    def delete_users(
        self,
        names: str | Iterable[str],
        *,
        mechanism: ScramMechanism | str | None = None,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[str, None]]:
        """Delete the credentials of SCRAM users, or those for one mechanism; connections stay open."""
        chosen, due_ms = list(dict.fromkeys(arguments.texts(names, "user"))), milliseconds(timeout)
        how = None if mechanism is None else access_arguments.mechanism(mechanism)
        return self._each(
            raise_errors, lambda calls: access.delete_users(calls, chosen, how, timeout_ms=due_ms)
        )

    def describe_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False, timeout: float | None = None
    ) -> Future[dict[QuotaEntity, dict[str, float]]]:
        """All quotas, or those of entities with these names: `QuotaEntity(user="alice")` finds those of her
        client ids, too. With `strict` of this entity alone.
        """
        chosen = None if entity is None else access_arguments.entity(entity)
        is_strict, due_ms = arguments.flag(strict, "strict"), milliseconds(timeout)
        return self._run(
            lambda calls: quotas.describe_quotas(calls, chosen, is_strict=is_strict, timeout_ms=due_ms)
        )

    def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        raise_errors: bool = True,
        timeout: float | None = None,
    ) -> Future[Results[QuotaEntity, None]]:
        """Set quotas: `{QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}}`; None removes one."""
        wanted, due_ms = access_arguments.quotas(changes), milliseconds(timeout)
        dry = arguments.flag(validate_only, "validate_only")
        return self._each(
            raise_errors,
            lambda calls: quotas.alter_quotas(calls, wanted, validate_only=dry, timeout_ms=due_ms),
        )

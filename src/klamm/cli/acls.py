"""`klamm acls`: who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer

from klamm.access.acls import (
    WILDCARD,
    Acl,
    AclEntry,
    AclFilter,
    AclPattern,
    PatternType,
    PermissionType,
    ResourceType,
    word_of,
)
from klamm.cli.acl_checks import acls_about, of_single_hosts, openness, verdicts
from klamm.cli.acl_words import (
    COLUMNS,
    Can,
    Cluster,
    Group,
    Need,
    Topic,
    TransactionalId,
    as_json,
    cells,
    in_words,
    needs_of,
    operation_of,
    principal_of,
    resources_of,
)
from klamm.cli.cluster import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_TIMEOUT,
    AsJson,
    Bootstrap,
    Timeout,
    an_admin,
    finish,
    print_json,
    print_table,
)
from klamm.cli.exit_codes import NEEDS_ATTENTION
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.errors import BrokerError, KlammError
from klamm.protocol.errors import ErrorCode

_VERDICT_COLUMNS: Final = ("verdict", "operation", "resource", "name", "reason")

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""Access control lists: who may do what.

An ACL allows or denies one operation on a resource to a principal. A denial decides over all that allows;
what no ACL allows is denied. READ and WRITE on a topic allow to describe it as well. Super users
(super.users of the brokers) need no ACL.

\b
  klamm acls add alice --can consume --topic orders --group billing
  klamm acls check alice --can read --topic orders
""",
)
Principal = Annotated[
    str,
    typer.Argument(
        metavar="PRINCIPAL", help="The user: alice is short for User:alice; 'User:*' means all users."
    ),
]
SomePrincipal = Annotated[
    str | None,
    typer.Argument(
        metavar="[PRINCIPAL]", help="The user whose ACLs are meant, as in alice or 'User:*'; default: any."
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="IP", help="The address that the user connects from; default: any address."
    ),
]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="Names are prefixes: orders- means every name that begins so.")
]
Deny = Annotated[bool, typer.Option("--deny", help="Deny in place of allowing.")]


@app.command(name="list")
def list_acls(
    principal: SomePrincipal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="List only ACLs with exactly these names: no prefixes, no '*'."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json_: AsJson = False,
) -> None:
    """List ACLs: all, those of a principal, or all that concern a resource, prefixes and '*' among them.

    \b
      klamm acls list
      klamm acls list alice
      klamm acls list --topic orders
    """
    who = None if principal is None else principal_of(principal)
    resources = resources_of(topic, group, transactional_id, cluster)
    filters = [
        AclFilter(kind, PatternType.LITERAL if exact else None, name, not exact, principal=who)
        for kind, name in resources
    ] or [AclFilter(principal=who)]
    with an_admin(bootstrap, timeout) as admin:
        found = dict.fromkeys(acl for each in filters for acl in admin.describe_acls(each))
    if as_json_:
        print_json([as_json(acl) for acl in found])
    elif found:
        print_table(COLUMNS, map(cells, found))
    else:
        echo("There are no ACLs" + (" that match." if resources or who else "."))


@app.command()
def add(
    principal: Principal,
    can: Can = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the ACLs that would be added; add none.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json_: AsJson = False,
) -> None:
    """Allow, or with --deny forbid, operations on resources to a principal.

    The role consume is READ on the topics and groups, produce is WRITE on the topics and transactional ids:
    name all that the program uses. Where brokers have allow.everyone.if.no.acl.found=true, the first ACL of a
    resource closes it to all whom no ACL allows it.

    \b
      klamm acls add alice --can consume --topic orders --group billing
      klamm acls add etl --can produce --topic out- --transactional-id etl- --prefixed
      klamm acls add bob --can all --topic '*' --deny --host 10.0.0.7
      klamm acls add ops --can describe,alter --cluster
    """
    needs = needs_of(can, resources_of(topic, group, transactional_id, cluster))
    if prefixed and any(need.resource_type is ResourceType.CLUSTER for need in needs):
        fail("--prefixed and --cluster cannot be combined: the cluster has one name", MISUSED)
    wanted = [_acl(principal_of(principal), need, prefixed, host, deny) for need in needs]
    with an_admin(bootstrap, timeout) as admin:
        there = {acl for each in wanted for acl in admin.describe_acls(each)}
        new = [acl for acl in wanted if acl not in there]
        errors: dict[Acl, KlammError] = {}
        if not dry_run and new:
            errors = admin.create_acls(new, raise_errors=False).errors
    done = [acl for acl in new if acl not in errors]
    if as_json_:
        print_json(
            {"dry_run": dry_run, "added": _rows(done), "already_there": _rows(sorted(there, key=cells))}
        )
    else:
        for acl in wanted:
            if acl not in errors:
                verb = "exists already" if acl in there else "would be added" if dry_run else "added"
                echo(f"{verb}: {in_words(acl)}")
    finish(errors)


def _acl(principal: str, need: Need, prefixed: bool, host: str | None, deny: bool) -> Acl:
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = PermissionType.DENY if deny else PermissionType.ALLOW
    return Acl(
        AclPattern(need.resource_type, kind, need.name),
        AclEntry(principal, host or WILDCARD, need.operation, permission),
    )


@app.command()
def remove(
    principal: SomePrincipal = None,
    can: Can = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="allow|deny", help="Remove only ACLs that allow, or only those that deny."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the ACLs that would be removed; remove none.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json_: AsJson = False,
) -> None:
    """Remove the ACLs of a principal, of resources, or of a principal on resources.

    Names are exact: --topic orders keeps an ACL for the prefix ord, or for '*'. See `klamm acls list` first,
    or use --dry-run. Exit code 1 if nothing matches.

    \b
      klamm acls remove alice
      klamm acls remove alice --can read --topic orders
      klamm acls remove --topic orders --dry-run
    """
    resources = resources_of(topic, group, transactional_id, cluster)
    if principal is None and not resources:
        fail("nothing to remove: name a principal or a resource", MISUSED)
    filters = _removals(None if principal is None else principal_of(principal), can, resources, prefixed)
    filters = [replace(each, host=host, permission=_permission(only)) for each in filters]
    errors: dict[AclFilter, KlammError] = {}
    with an_admin(bootstrap, timeout) as admin:
        if dry_run:
            found = dict.fromkeys(acl for each in filters for acl in admin.describe_acls(each))
        else:
            results = admin.delete_acls(filters, raise_errors=False)
            errors = results.errors
            found = dict.fromkeys(acl for deleted in results.successes.values() for acl in deleted)
    if as_json_:
        print_json({"dry_run": dry_run, "removed": _rows(found)})
    else:
        for acl in found:
            echo(f"{'would be removed' if dry_run else 'removed'}: {in_words(acl)}")
    finish(errors)
    if not found:
        fail("no ACL matches: `klamm acls list` shows those that there are")


def _removals(
    principal: str | None, can: str | None, resources: Sequence[tuple[ResourceType, str]], prefixed: bool
) -> list[AclFilter]:
    """What selects the ACLs to remove: operations on resources, all on resources, or of a principal."""
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    if resources and can:
        return [
            AclFilter(need.resource_type, kind, need.name, principal=principal, operation=need.operation)
            for need in needs_of(can, resources)
        ]
    if resources:
        return [AclFilter(each, kind, name, principal=principal) for each, name in resources]
    if prefixed:
        fail("--prefixed is about names: name a --topic, --group or --transactional-id", MISUSED)
    if not can:
        return [AclFilter(principal=principal)]
    operations = [operation_of(word) for word in can.split(",")]
    return [AclFilter(principal=principal, operation=each) for each in operations]


def _permission(only: str | None) -> PermissionType | None:
    if only is None:
        return None
    try:
        return word_of(only, PermissionType, "--only")
    except ValueError as error:
        fail(error, MISUSED)


def _rows(acls: Sequence[Acl] | dict[Acl, None]) -> list[dict[str, object]]:
    return [as_json(acl) for acl in acls]


@app.command()
def check(
    principal: Principal,
    can: Can = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    host: Host = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json_: AsJson = False,
) -> None:
    """Say whether a principal may do something, and which ACL decides.

    Exit code 0 if all of it is allowed, 3 if something is denied or cannot be known. Brokers do not show
    their super.users, and Apache Kafka not its allow.everyone.if.no.acl.found: both can allow more than ACLs.

    \b
      klamm acls check alice --can consume --topic orders --group billing
      klamm acls check bob --can delete --topic orders --host 10.0.0.7
    """
    who, needs = principal_of(principal), needs_of(can, resources_of(topic, group, transactional_id, cluster))
    with an_admin(bootstrap, timeout) as admin:
        try:
            acls = acls_about(admin, needs)
        except BrokerError as error:
            if error.error_code != ErrorCode.security_disabled:
                raise
            return _everything_is_allowed(who, as_json_)
        known = openness(admin)
    found = verdicts(who, host, needs, acls, known)
    left_out = 0 if host else of_single_hosts(who, acls)
    if as_json_:
        print_json(
            {
                "principal": who,
                "host": host,
                "has_authorizer": True,
                "super_users_known": known.super_users is not None,
                "acls_of_single_hosts_left_out": left_out,
                "checks": [each.as_json() for each in found],
            }
        )
    else:
        print_table(_VERDICT_COLUMNS, [each.cells() for each in found])
        if left_out:
            echo(f"{left_out} ACL(s) for single addresses were left out: give --host.")
        if known.super_users is None and not all(each.is_allowed for each in found):
            echo(f"The cluster does not show its super users: if {who} is one, all is allowed.")
    if not all(each.is_allowed for each in found):
        raise typer.Exit(NEEDS_ATTENTION)


def _everything_is_allowed(principal: str, is_json: bool) -> None:
    if is_json:
        print_json({"principal": principal, "has_authorizer": False, "checks": []})
    else:
        echo(
            "Everything is allowed to all who can connect: the cluster has no authorizer "
            "(klamm.authorizer=acl of klamm, authorizer.class.name of Apache Kafka)."
        )

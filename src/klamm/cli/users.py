"""`klamm users`: SCRAM users of the cluster and their passwords."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

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
from klamm.cli.failures import MISUSED, fail
from klamm.cli.output import echo
from klamm.client.admin.access import is_absent, users_of
from klamm.client.admin.access_arguments import MAX_ITERATIONS, MIN_ITERATIONS
from klamm.client.admin.access_model import ScramMechanism
from klamm.client.admin.admin import Admin
from klamm.errors import KlammError

_COLUMNS: Final = ("user", "mechanism", "iterations")

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    help="""SCRAM users of the cluster, and their passwords.

Users of the configuration (klamm.users.file, sasl.jaas.config) are not among them: only the brokers know
those. What a user may do is said by ACLs: `klamm acls`.

\b
  klamm users set alice
  klamm users list
""",
)
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="The names of the users.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism",
        metavar="NAME",
        help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable.  [default: SCRAM-SHA-512]",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")]


@app.command(name="list")
def list_users(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="The names of the users; default: all.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List SCRAM users with their mechanisms and iterations. Passwords and keys are never shown.

    \b
      klamm users list
      klamm users list alice bob --json
    """
    with an_admin(bootstrap, timeout) as admin:
        found = admin.describe_users(names or None, raise_errors=False)
    rows = list(users_of(found))
    if as_json:
        print_json([dict(zip(_COLUMNS, (user, how.value, count), strict=True)) for user, how, count in rows])
    elif rows:
        print_table(_COLUMNS, [(user, how.value, count) for user, how, count in rows])
    elif not found.errors:
        echo("There are no SCRAM users; `klamm users set NAME` makes one.")
    finish(found.errors)


@app.command(name="set")
def set_password(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")],
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            min=MIN_ITERATIONS,
            max=MAX_ITERATIONS,
            help="How often the password is hashed: more makes guessing and each login slower.",
        ),
    ] = MIN_ITERATIONS,
    password_file: Annotated[
        str | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Read the password from the first line of a file, or with - from standard input. "
            "Without it, the terminal asks.",
        ),
    ] = None,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Make a SCRAM user, or give it a new password.

    The terminal asks for the password. There is no option for it: other users of the machine see the
    arguments of a process, and the shell keeps them. The broker gets a salted hash, not the password.
    Connections that are open go on after a change. Each mechanism has a password of its own.

    \b
      klamm users set alice
      klamm users set alice --mechanism SCRAM-SHA-256 --mechanism SCRAM-SHA-512
      pass show kafka/alice | klamm users set alice --password-file -
    """
    chosen = _mechanisms(mechanism) or [ScramMechanism.SHA_512]
    password = _password(name, password_file)
    errors: dict[str, KlammError] = {}
    done: list[tuple[ScramMechanism, bool]] = []
    with an_admin(bootstrap, timeout) as admin:
        there = _mechanisms_of(admin, name)
        for each in chosen:
            if not dry_run:
                # One request cannot have a user twice.
                errors |= admin.set_passwords(
                    {name: password}, mechanism=each, iterations=iterations, raise_errors=False
                ).errors
            if errors:
                break
            done.append((each, each in there))
    if as_json:
        print_json(
            [
                {"user": name, "mechanism": each.value, "iterations": iterations, "is_new": not was_there}
                | {"dry_run": dry_run}
                for each, was_there in done
            ]
        )
    else:
        for each, was_there in done:
            what = "has a new password" if was_there else "has a password"
            echo(f"{name} {'would have' + what[3:] if dry_run else what} for {each.value}")
    finish(errors)


@app.command()
def delete(
    names: Names,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(
            "--mechanism",
            metavar="NAME",
            help="Delete only the password for this mechanism, as in SCRAM-SHA-256; repeatable.",
        ),
    ] = None,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Do not fail if the user does not exist.")
    ] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Delete SCRAM users: they cannot log in any more.

    Connections that are open go on, unless brokers of klamm have klamm.scram.close.on.delete=true. ACLs and
    quotas of the users stay: see `klamm acls remove` and `klamm quotas remove`.

    \b
      klamm users delete alice
      klamm users delete alice --mechanism SCRAM-SHA-256
    """
    chosen = _mechanisms(mechanism) or list(ScramMechanism)
    with an_admin(bootstrap, timeout) as admin:
        described = admin.describe_users(names, raise_errors=False)
        errors: dict[Any, KlammError] = dict(described.errors)
        done = []
        for each in chosen:
            having = [user for user, found in described.successes.items() if each in found]
            if mechanism:
                errors |= {
                    user: KlammError(f"user {user} has no password for {each.value}")
                    for user in described.successes
                    if user not in having
                }
            failed = (
                {}
                if dry_run or not having
                else admin.delete_users(having, mechanism=each, raise_errors=False).errors
            )
            errors |= failed
            done += [(user, each) for user in having if user not in failed]
    if if_exists:
        errors = {user: error for user, error in errors.items() if not is_absent(error)}
    if as_json:
        print_json([{"user": user, "mechanism": each.value, "dry_run": dry_run} for user, each in done])
    else:
        for user, each in done:
            echo(f"{user} {'would be deleted' if dry_run else 'deleted'}: {each.value}")
    finish(errors)


def _mechanisms_of(admin: Admin, name: str) -> set[ScramMechanism]:
    """What a user has a password for."""
    found = admin.describe_users([name], raise_errors=False)
    for error in found.errors.values():
        if not is_absent(error):
            raise error
    return {each for mechanisms in found.successes.values() for each in mechanisms}


def _mechanisms(words: list[str] | None) -> list[ScramMechanism]:
    found = []
    for word in words or ():
        try:
            found.append(ScramMechanism(word.upper()))
        except ValueError:
            fail(f"invalid mechanism {word}: expected {' or '.join(ScramMechanism)}", MISUSED)
    return list(dict.fromkeys(found))


def _password(name: str, file: str | None) -> str:
    """The password from a file, standard input or the terminal."""
    if file is None:
        if not sys.stdin.isatty():
            fail(
                "no terminal to ask for the password: give --password-file FILE, or - for standard input",
                MISUSED,
            )
        asked: str = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
        return asked
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        fail(f"the password in {file} is not UTF-8 text", MISUSED)
    except OSError as error:
        fail(f"cannot read the password from {file}: {error.strerror}", MISUSED)
    password, _, rest = text.partition("\n")
    if rest.strip():
        fail(f"{file} has several lines: the password is the only one", MISUSED)
    if not password.rstrip("\r"):
        fail(f"the password in {file} is empty", MISUSED)
    return password.rstrip("\r")

"""The command `klamm` and the table of its subcommands."""

from __future__ import annotations

import importlib
import logging
import os
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from klamm.cli.exit_codes import INTERRUPTED
from klamm.cli.failures import MISUSED, fail
from klamm.cli.logs import log_handler
from klamm.cli.output import echo
from klamm.cli.profiles import Profile, ProfileError, choose, load_profile, profiles_file
from klamm.version import __version__

# Name -> module of klamm.cli that has an `app`; in the order of the help page.
COMMANDS: Final = {
    "up": "up",
    "topics": "topics",
    "produce": "produce",
    "consume": "consume",
    "groups": "groups",
    "offsets": "offsets",
    "txns": "txns",
    "assign": "assign",
    "configs": "configs",
    "acls": "acls",
    "users": "users",
    "quotas": "quotas",
    "certs": "certs",
    "cluster": "brokers",
    "health": "health",
    "doctor": "doctor",
    "move": "move.command",
    "dump": "dump",
    "pipe": "pipe",
    "audit": "audit",
    "registry": "registry",
    "ctl": "ctl",
    "demo": "demo.command",
}

_HELP: Final = """
A Kafka-protocol broker, and tools for any Kafka cluster.

\b
  klamm up                    serve on 127.0.0.1:9092, data in ./klamm-data
  klamm up --memory           the same, in memory only
  klamm up --secure           the same with TLS, a user with a password, and ACLs
  klamm produce TOPIC         send lines of standard input
  klamm consume TOPIC...      print records as they arrive
  klamm groups diagnose       what is wrong with consumer groups, why, and what to do
  klamm groups explain GROUP  why a consumer group rebalanced
  klamm doctor                why a connection fails
  klamm dump FILE...          print the content of log files
  klamm assign                who gets which partition, by assignor, without a broker
  klamm audit                 history of groups and transactions, as tables and a report
  klamm registry              a schema registry, with Confluent's REST API
  klamm txns list             transactions, open and ended
  klamm users set NAME        a user with a password; acls and quotas say what it may do
  klamm ctl clock advance 2h  move the time of a broker for tests

See `klamm COMMAND --help` for options and examples.

Exit codes: 0 done, 1 failed, 2 invalid command line or setting, 3 a check found what needs attention, 130
interrupted with Ctrl-C. `klamm pipe` has more.
"""


class LazyGroup(TyperGroup):
    """Subcommands that are imported when they are named, or when the help page lists them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        command: Any = typer.main.get_command(importlib.import_module(f"klamm.cli.{COMMANDS[cmd_name]}").app)
        command.name = cmd_name
        # Only klamm as a whole has completion.
        command.params = [each for each in command.params if not str(each.name).endswith("_completion")]
        _list_whole_sentences(command)
        return command

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None


def _list_whole_sentences(command: Any) -> None:
    """Lists of commands have the first sentence of each: whole, where click would cut it at 80 columns."""
    first = " ".join((command.help or "").split("\n\n")[0].split())
    command.short_help = first.partition(". ")[0].rstrip(".") + "."
    for each in getattr(command, "commands", {}).values():
        _list_whole_sentences(each)


app = typer.Typer(
    name="klamm",
    cls=LazyGroup,
    help=_HELP,
    no_args_is_help=True,
    # Importing rich takes a tenth of a second: only tables need it.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"klamm {__version__}")
        raise typer.Exit


@app.callback()
def klamm(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            help="The address of a broker of the cluster, for every subcommand; default: that of the "
            "profile, else 127.0.0.1:9092.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            envvar="KLAMM_PROFILE",
            help="A cluster by its name in ~/.config/klamm/profiles.toml, or in the file that "
            "KLAMM_PROFILES names; default: none.",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            help="What is logged on standard error: debug, info, warning or error; default: info for `up`, "
            "warning for other commands.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if log_level is not None:
        level = logging.getLevelNamesMapping().get(log_level.upper())
        if level is None:
            fail(
                f"invalid value {log_level} for --log-level: expected debug, info, warning or error", MISUSED
            )
        logging.basicConfig(
            level=level, handlers=[log_handler("%(asctime)s %(levelname)s %(name)s: %(message)s")]
        )
        # What it logs for debugging are all arguments of all calls: passwords in options, too.
        logging.getLogger("py4j").setLevel(max(level, logging.INFO))
    chosen = Profile()
    if profile is not None:
        try:
            chosen = load_profile(profile, profiles_file(os.environ))
        except ProfileError as error:
            fail(error, MISUSED)
    choose(chosen)
    # Subcommands take their default from this variable; their own --bootstrap takes precedence.
    address = bootstrap or chosen.bootstrap
    if address is not None:
        os.environ["KLAMM_BOOTSTRAP"] = address


def run() -> None:
    """Run the command line of this process."""
    app(prog_name="klamm")

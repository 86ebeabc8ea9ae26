"""Python blocks of pages as modules that a type checker can read."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from unit.docs.blocks import Block, blocks_of

# What blocks take for granted, each with the declaration that a program would have.
GIVEN: Final[Mapping[str, str]] = {
    "Consumer": "from klamm import Consumer",
    "MyAssignor": "from klamm.assignors.range import RangeAssignor as MyAssignor",
    "Path": "from pathlib import Path",
    "SchemaRegistryClient": "from confluent_kafka.schema_registry import SchemaRegistryClient",
    "admin": "import klamm\nadmin = klamm.Admin()",
    "broker": "import klamm.testing\nbroker = klamm.testing.Broker()",
    "consumed": "import klamm\nconsumed = list[klamm.ConsumerRecord]()",
    "consumer": "import klamm\nconsumer = klamm.Consumer()",
    "count_orders": "def count_orders(bootstrap: str, topic: str) -> None: ...",
    "database": "class Database:\n    def commit(self, decision: str) -> None: ...\n"
    '    def decision(self) -> str:\n        return ""\ndatabase = Database()',
    "df": "from pyspark.sql import SparkSession\ndf = SparkSession.builder.getOrCreate().table('t')",
    "driver": "import klamm\ndriver = klamm.Producer()",
    "folder": "folder = ''",
    "klamm": "import klamm",
    "os": "import os",
    "producer": "import klamm\nproducer = klamm.Producer()",
    "pytest": "import pytest",
    "query": "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
    "query = spark.readStream.table('t').writeStream.start()",
    "result": "from pyspark.sql import SparkSession\nresult = SparkSession.builder.getOrCreate().table('t')",
    "retry_for": "async def retry_for(time: str) -> None: ...",
    "spark": "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()",
    "subprocess": "import subprocess",
    "worker": "import klamm\nworker = klamm.Producer()",
}
# A package that is named for its users and not needed here.
STUBS: Final = {
    "aws_msk_iam_sasl_signer.pyi": "class MSKAuthTokenProvider:\n    @staticmethod\n"
    "    def generate_auth_token(region: str) -> tuple[str, int]: ...\n",
    "azure/__init__.pyi": "",
    "azure/identity.pyi": "class AccessToken:\n    token: str\n    expires_on: int\n"
    "class DefaultAzureCredential:\n    def get_token(self, scope: str) -> AccessToken: ...\n",
}
# Blocks of one page that run one after the other are one module, in which a name may get a new type.
REDEFINES: Final = "# mypy: allow-redefinition"


def write_modules(
    pages: Iterable[Path], run: Iterable[Path], root: Path, folder: Path
) -> dict[str, tuple[str, int]]:
    """Write a module for each block; of each module its page, and the difference of line numbers."""
    places: dict[str, tuple[str, int]] = {}
    for name, text in STUBS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    for page in pages:
        shown = str(page.relative_to(root))
        blocks = [block for block in blocks_of(page) if block.language == "python"]
        defined: dict[str, ast.stmt] = {}
        for block in _joined(blocks) if page in run and blocks else blocks:
            tree = ast.parse(block.text)
            prelude = [REDEFINES] if page in run else []
            prelude += _prelude(tree, defined, f"{shown}:{block.line}")
            defined |= {name: node for node in tree.body for name in _names(node)}
            module = re.sub(r"\W", "_", f"{page.relative_to(root).with_suffix('')}_{block.line}") + ".py"
            head = "".join(f"{line}\n" for line in "\n".join(prelude).splitlines())
            (folder / module).write_text(head + block.text)
            places[module] = shown, block.line - 1 - head.count("\n")
    return places


def _joined(blocks: list[Block]) -> list[Block]:
    """All blocks as one, each at its own line."""
    text, first = "", blocks[0].line
    for block in blocks:
        text += "\n" * (block.line - first - text.count("\n")) + block.text
    return [Block("python", text, first)]


def _prelude(tree: ast.Module, defined: Mapping[str, ast.stmt], place: str) -> list[str]:
    """Declarations of the names that a block uses and does not have: from blocks before it, or given."""
    lines: list[str] = []
    for name in sorted(_free_names(tree)):
        node = None if name in GIVEN else defined.get(name)
        if node is not None:
            lines += [
                *_prelude(ast.Module([node], []), {**defined, name: ast.Pass()}, place),
                ast.unparse(node),
            ]
        else:
            assert name in GIVEN, (
                f"{place} uses {name}, which nothing declares: import it, or add it to GIVEN"
            )
            lines.append(GIVEN[name])
    return list(dict.fromkeys(lines))


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)


def _free_names(tree: ast.Module) -> set[str]:
    used: set[str] = set()
    bound = set(dir(builtins))
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.arg(arg=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add((other or name).split(".")[0])
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
    return used - bound

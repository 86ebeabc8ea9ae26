"""The documentation: blocks that can run do run, links lead somewhere, and pages agree with the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import klamm
from klamm import errors
from klamm.broker.config.settings import BROKER_SETTINGS
from klamm.broker.routes import ROUTES
from klamm.client.config import ADMIN, CONSUMER, PRODUCER
from klamm.config import Setting
from klamm.storage.topic_settings import TOPIC_SETTINGS

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# Their blocks are run, one after the other, by tests/interop/test_documented_commands.py.
RUN = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    DOCS / "coming-from.md",
    ROOT / "README.md",
    DOCS / "zh/README.md",
]
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_ROW = re.compile(r"^\| `([a-z.]+)` \| ([^|]*) \|", re.MULTILINE)


def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "tools/make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    pages: dict[str, str] = reference().pages()
    return pages


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path, generated: dict[str, str]) -> None:
    broken = []
    for found in _LINK.finditer(_without_code(page.read_text())):
        target = found[1] or found[2]
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        inside = path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else ""
        text = path.read_text() if path.is_file() else generated.get(inside)
        if (text is None and not path.exists()) or (anchor and anchor not in _anchors(text or "")):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("broker-settings", BROKER_SETTINGS),
        ("topic-settings", TOPIC_SETTINGS),
        ("client-settings", CONSUMER),
        ("client-settings", PRODUCER),
        ("client-settings", ADMIN),
    ],
)
def test_the_reference_has_every_setting(name: str, definition: Any, generated: dict[str, str]) -> None:
    page = generated[f"reference/{name}.md"]
    assert [item for item in definition.settings if f"`{item}`" not in page] == []


def test_the_reference_has_every_api_and_its_versions(generated: dict[str, str]) -> None:
    page = generated["reference/api-versions.md"]
    assert page.count("\n| ") == len(ROUTES) + 2
    assert "| 0 | Produce | 0-13 | write on topic, write on transactional id |" in page


def test_the_reference_has_every_public_name(generated: dict[str, str]) -> None:
    both = generated["reference/python.md"] + generated["reference/errors.md"]
    public = [name for name in klamm.__all__ if name not in ("aio", "__version__", "ConfigError")]
    assert [name for name in public if f"## {name}\n" not in both and f"`{name}`" not in both] == []


def test_the_reference_has_every_hint(generated: dict[str, str]) -> None:
    page = generated["reference/errors.md"]
    assert [hint for hint in errors.HINTS.values() if hint not in page] == []


def test_tables_of_settings_agree_with_the_code() -> None:
    known: dict[str, list[Setting]] = {}
    for definition in (BROKER_SETTINGS, TOPIC_SETTINGS, CONSUMER, PRODUCER, ADMIN):
        for name, setting in definition.settings.items():
            known.setdefault(name, []).append(setting)
    checked, wrong = 0, []
    for page in PAGES:
        for name, shown in _ROW.findall(_tables_with_defaults(page.read_text())):
            for setting in known.get(name, ()):
                checked += 1
                if shown.strip("` ") not in _spellings(setting.default):
                    wrong.append(f"{page.name}: {name} is {setting.default}, not {shown}")
    assert wrong == []
    assert checked >= 5


def test_every_setting_that_only_klamm_has_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in DOCS.glob("*.md"))
    own = [name for name in BROKER_SETTINGS.settings if name.startswith("klamm.")]
    assert [name for name in own if f"`{name}" not in pages] == []
    assert len(own) > 10


def test_every_client_setting_is_explained() -> None:
    assert [
        name
        for definition in (CONSUMER, PRODUCER, ADMIN)
        for name, item in definition.settings.items()
        if not item.doc
    ] == []


def _spellings(default: object) -> set[str]:
    """How a page may write a default."""
    if isinstance(default, bool):
        return {str(default).lower()}
    if isinstance(default, int) and default and default % 2**20 == 0:
        return {str(default), f"{default:,}", f"{default // 2**20} MiB"}
    if isinstance(default, int):
        return {str(default), f"{default:,}"}
    return {"none", "empty", ""} if default in (None, "") else {str(default)}


def _tables_with_defaults(text: str) -> str:
    """The tables whose second column is a default."""
    return "\n".join(re.findall(r"^\| name \| default \|.*\n(?:\|.*\n)*", text, re.MULTILINE))


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}

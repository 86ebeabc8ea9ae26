"""Hooks of the documentation site (mkdocs.yml): adds pages that are not files of docs/.

Reference pages are generated from the code. Examples and pages for contributors are files of the repository.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from make_reference import pages  # noqa: E402 - found once its folder is on the path

CONTRIBUTING: Final = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
# Where a link of the repository points to on the site.
_EXAMPLE: Final = re.compile(r"\]\((?:\.\./)*examples/(\w+)\.py\)")
_README: Final = re.compile(r"\]\((?:\.\./)+README\.md\)")
_ELSEWHERE: Final = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:bench|packaging)/[^)]*\)")  # not on the site
_DOCS: Final = re.compile(r"\]\(docs/")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in (pages() | _examples() | _contributing()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to files of the repository point to their pages."""
    depth = page.file.src_uri.count("/")
    up = "../" * depth
    markdown = _ELSEWHERE.sub(r"\1", markdown)
    markdown = _README.sub(f"]({up}index.md)", markdown)
    markdown = _EXAMPLE.sub(rf"]({up}examples/\1.md)", markdown)
    for name in CONTRIBUTING:
        markdown = re.sub(rf"\]\((?:\.\./)*{re.escape(name)}", f"]({up}{name.lower()}", markdown)
    return markdown


def _examples() -> dict[str, str]:
    return {
        f"examples/{path.stem}.md": f"# {path.stem.replace('_', ' ')}\n\n```py\n{path.read_text()}```\n"
        for path in sorted((ROOT / "examples").glob("*.py"))
    }


def _contributing() -> dict[str, str]:
    return {name.lower(): _DOCS.sub("](", (ROOT / name).read_text()) for name in CONTRIBUTING}

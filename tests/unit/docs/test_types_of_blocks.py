"""Every example of the documentation passes mypy --strict and pyright, as programs of users are checked."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from unit.docs.test_pages import PAGES, ROOT, RUN
from unit.docs.typed_blocks import write_modules

EXAMPLES = [*(ROOT / "examples").glob("*.py"), ROOT / "tests/unit/client/test_typing_idioms.py"]
WRONG = """\
import klamm

klamm.Producer(bootstrap_server="127.0.0.1:9092")
klamm.Consumer("t", bootstrap_servers="127.0.0.1:9092", group_id=1)
klamm.Admin(retries=3)
"""


class Documented:
    """The blocks as modules, and where each is from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = write_modules(PAGES, RUN, ROOT, folder)
        for example in EXAMPLES:
            shutil.copy(example, folder)
        (folder / "wrong.py").write_text(WRONG)

    def shown(self, file: str, line: int, message: str) -> str:
        """An error at its line of the page."""
        page, shift = self.places.get(Path(file).name, (Path(file).name, 0))
        return f"{page}:{line + shift}: {message}"


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Documented:
    return Documented(tmp_path_factory.mktemp("documented"))


def with_mypy(documented: Documented) -> list[str]:
    config = documented.folder / "mypy.ini"
    config.write_text(
        "[mypy]\nstrict = True\nfollow_imports_for_stubs = True\n"
        "[mypy-klamm.*]\nfollow_imports = silent\n"
        "[mypy-confluent_kafka.*,pyspark.*,pyarrow.*]\nignore_missing_imports = True\nfollow_imports = skip\n"
    )
    cache = f"--cache-dir={ROOT / '.mypy_cache' / 'documented'}"
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), "--hide-error-context", cache]
    done = subprocess.run(
        [*command, *sorted(map(str, documented.folder.glob("*.py")))],
        capture_output=True, text=True, check=False, cwd=documented.folder,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^(.+?):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    return [documented.shown(file, int(line), message) for file, line, message in found]


def with_pyright(documented: Documented) -> list[str]:
    environment = Path(sys.prefix)
    config: dict[str, Any] = {
        "extraPaths": [str(ROOT / "src")],
        "venvPath": str(environment.parent),
        "venv": environment.name,
    }
    (documented.folder / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", str(documented.folder)],
        capture_output=True, text=True, check=False, cwd=documented.folder,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [
        documented.shown(item["file"], item["range"]["start"]["line"] + 1, item["message"])
        for item in json.loads(done.stdout)["generalDiagnostics"]
        if item["severity"] == "error"
    ]


@pytest.mark.parametrize("check", [with_mypy, with_pyright])
def test_the_examples_of_all_pages_are_right_and_wrong_settings_are_found(
    check: Any, documented: Documented
) -> None:
    found = check(documented)
    assert "\n".join(error for error in found if not error.startswith("wrong.py")) == ""
    wrong = [error for error in found if error.startswith("wrong.py")]
    assert [error.split(":")[1] for error in wrong] == ["3", "4", "5"]
    assert "bootstrap_server" in wrong[0]
    assert "group_id" in wrong[1]
    assert "retries" in wrong[2]

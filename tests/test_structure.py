"""The package is built as its floors say, and the repository holds what it should."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from shared_data import ROOT

pytestmark = pytest.mark.fast

PACKAGE = ROOT / "azchess"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))

FLOORS = {
    "__init__": 6,  # the door: `azchess.load`, imported when it is first used
    "pytree": 0,
    "games": 1,
    "networks": 2,
    "search": 3,
    "learning": 4,
    "evaluation": 4,
    "runs": 5,
    "cli": 6,
    "__main__": 7,
}
"""A module imports from its own room and from the floors below it."""

ONLY_IN = {
    # python-chess is under the GPL: only where notation, tables and engines are spoken to.
    "chess": {f"games/chess/{name}.py" for name in ("epd", "notation", "pgn", "san", "states")},
    "matplotlib": {"runs/figures.py", "runs/report.py"},
    "orbax": {"runs/checkpoint.py"},
    "tyro": {"cli.py"},
}
"""The modules that may import a library, so that replacing it stays a small change."""

ON_DEVICE = {"games/chess/env.py", "games/chess/states.py"}
"""The modules that import pgx, which puts arrays on a device; imported when first used."""

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    ".pre-commit-config.yaml",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "azchess",
    "configs",
    "constraints.txt",
    "experiments",
    "notebooks",
    "pyproject.toml",
    "scripts",
    "tests",
}


def room(module: str) -> str:
    """The room of a module given by its file (`games/chess/board.py`) or name (`games.game`)."""
    return re.split(r"[./]", module)[0]


def parse(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


def imports(module: str) -> Iterator[str]:
    """The dotted names of all that a module imports, wherever in it."""
    for node in ast.walk(parse(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def tracked_files() -> list[str]:
    """What git tracks; skips the test outside a git checkout."""
    git = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if git.returncode or not git.stdout:
        pytest.skip("not a git checkout")
    return [name for name in git.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_its_own_room_and_the_floors_below(module):
    for name in imports(module):
        if name.startswith("azchess."):
            there, here = room(name.removeprefix("azchess.")), room(module.removesuffix(".py"))
            assert there == here or FLOORS[there] < FLOORS[here], f"{module} imports {name}"


@pytest.mark.parametrize("module", MODULES)
def test_a_module_uses_no_private_module_of_a_library(module):
    assert not [name for name in imports(module) if "_src" in name.split(".")]
    attributes = (node for node in ast.walk(parse(module)) if isinstance(node, ast.Attribute))
    assert not [node.lineno for node in attributes if node.attr == "_src"]


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_only_where_it_is_listed(library):
    users = {
        module for module in MODULES if library in {name.split(".")[0] for name in imports(module)}
    }
    assert users <= ONLY_IN[library]


def test_importing_the_package_starts_no_device():
    modules = sorted(set(MODULES) - ON_DEVICE)
    names = (module.removesuffix(".py").removesuffix("/__init__") for module in modules)
    names = [".".join(["azchess", *name.split("/")]) for name in names if name != "__init__"]
    program = f"""
import importlib
for name in {names}:
    importlib.import_module(name)
import jax
try:
    jax.devices()
except RuntimeError as error:
    assert "no_such_platform" in str(error), error
else:
    raise AssertionError("a device could be started: this test shows nothing")
"""
    # Whatever touched a device on the way would have failed on this platform.
    environment = {**os.environ, "JAX_PLATFORMS": "no_such_platform"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_repository_has_the_folders_and_files_that_the_design_names():
    assert {name.split("/")[0] for name in tracked_files()} <= TOP_LEVEL


def test_no_file_names_a_folder_of_one_machine():
    folder = re.compile(r"(?<![\w.])/(home|root|Users|work|workspace|mnt|media)/[\w.]")
    for name in tracked_files():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            assert not folder.search(line), f"{name}:{number}: {line.strip()[:120]}"


def test_constraints_are_names_and_versions_only():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)]


@pytest.mark.parametrize(
    "script", ["scripts/quickstart", "scripts/setup", "scripts/test", ".ci/run"]
)
def test_scripts_can_be_run(script):
    assert os.access(ROOT / script, os.X_OK)

"""What is published works away from the checkout."""

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from shared_data import ROOT

pytestmark = pytest.mark.slow


def run(*command: str, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
    run(*build, "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("azchess-*.whl")
    return wheel


def test_the_wheel_holds_every_module_and_the_licence_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "azchess").rglob("*.py")}
    assert modules <= names
    assert [name for name in names if name.endswith("dist-info/licenses/LICENSE")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"azchess"}


def test_the_wheel_can_be_imported_away_from_the_checkout(wheel, tmp_path):
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    run(*pip, "--target", str(site), str(wheel))
    modules = sorted(path.relative_to(site) for path in (site / "azchess").rglob("*.py"))
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in modules]
    program = f"""
import importlib
for name in {names}:
    print(importlib.import_module(name).__file__)
"""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    files = run(sys.executable, "-c", program, cwd=tmp_path, env=environment).splitlines()
    assert files == [str(site / path) for path in modules]

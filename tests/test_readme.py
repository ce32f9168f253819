"""The README's examples run as they stand."""

import re
import subprocess
import sys

import pytest

from shared_data import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_readme_runs(number):
    done = subprocess.run([sys.executable, "-c", EXAMPLES[number]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if "mate in two" in EXAMPLES[number]:
        assert done.stdout.count("d1d7") == 4


def test_the_first_example_has_twelve_lines():
    assert len(EXAMPLES[0].strip().replace("\n\n", "\n").split("\n")) == 12


@pytest.mark.parametrize(
    "file", re.findall(r"`(azchess/[a-z_/]+\.py|configs/[a-z_]+\.py)`", README)
)
def test_a_file_that_the_readme_names_is_there(file):
    assert (ROOT / file).is_file()

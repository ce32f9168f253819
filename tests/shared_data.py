"""Where the tests find data that is too large for the repository."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def shared_path(*parts: str) -> pathlib.Path:
    """A file or folder of the shared test data; skips the test where it is absent.

    The data lies in the folder that the environment variable AZCHESS_SHARED names, by default in
    `shared` beside the repository.
    """
    folder = pathlib.Path(os.environ.get("AZCHESS_SHARED") or ROOT.parent / "shared")
    path = folder.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no test data at {path} (AZCHESS_SHARED names the folder)")
    return path

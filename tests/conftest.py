"""Shapes and types of the package are checked in every test; compiled functions are kept."""

import os
import pathlib
import zlib
from collections.abc import Callable

import jaxtyping
import pytest

# Before anything imports azchess: the hook only sees modules that are imported after it.
jaxtyping.install_import_hook("azchess", "beartype.beartype")

import jax  # noqa: E402

CACHE = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture
def fresh_key(request: pytest.FixtureRequest) -> Callable[[], jax.Array]:
    """A function that returns another key at each call, the same ones in every run of the test."""
    state = jax.random.key(zlib.crc32(request.node.nodeid.encode()) >> 1)

    def draw() -> jax.Array:
        nonlocal state
        state, key = jax.random.split(state)
        return key

    return draw

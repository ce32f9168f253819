"""Shapes and types of the package are checked in every test; compiled functions are kept."""

import os
import pathlib
import zlib
from collections.abc import Callable, Iterator

import jaxtyping
import pytest

# Before anything imports azchess: the hook only sees modules that are imported after it.
jaxtyping.install_import_hook("azchess", "beartype.beartype")

import jax  # noqa: E402

CACHE = pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"
MOST_MAPS = 15_000

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


@pytest.fixture(scope="module", autouse=True)
def bounded_memory_maps() -> Iterator[None]:
    """Drops compiled programs between modules before Linux refuses the process more mappings.

    Each program on CPU takes several of the 65,530 mappings that a process may have by default;
    running out of them is a segmentation fault in the middle of a compilation.
    """
    yield
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()

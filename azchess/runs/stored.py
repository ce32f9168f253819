"""Trees of arrays as they are stored: a flat dict from the path of each leaf to a numpy array."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree


class CheckpointError(ValueError):
    """A checkpoint cannot be written, found or used; says which, why and what would be accepted."""


def named(tree: PyTree) -> dict[str, Any]:
    """The leaves of a tree by their path, such as `games/board`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    if len(named) < len(leaves):
        raise CheckpointError("two leaves of the tree have the same path; rename one of them")
    for name, leaf in named.items():
        if not hasattr(leaf, "dtype"):
            raise CheckpointError(f"leaf {name} is {leaf!r}; only arrays are saved")
    return named


def is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def manifest(tree: PyTree) -> dict[str, list[Any]]:
    """Type and shape of each leaf by its path, as JSON."""
    return {name: [str(leaf.dtype), list(leaf.shape)] for name, leaf in named(tree).items()}


def impls(tree: PyTree) -> dict[str, str]:
    """The random number generator of each typed key by its path."""
    leaves = named(tree).items()
    return {name: str(jax.random.key_impl(leaf)) for name, leaf in leaves if is_key(leaf)}


def to_host(tree: PyTree) -> dict[str, np.ndarray]:
    """Copies of the leaves in the host's memory, typed keys as their data, empty arrays left out.

    Orbax stores no empty arrays. The copy is explicit because on a CPU jax hands out the device's
    own buffer, which then could not be donated.
    """
    leaves = {
        name: jax.random.key_data(leaf) if is_key(leaf) else leaf
        for name, leaf in named(tree).items()
        if leaf.size
    }
    for leaf in leaves.values():
        if isinstance(leaf, jax.Array):
            leaf.copy_to_host_async()
    return {name: np.array(leaf, order="C", copy=True) for name, leaf in leaves.items()}


def nest(named: dict[str, np.ndarray]) -> dict[str, Any]:
    """The nested dict whose leaves have these paths."""
    nested: dict[str, Any] = {}
    for name, leaf in named.items():
        *parents, last = name.split("/")
        place = nested
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = leaf
    return nested


def place(leaf: Any, stored: np.ndarray | None, impl: str | None) -> jax.Array:
    """A stored array (None: an empty one) on the device as `leaf` describes it."""
    data = jax.eval_shape(jax.random.key_data, leaf) if impl else leaf
    host = np.zeros(data.shape, data.dtype) if stored is None else stored
    # A buffer that aliases numpy's memory could not be donated.
    array = jax.device_put(host, may_alias=False)
    if impl:
        array = jax.random.wrap_key_data(array, impl=impl)
    sharding = getattr(leaf, "sharding", None)
    return array if sharding is None else jax.device_put(array, sharding)

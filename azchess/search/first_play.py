"""First-play urgency: what a move is worth that has never been tried."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs


def first_play(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B 1"]:
    """Q of an unvisited move: fpu + fpu_parent Q(node) - fpu_reduction sqrt(visited prior mass).

    One formula for the choices of the field, all of them knobs `[B, 1]` and separate at the root:
    a loss (fpu -1: AlphaZero, as its authors reported), zero (0), any absolute value, the parent's
    mean value (fpu_parent 1), and that less a reduction (Leela Zero; Lc0: fpu_reduction 0.33).
    """
    visited = jnp.where(edges.visits > 0, edges.prior, 0.0).sum(axis=-1, keepdims=True)
    urgency = knobs.fpu + knobs.fpu_parent * edges.mean
    return urgency - knobs.fpu_reduction * jnp.sqrt(visited)

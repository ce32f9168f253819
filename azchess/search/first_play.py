"""First-play urgency: what a move is worth that has never been tried."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs


def first_play(
    edges: Edges, knobs: SearchKnobs, mean: Float[Array, "B 1"] | None = None
) -> Float[Array, "B 1"]:
    """Q of an unvisited move: fpu + fpu_parent Q(node) - fpu_reduction sqrt(visited prior mass).

    One formula for the choices of the field, all of them knobs `[B, 1]` and separate at the root:

    - a loss: fpu -1 (AlphaZero, as its authors reported; Lc0's "absolute" -1);
    - zero: fpu 0 (the middle of the range; nn-chess);
    - any absolute value: fpu (Lc0's "absolute", fpu-value);
    - the parent's value: fpu_parent 1;
    - that less a reduction: fpu_parent 1 and fpu_reduction (Leela Zero; Lc0's "reduction" 0.33;
      KataGo 0.2, Wu 2020, section 2).

    The parent's value Q(node) is the running mean of all that was backed up through the node and of
    its own evaluation, as in Lc0, and not the evaluation alone; `mean` takes its place where a rule
    has another Q. Visits in flight count for nothing here.
    """
    visited = jnp.where(edges.visits > 0, edges.prior, 0.0).sum(axis=-1, keepdims=True)
    urgency = knobs.fpu + knobs.fpu_parent * (edges.mean if mean is None else mean)
    return urgency - knobs.fpu_reduction * jnp.sqrt(visited)

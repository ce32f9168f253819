"""MuZero's PUCT as mctx has it: Q rescaled at each node."""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct


@dataclasses.dataclass(frozen=True)
class MuZeroPuct(Puct):
    """PUCT as in `mctx.muzero_policy` (Schrittwieser et al. 2020, appendix B), static part.

    Score of a move: Q' + c(N + 1) P sqrt(N + 1) / (1 + n), with n the visits of the move, N those
    of all moves of the node and c(N) = c_init + c_factor log((1 + N + c_base) / c_base). Where it
    differs from `Puct`, AlphaZero's:

    - Q' is Q rescaled to [0, 1] between the least and the greatest of the visited moves' Q and the
      node's own mean value (MuZero's paper: of all values in the tree).
    - The node's own evaluation counts among its visits: N + 1.
    - An unvisited move has Q' = 0, which is the least of its siblings and the node; `fpu` and the
      like are not read.
    - Ties go to the higher prior, then to the lower rank of the label (mctx: random numbers of
      1e-7).

    The move played is the most visited one (mctx draws it from the visits), and the policy to learn
    is the share of visits. Root noise is that of `Puct` (mctx: see `dirichlet`).
    """

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        count = 1.0 + edges.count
        growth = jnp.log((1.0 + count + knobs.c_base) / knobs.c_base)
        weight = (knobs.c_init + knobs.c_factor * growth) * jnp.sqrt(count)
        return rescaled_q(edges) + weight * edges.prior / (1.0 + edges.started)


def rescaled_q(edges: Edges) -> Float[Array, "B S"]:
    """Q between 0 (the least of the siblings and the node) and 1 (the greatest); 0 if unvisited."""
    visited = edges.visits > 0
    q = jnp.where(visited, edges.q, edges.mean)
    low = jnp.minimum(q.min(axis=-1, keepdims=True), edges.mean)
    high = jnp.maximum(q.max(axis=-1, keepdims=True), edges.mean)
    return jnp.where(visited, (q - low) / jnp.maximum(high - low, 1e-8), 0.0)

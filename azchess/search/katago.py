"""KataGo's forced playouts, and the pruning that takes them out of the policy to learn."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs


def forced(score: Float[Array, "B S"], edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """The root's scores, infinite for moves that were tried less often than their prior deserves.

    A move that was visited at all gets at least n_forced = sqrt(k P N) visits, with N those of all
    moves and k the knob `forced_visits` (Wu 2020, "Accelerating Self-Play Learning in Go", section
    3.2, k = 2). So noise gets a chance to show that a move is better than the network thinks. Among
    several such moves the prior decides.
    """
    short = (edges.visits > 0) & (edges.started < forced_visits(edges, knobs))
    return jnp.where(short, jnp.inf, score)


def forced_visits(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """n_forced = sqrt(k P N) of every move of the root; knobs `[B, 1]`."""
    return jnp.sqrt(knobs.forced_visits * edges.prior * edges.count)


def pruned_visits(
    edges: Edges, bonus: Float[Array, "B 1"], knobs: SearchKnobs
) -> Float[Array, "B S"]:
    """The root's visits without those that PUCT would not have made by itself.

    From every move but the most visited one, c*, up to n_forced visits are taken off as long as
    PUCT(c) = Q + bonus P / (1 + n) stays below PUCT(c*), with the Q and the bonus c(N) sqrt(N) of
    the end of the search; moves reduced to one visit lose that as well (Wu 2020, section 3.2). Of
    equally visited moves the likeliest is c*, then the one of higher Q.
    """
    visits = edges.visits.astype(jnp.float32)
    best = edges.legal
    for key in (visits, edges.prior, edges.q):
        best &= key == jnp.where(best, key, -jnp.inf).max(axis=-1, keepdims=True)
    score = edges.q + bonus * edges.prior / (1.0 + visits)
    margin = jnp.where(best, score, -jnp.inf).max(axis=-1, keepdims=True) - edges.q
    # PUCT(c) is below PUCT(c*) where 1 + n is more than this.
    least = bonus * edges.prior / jnp.where(margin > 0, margin, 1.0)
    wanted = jnp.where(margin > 0, jnp.floor(least), visits)
    fewest = visits - jnp.floor(forced_visits(edges, knobs))
    left = jnp.clip(jnp.maximum(wanted, fewest), 0.0, visits)
    left = jnp.where((left == 1) & (left < visits), 0.0, left)
    return jnp.where(best, visits, left)

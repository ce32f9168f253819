"""The moves of a node as selection rules see them, and the choice among their scores."""

from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int16, Int32

from azchess.games.game import Game
from azchess.pytree import pytree


@pytree
class Edges:
    """The moves of one node per game as a selection rule sees them, from that node's mover.

    `q` is the mean backed-up value of a move, 0 where it is unvisited; `value` the evaluator's
    value of the node; `depth` its distance from the root.
    """

    legal: Bool[Array, "B S"]
    prior: Float[Array, "B S"]
    visits: Int32[Array, "B S"]
    q: Float[Array, "B S"]
    value: Float[Array, "B"]
    depth: Int32[Array, "B"]


Rule: TypeAlias = Callable[[Edges], Float[Array, "B S"]]
"""Scores the moves of a node; the highest score is searched next. See `best_slot` for ties."""


def best_slot(
    score: Float[Array, "B S"],
    edges: Edges,
    labels: Int16[Array, "B S"],
    ranks: Int32[np.ndarray, "A"] | None = None,
) -> Int32[Array, "B"]:
    """The legal slot of the highest score; ties go to the higher prior, then to the lower rank.

    `ranks` holds the rank of each label; None says that a label is its own rank.
    """
    score = jnp.where(edges.legal, score, -jnp.inf)
    best = edges.legal & (score == score.max(axis=-1, keepdims=True))
    likely = jnp.where(best, edges.prior, -1.0)
    best &= likely == likely.max(axis=-1, keepdims=True)
    rank = labels if ranks is None else jnp.asarray(ranks)[labels]
    rank = jnp.where(best, rank, jnp.iinfo(rank.dtype).max)
    best &= rank == rank.min(axis=-1, keepdims=True)
    # One slot is left; an argmax over it would be a third slower on CPU.
    return jnp.where(best, jnp.arange(best.shape[-1]), 0).max(axis=-1)


def ranks_of(game: Game) -> Int32[np.ndarray, "A"] | None:
    """The game's ranks, or None where each label is its own rank."""
    ranks = game.ranks
    return None if np.array_equal(ranks, np.arange(game.num_labels)) else ranks

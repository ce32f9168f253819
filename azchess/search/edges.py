"""The moves of a node as selection rules see them, and the choice among their scores."""

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int16, Int32, Key

from azchess.games.game import Game
from azchess.pytree import pytree
from azchess.search.knobs import SearchKnobs


@dataclasses.dataclass(frozen=True)
class Carries:
    """What trees keep beside visits and values, because a rule asks for it; see `Edges`."""

    draws: bool = False
    moves_left: bool = False
    squares: bool = False
    amaf: bool = False
    bounds: bool = False


NOTHING = Carries()

Ties: TypeAlias = Literal["rank", "notation", "random"]
"""What decides after score and prior: `Game.ranks`, `Game.notation_ranks`, or chance alone."""


@pytree
class Edges:
    """The moves of one node per game as a selection rule sees them, from that node's mover.

    Per move: `visits` backed up; `in_flight`, started and not yet backed up (0 but for batched
    leaves); `q`, the mean backed-up value, 0 where unvisited. Per node: `value`, the evaluator's
    value, and `depth`, the distance from the root. `keys` are for rules that draw moves at random,
    one per line and step down; None where nothing is searched.

    What only some trees carry (`Carries`) is None elsewhere. Means over the visits of a move, 0
    where unvisited: `draw`, the probability of a draw; `moves_left`, plies to the end from this
    node; `square`, of the value. `amaf_visits` and `amaf_q`: simulations in which the mover played
    the move here or later on, and their mean value. `lower` and `upper`: what is proven of the move
    (-1 a loss at least, 1 a win at most). `own_draw` and `own_moves_left`: the evaluator's for the
    node. `side`: +1 where the mover is the root's, -1 where it is the opponent (with `draw`).
    """

    legal: Bool[Array, "B S"]
    prior: Float[Array, "B S"]
    visits: Int32[Array, "B S"]
    in_flight: Int[Array, "..."]
    q: Float[Array, "B S"]
    value: Float[Array, "B"]
    depth: Int32[Array, "B"]
    keys: Key[Array, "B"] | None = None
    draw: Float[Array, "B S"] | None = None
    moves_left: Float[Array, "B S"] | None = None
    square: Float[Array, "B S"] | None = None
    amaf_visits: Int32[Array, "B S"] | None = None
    amaf_q: Float[Array, "B S"] | None = None
    lower: Int8[Array, "B S"] | None = None
    upper: Int8[Array, "B S"] | None = None
    own_draw: Float[Array, "B"] | None = None
    own_moves_left: Float[Array, "B"] | None = None
    side: Float[Array, "B"] | None = None

    @property
    def started(self) -> Int32[Array, "B S"]:
        """Visits of each move, those in flight included."""
        return self.visits + self.in_flight

    @property
    def count(self) -> Int32[Array, "B 1"]:
        """Visits of all moves of the node together, without the node's own evaluation."""
        return self.visits.sum(axis=-1, keepdims=True)

    @property
    def mean(self) -> Float[Array, "B 1"]:
        """Mean value of the node: its own evaluation and all that was backed up through it."""
        total = (self.visits * self.q).sum(axis=-1, keepdims=True)
        return (self.value[:, None] + total) / (1 + self.count)


Rule: TypeAlias = Callable[[Edges, SearchKnobs], Float[Array, "B S"]]
"""Scores the moves of a node, given knobs `[B, 1]`; the highest is searched next (`best_slot`)."""


def best_slot(
    score: Float[Array, "B S"],
    edges: Edges,
    ranks: Int16[Array, "B S"],
) -> Int32[Array, "B"]:
    """The legal slot of the highest score; ties go to the higher prior, then to the lower rank."""
    score = jnp.where(edges.legal, score, -jnp.inf)
    best = edges.legal & (score == score.max(axis=-1, keepdims=True))
    likely = jnp.where(best, edges.prior, -1.0)
    best &= likely == likely.max(axis=-1, keepdims=True)
    rank = jnp.where(best, ranks, jnp.iinfo(ranks.dtype).max)
    best &= rank == rank.min(axis=-1, keepdims=True)
    # One slot is left; an argmax over it would be a third slower on CPU.
    return jnp.where(best, jnp.arange(best.shape[-1]), 0).max(axis=-1)


def slot_ranks(
    game: Game, ties: Ties, labels: Int16[Array, "B S"], mover: Int32[Array, "B"]
) -> Int16[Array, "B S"]:
    """The rank of each slot, from its label and the seat to move; the lower goes first."""
    if ties == "notation":
        ranks = jnp.asarray(game.notation_ranks)[mover[:, None], labels]
    else:
        table = ranks_of(game)
        ranks = labels if table is None else jnp.asarray(table)[labels]
    return ranks.astype(jnp.int16)


def ranks_of(game: Game) -> Int32[np.ndarray, "A"] | None:
    """The game's ranks, or None where each label is its own rank."""
    ranks = game.ranks
    return None if np.array_equal(ranks, np.arange(game.num_labels)) else ranks

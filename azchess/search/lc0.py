"""Leela Chess Zero's search, rule for rule."""

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from azchess.search.edges import Carries, Edges
from azchess.search.first_play import first_play
from azchess.search.knobs import SearchKnobs
from azchess.search.node import Node
from azchess.search.policy import TreeSearch
from azchess.search.puct import exploration_constant
from azchess.search.root import dirichlet_prior


@dataclasses.dataclass(frozen=True)
class Lc0(TreeSearch):
    """The classic search of Leela Chess Zero (lc0 v0.32), without its approximate arithmetic.

    Score of a move: Q + M + c(N) P sqrt(max(N, 1)) / (1 + n), with n the visits of the move, those
    in flight included, N those of all moves of the node (Lc0 counts the node's own evaluation and
    takes 1 off), and c(N) = cpuct + cpuct-factor ln((N + 1 + cpuct-base) / cpuct-base). Lc0's
    options are the knobs c_init, c_base, c_factor and, with "root_" before the name, their values
    at the root; `azchess.search.presets.LC0` holds its defaults. Choices on which the field
    differs:

    - Q = W - L + draw_score D, the means over the visits of the move, not rescaled. draw_score is
      what a draw is worth to the root's mover; where the opponent moves it is worth the opposite.
    - An unvisited move has Q = fpu ("absolute"), or the mean Q of the node, its own evaluation
      included, less fpu_reduction sqrt(prior mass of the visited moves) ("reduction", with
      fpu_parent 1); see `first_play`. Both may differ at the root.
    - M, the moves-left utility, of visited moves where the node's |W - L| is above the threshold:
      clip(slope (m - m_node), most) sign(-Q) (constant + scaled |q| + quadratic q^2), with m the
      plies left after the move and q = max(0, |Q| - threshold) / (1 - threshold). It shortens wins
      and prolongs losses.
    - Ties go to the higher prior, then to the lower rank (Lc0: to the earlier generated move).
    - Draws by a second occurrence: `repeated`. Proofs: `azchess.search.proof`; as in Lc0 they
      correct values, but do not turn moves away.

    The move played: proven wins before all others, the shortest first, proven losses after them,
    the longest first; then the most visited, the highest Q, the highest prior. The policy to learn
    is the share of visits. Of a tree without proofs (`sticky_endgames`) a mate in one is not told
    from other moves by more than its visits and Q. The policy's temperature is the knob
    policy_temperature.
    """

    _: dataclasses.KW_ONLY
    two_fold_draws: bool = True
    """A position that comes back within a line is a draw (Lc0: two-fold-draws, on)."""
    proven_first: bool = False
    """Proofs decide at once which moves are searched, in place of their scores (Lc0: no)."""
    sticky_endgames: bool = True
    """What is proven below a node is proven of it too (Lc0: sticky-endgames, on)."""
    draws: bool = True
    """Trees hold draw probabilities, for the knob draw_score."""
    moves_left: bool = True
    """Trees hold moves left, for the moves-left knobs (Lc0: where the network has such a head)."""

    @property
    def carries(self) -> Carries:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Proofs need moves left as well: the shortest win is played."""
        return Carries(
            draws=self.draws,
            moves_left=self.moves_left or self.sticky_endgames,
            bounds=self.sticky_endgames,
        )

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        q, mean = utilities(edges, knobs)
        visited = edges.visits > 0
        score = jnp.where(visited, q, first_play(edges, knobs, mean))
        if self.moves_left:
            score += jnp.where(visited, moves_left_utility(edges, q, knobs), 0.0)
        width = jnp.sqrt(jnp.maximum(edges.count, 1).astype(jnp.float32))
        bonus = exploration_constant(edges, knobs) * width
        return score + bonus * edges.prior / (1.0 + edges.started)

    def root_prior(
        self, keys: Key[Array, "B"], root: Node, knobs: SearchKnobs
    ) -> Float[Array, "B S"]:
        return dirichlet_prior(keys, root, knobs)

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        """The score is 1 for the moves that are best by all but their priors, and 0 elsewhere."""
        _, policy = super().conclude(edges, knobs, noise)
        order = [edges.visits.astype(jnp.float32), utilities(edges, knobs)[0]]
        if edges.lower is not None and edges.upper is not None and edges.moves_left is not None:
            proven = jnp.where(edges.lower > 0, 1.0, jnp.where(edges.upper < 0, -1.0, 0.0))
            order = [proven, -proven * edges.moves_left, *order]
        best = edges.legal
        for key in order:
            best &= key == jnp.where(best, key, -jnp.inf).max(axis=-1, keepdims=True)
        return best.astype(jnp.float32), policy


def utilities(edges: Edges, knobs: SearchKnobs) -> tuple[Float[Array, "B S"], Float[Array, "B 1"]]:
    """Q of the moves and of their node, W - L + draw_score D, as the node's mover sees them."""
    if edges.draw is None or edges.side is None or edges.own_draw is None:
        return edges.q, edges.mean
    worth = edges.side[:, None] * knobs.draw_score
    drawn = node_mean(edges, edges.own_draw, edges.draw)
    return edges.q + worth * edges.draw, edges.mean + worth * drawn


def node_mean(
    edges: Edges, own: Float[Array, "B"], below: Float[Array, "B S"]
) -> Float[Array, "B 1"]:
    """The mean over a node's own evaluation and all visits of its moves."""
    total = (edges.visits * below).sum(axis=-1, keepdims=True)
    return (own[:, None] + total) / (1 + edges.count)


def moves_left_utility(
    edges: Edges, q: Float[Array, "B S"], knobs: SearchKnobs
) -> Float[Array, "B S"]:
    """What the length of the game adds to the Q of moves (Lc0's M); see `Lc0`. Knobs `[B, 1]`."""
    assert edges.moves_left is not None
    assert edges.own_moves_left is not None
    longer = edges.moves_left - 1.0 - node_mean(edges, edges.own_moves_left, edges.moves_left)
    most = knobs.moves_left_most
    utility = jnp.clip(knobs.moves_left_slope * longer, -most, most) * jnp.sign(-q)
    threshold = jnp.asarray(knobs.moves_left_threshold)
    within = (threshold > 0) & (threshold < 1)
    above = jnp.maximum(0.0, jnp.abs(q) - threshold) / jnp.where(within, 1.0 - threshold, 1.0)
    size = jnp.where(within, above, jnp.abs(q))
    weight = knobs.moves_left_constant + knobs.moves_left_scaled * size
    utility *= weight + knobs.moves_left_quadratic * size**2
    return jnp.where(jnp.abs(edges.mean) > threshold, utility, 0.0)

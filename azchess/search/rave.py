"""RAVE: what a move was worth later in the game helps to judge it now."""

import dataclasses
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.search.edges import Carries, Edges
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import TreeSearch
from azchess.search.uct import FIRST, confidence


@dataclasses.dataclass(frozen=True)
class Rave(TreeSearch):
    """MC-RAVE (Gelly & Silver 2011, section 4): rapid action value estimation; static part.

    Score of a move: (1 - beta) Q + beta A, with Q the mean value of its n visits and A that of the
    m simulations in which the mover played the move here or at any later time, in the tree or in
    the evaluator's random game (all moves as first: `rollout_evaluator` tells what was played, any
    other evaluator leaves the tree alone). N is the visits of all moves of the node. The weight:

    - `schedule="hand"`: beta = sqrt(k / (3 N + k)), the hand-selected schedule, with k the knob
      `rave_visits`, the N at which both weigh alike (the paper: best near 1,000 in 9x9 Go).
    - `schedule="mse"`: beta = m / (n + m + b^2 n m), which makes the mean squared error least, with
      b the knob `rave_bias`. The paper's 4 b^2 is for values in [0, 1].

    Choices on which the field differs:

    - Q and A are means in [-1, 1], not rescaled.
    - An unvisited move is worth its A alone; one that no simulation has played yet goes before all
      others.
    - `explore` adds c sqrt(ln N / n), with c the knob `c_uct` (UCT-RAVE in the paper); an unvisited
      move then goes before all others. The paper does best without.
    - Ties go to the higher prior, then to the lower rank, or at random (`ties`).
    - A random game counts once for a move, at the node's first play of it or later; where several
      games make one value, all that they played is credited with their mean.

    The move played is the most visited one; the policy to learn is the share of visits.
    """

    carries: ClassVar[Carries] = Carries(amaf=True)

    _: dataclasses.KW_ONLY
    schedule: Literal["hand", "mse"] = "hand"
    explore: bool = False

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        assert edges.amaf_visits is not None
        assert edges.amaf_q is not None
        beta = self.weight(edges, knobs)
        # In this form moves tie that have equal means of both kinds, whatever their weights.
        score = edges.q + beta * (edges.amaf_q - edges.q)
        known = (edges.started > 0) | (edges.amaf_visits > 0)
        if self.explore:
            score += knobs.c_uct * confidence(edges)
            known = edges.started > 0
        return jnp.where(known, score, FIRST)

    def weight(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """Beta, the share of a move's worth that comes from all moves as first."""
        assert edges.amaf_visits is not None
        visits, played = edges.visits.astype(jnp.float32), edges.amaf_visits.astype(jnp.float32)
        if self.schedule == "hand":
            beta = jnp.sqrt(
                knobs.rave_visits / jnp.maximum(3.0 * edges.count + knobs.rave_visits, 1.0)
            )
            beta = jnp.broadcast_to(beta, visits.shape)
        else:
            total = visits + played + jnp.square(knobs.rave_bias) * visits * played
            beta = played / jnp.maximum(total, 1.0)
        return jnp.where(played > 0, jnp.where(visits > 0, beta, 1.0), 0.0)

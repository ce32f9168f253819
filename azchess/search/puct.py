"""AlphaZero's search: PUCT with Dirichlet noise at the root, and KataGo's additions to it."""

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from azchess.search.edges import Edges
from azchess.search.first_play import first_play
from azchess.search.gumbel import completed_q, improved_policy
from azchess.search.katago import forced, pruned_visits
from azchess.search.knobs import SearchKnobs
from azchess.search.node import Node
from azchess.search.policy import TreeSearch
from azchess.search.root import dirichlet_prior


@dataclasses.dataclass(frozen=True)
class Puct(TreeSearch):
    """AlphaZero's PUCT search (Silver et al. 2018, "Search"), static part.

    Score of a move: Q + c(N) P sqrt(N) / (1 + n), with n the visits of the move, N those of all
    moves of the node, and c(N) = c_init + c_factor log((1 + N + c_base) / c_base). Choices on which
    the field differs, and where others stand:

    - Q is the mean value in [-1, 1], not rescaled, as in AlphaZero and Lc0 (mctx rescales the Q of
      each node to [0, 1] by default).
    - N is the sum of child visits, as in AlphaZero's paper and Lc0 (mctx and AlphaZero's pseudocode
      count the node's own evaluation too: N + 1).
    - An unvisited move has Q = `fpu`, 0 by default (AlphaZero, as its authors reported: -1, a loss;
      mctx: the least of the siblings and the parent); see `first_play` for the other choices.
    - Ties go to the higher prior, then to the lower rank of the label, or with `ties="notation"` to
      the move whose name comes first (AlphaZero and Lc0 do not say; mctx adds random numbers of
      1e-7).

    At the root a visited move gets at least sqrt(k P N) visits, with k the knob `forced_visits`, 0
    for none (`azchess.search.katago.forced`). The move played is the most visited one, ties as
    above, whatever the `target`. `azchess.search.presets` has the values of AlphaZero, KataGo and
    others.
    """

    target: Literal["visits", "pruned", "completed_q"] = "visits"
    """The policy to learn: the shares of the `visits` (AlphaZero), those of the `pruned` visits
    (KataGo: `pruned_visits`), or softmax(logits + sigma(completed Q)) with the network's own logits
    and the knobs c_visit and c_scale (Danihelka et al. 2022, eq. 11)."""

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        return puct_score(edges, knobs)

    def bonus(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        return puct_bonus(edges, knobs)

    def root_rule(self, edges: Edges, knobs: SearchKnobs, noise: Any) -> Float[Array, "B S"]:
        del noise
        return forced(self.rule(edges, knobs), edges, knobs)

    def noise(self, keys: Key[Array, "B"], root: Node) -> Float[Array, "B S"]:
        """Nothing random: the prior without noise, from which the target "completed_q" is made."""
        del keys
        return root.prior

    def root_prior(
        self, keys: Key[Array, "B"], root: Node, knobs: SearchKnobs
    ) -> Float[Array, "B S"]:
        return dirichlet_prior(keys, root, knobs)

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        score, policy = super().conclude(edges, knobs, noise)
        if self.target == "pruned":
            left = pruned_visits(edges, exploration(edges, knobs), knobs)
            policy = left / jnp.maximum(left.sum(axis=-1, keepdims=True), 1.0)
        if self.target == "completed_q":
            own = dataclasses.replace(edges, prior=noise)
            most = edges.visits.max(axis=-1, keepdims=True)
            scaled = (knobs.c_visit + most) * knobs.c_scale * (completed_q(own) + 1.0) / 2.0
            policy = improved_policy(own, scaled)
        return score, policy


def puct_score(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """Q + c(N) P sqrt(N) / (1 + n); see `Puct`. Knobs `[B, 1]`."""
    q = jnp.where(edges.visits > 0, edges.q, first_play(edges, knobs))
    return q + puct_bonus(edges, knobs)


def puct_bonus(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """U = c(N) P sqrt(N) / (1 + n); see `Puct`. Knobs `[B, 1]`."""
    return exploration(edges, knobs) * edges.prior / (1.0 + edges.started)


def exploration(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B 1"]:
    """c(N) sqrt(N), what PUCT multiplies P / (1 + n) with. Knobs `[B, 1]`."""
    return exploration_constant(edges, knobs) * jnp.sqrt(edges.count.astype(jnp.float32))


def exploration_constant(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B 1"]:
    """c(N) = c_init + c_factor log((1 + N + c_base) / c_base), N the visits of all moves."""
    count = edges.count.astype(jnp.float32)
    return knobs.c_init + knobs.c_factor * jnp.log((1.0 + count + knobs.c_base) / knobs.c_base)

"""Search as regularised policy optimisation: play, search and learn by the policy it amounts to."""

import dataclasses
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from azchess.search.edges import Edges
from azchess.search.first_play import first_play
from azchess.search.knobs import SearchKnobs
from azchess.search.node import Node
from azchess.search.policy import TreeSearch
from azchess.search.puct import exploration, puct_score
from azchess.search.root import dirichlet_prior

BISECTIONS = 30
"""Halvings of the logarithm of the multiplier: from 1e-30 to 1 they leave a relative 1e-7."""


@dataclasses.dataclass(frozen=True)
class Grill(TreeSearch):
    """PUCT replaced by the policy that its visits approximate (Grill et al. 2020), static part.

    That policy, pi-bar, maximises sum_a Q(a) y(a) - lambda_N KL(P, y) over policies y (section 3):
    pi-bar = lambda_N P / (alpha - Q), where alpha makes it sum to 1, lambda_N = c(N) sqrt(N) /
    (A + N) and c(N) = c_init + c_factor log((1 + N + c_base) / c_base) as in AlphaZero. `act`,
    `search` and `learn` say where it stands in for visits, and the paper's variants are:

    - ALL: the defaults. AlphaZero: `Grill(act=False, search="puct", learn=False)`.
    - ACT, SEARCH, LEARN: the one of `act=True`, `search="sampled"`, `learn=True`, and the other two
      as in AlphaZero.

    Choices on which the field differs:

    - N is the sum of child visits and A the number of legal moves, as in the paper. A node none of
      whose moves has been tried (lambda is 0) has its prior as pi-bar.
    - Q is the mean value in [-1, 1], not rescaled (the paper's MuZero rescales it to [0, 1] by the
      least and greatest value of the tree). An unvisited move is worth `first_play`, as in `Puct`.
    - The prior of the root has Dirichlet noise in it, and so has its pi-bar.
    - A sampled move is drawn from pi-bar anew at each visit; "shortfall" takes the move with the
      largest pi-bar(a) - n(a) / (1 + N), so that visits follow pi-bar without chance (Danihelka et
      al. 2022, eq. 14). Ties go to the higher prior, then to the lower rank of the label.

    The move played is drawn from pi-bar with `gumbel_scale` 1, as in the paper, and the likeliest
    with 0 (`SearchKnobs.greedy`); without `act` it is the most visited one. Self-play draws its
    first moves from the policy to learn.
    """

    act: bool = True
    """The move is played by pi-bar, and not by the visits."""
    search: Literal["puct", "sampled", "shortfall"] = "sampled"
    """How moves are chosen in the tree: by PUCT, or so that they follow pi-bar."""
    learn: bool = True
    """The policy to learn is pi-bar, and not the shares of the visits."""

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        if self.search == "puct":
            return puct_score(edges, knobs)
        policy = optimal_policy(edges, knobs)
        if self.search == "shortfall":
            return policy - edges.started / (1.0 + edges.started.sum(axis=-1, keepdims=True))
        assert edges.keys is not None
        return log_policy(policy) + gumbels(edges.keys, policy.shape[-1])

    def root_prior(
        self, keys: Key[Array, "B"], root: Node, knobs: SearchKnobs
    ) -> Float[Array, "B S"]:
        return dirichlet_prior(keys, root, knobs)

    def noise(self, keys: Key[Array, "B"], root: Node) -> Float[Array, "B S"]:
        return gumbels(keys, root.prior.shape[-1])

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        score, policy = super().conclude(edges, knobs, noise)
        optimum = optimal_policy(edges, knobs)
        if self.act:
            score = log_policy(optimum) + knobs.gumbel_scale * noise
        return score, optimum if self.learn else policy


def optimal_policy(edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """pi-bar of a node, with AlphaZero's lambda; its prior as long as N is 0. Knobs `[B, 1]`."""
    q = jnp.where(edges.visits > 0, edges.q, first_play(edges, knobs))
    number = edges.legal.sum(axis=-1, keepdims=True)
    strength = exploration(edges, knobs) / jnp.maximum(number + edges.count, 1)
    policy = regularised_policy(edges.prior, q, edges.legal, strength)
    return jnp.where(strength > 0, policy, edges.prior)


def regularised_policy(
    prior: Float[Array, "B S"],
    q: Float[Array, "B S"],
    legal: Bool[Array, "B S"],
    strength: Float[Array, "B 1"],
) -> Float[Array, "B S"]:
    """The policy y of the greatest q y - strength KL(prior, y) (Grill et al. 2020, proposition 1).

    y = strength prior / (alpha - q), 0 where not legal. In units of the strength and counted from
    the best q, alpha lies between max(prior - behind), where one move alone has all of y, and 1,
    and the sum over the moves falls as alpha grows: bisection, of its logarithm, as a move of a
    small prior may be far ahead of all others. A strength of 0 counts as a tiny one.
    """
    tiny = jnp.float32(1e-30)
    prior = jnp.where(legal, jnp.maximum(prior, tiny), 0.0)
    best = jnp.where(legal, q, -jnp.inf).max(axis=-1, keepdims=True)
    behind = jnp.where(legal, (best - q) / jnp.maximum(strength, 1e-9), 0.0)

    def policy(alpha: Float[Array, "B 1"]) -> Float[Array, "B S"]:
        return prior / (alpha + behind)

    def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        more = policy(middle).sum(axis=-1, keepdims=True) > 1.0
        return jnp.where(more, middle, low), jnp.where(more, high, middle)

    low = jnp.maximum((prior - behind).max(axis=-1, keepdims=True), tiny)
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, jnp.ones_like(low)))
    found = policy(jnp.sqrt(low) * jnp.sqrt(high))
    return found / jnp.maximum(found.sum(axis=-1, keepdims=True), tiny)


def log_policy(policy: Float[Array, "B S"]) -> Float[Array, "B S"]:
    """Logarithm of a policy, finite where it has vanished."""
    return jnp.log(jnp.maximum(policy, jnp.finfo(jnp.float32).tiny))


def gumbels(keys: Key[Array, "B"], slots: int) -> Float[Array, "B S"]:
    """Gumbel noise: the largest sum with a log-policy is a draw from it. Keys `[B]`."""
    return jax.vmap(lambda key: jax.random.gumbel(key, (slots,)))(keys)

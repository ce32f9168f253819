"""Gumbel AlphaZero: sequential halving at the root, improved policies below it."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int32, Key

from azchess.search.edges import Edges
from azchess.search.grow import budget_of
from azchess.search.knobs import SearchKnobs
from azchess.search.node import Node
from azchess.search.policy import TreeSearch


@dataclasses.dataclass(frozen=True)
class Gumbel(TreeSearch):
    """Full Gumbel AlphaZero (Danihelka et al. 2022, "Policy improvement by planning with Gumbel").

    At the root `considered` moves are drawn without replacement by Gumbel noise g and sequentially
    halved by g + logits + sigma(Q) (algorithms 1 and 2); below the root the move of the largest
    pi'(a) - n(a) / (1 + N) is taken (eq. 14), with n the visits of the move, N those of all moves
    of the node, and pi' = softmax(logits + sigma(completed Q)) (eq. 11). Choices on which the field
    differs, and where others stand:

    - sigma(Q) = (c_visit + largest visit count) c_scale Q. Two presets: the paper takes Q in [0, 1]
      as it is and c_scale 1 for board games, the defaults here; mctx rescales the completed Q of
      each node to [0, 1] by its least and greatest, and takes `c_scale` 0.1:
      `Gumbel(rescale_values=True)` with `SearchKnobs(c_scale=0.1)`. Only legal moves count in that
      (mctx: all of them).
    - An unvisited move takes the mixed value v_mix (paper, eq. 33), as in mctx. `mixed_value=False`
      gives it the evaluator's value of the node, with which the paper's proof that pi' improves on
      the prior holds exactly if that value is exact.
    - Visit counts decide phases, so that Q and its scale are read anew within a phase, as in mctx;
      `azchess.search.phases.PhaseGumbel` reads scores at the end of each phase, as in the paper.
    - The schedule is that of the game's own simulations, if it has a `budget` of its own.
    - Ties go to the higher prior, then to the lower rank of the label (mctx: to the lower label).

    The move played is the best by g + logits + sigma(Q) of the most visited ones; the policy to
    learn is pi' at the root. Each search begins with a new tree: the halving is planned for moves
    that have no visits yet.
    """

    reuses: ClassVar[bool] = False

    simulations: int = 16
    """Positions evaluated below the root per move (paper: 2 to 200)."""
    considered: int = 16
    """Most moves tried at the root (paper: 16)."""
    rescale_values: bool = False
    """Rescale the completed Q of each node to [0, 1] by its least and greatest (mctx: True)."""
    mixed_value: bool = True
    """Unvisited moves are worth v_mix (paper), and not the evaluator's value of the node."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.considered < 1:
            raise ValueError(f"search.considered = {self.considered}: must be at least 1")

    def noise(self, keys: Key[Array, "B"], root: Node) -> Float[Array, "B S"]:
        return jax.vmap(lambda key: jax.random.gumbel(key, root.prior.shape[1:]))(keys)

    def root_rule(self, edges: Edges, knobs: SearchKnobs, noise: Any) -> Float[Array, "B S"]:
        budget = budget_of(self.simulations, knobs)[:, 0]
        aim = considered_visits(
            self.number_considered(edges), budget, edges.started.sum(axis=-1), self.considered
        )
        # One move at least has just that many visits, but for batched leaves that collided.
        within = jnp.where(edges.legal & (edges.started <= aim[:, None]), edges.started, -1)
        score = self.root_score(edges, knobs, noise)
        return jnp.where(within == within.max(axis=-1, keepdims=True), score, -jnp.inf)

    def number_considered(self, edges: Edges) -> Int32[Array, "B"]:
        """m, how many moves of the root are tried: never more than are legal."""
        return jnp.minimum(edges.legal.sum(axis=-1), self.considered)

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        return improved_policy_score(edges, self.scaled_q(edges, knobs))

    def bonus(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """What a move's visits fall short of the improved policy: this rule adds nothing to Q."""
        return self.rule(edges, knobs)

    def conclude(
        self, edges: Edges, knobs: SearchKnobs, noise: Any
    ) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
        most = edges.visits.max(axis=-1, keepdims=True)
        score = jnp.where(edges.visits == most, self.root_score(edges, knobs, noise), -jnp.inf)
        return score, improved_policy(edges, self.scaled_q(edges, knobs))

    def root_score(self, edges: Edges, knobs: SearchKnobs, noise: Any) -> Float[Array, "B S"]:
        """Gumbel + logits + sigma(completed Q), the logits at most 0."""
        logits = log_prior(edges)
        logits = logits - jnp.where(edges.legal, logits, -jnp.inf).max(axis=-1, keepdims=True)
        return jnp.maximum(knobs.gumbel_scale * noise + logits + self.scaled_q(edges, knobs), -1e9)

    def scaled_q(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """sigma(completed Q), in units of logits."""
        q = completed_q(edges, self.mixed_value)
        if self.rescale_values:
            low = jnp.where(edges.legal, q, jnp.inf).min(axis=-1, keepdims=True)
            high = jnp.where(edges.legal, q, -jnp.inf).max(axis=-1, keepdims=True)
            q = (q - low) / jnp.maximum(high - low, 1e-8)
        else:
            q = (q + 1.0) / 2.0
        most = edges.visits.max(axis=-1, keepdims=True)
        return (knobs.c_visit + most) * knobs.c_scale * q


def completed_q(edges: Edges, mixed: bool = True) -> Float[Array, "B S"]:
    """Q of the visited moves; v_mix for the others (paper, eq. 33), or the node's own value."""
    visited = edges.visits > 0
    if not mixed:
        return jnp.where(visited, edges.q, edges.value[:, None])
    weight = jnp.where(visited, jnp.maximum(edges.prior, jnp.finfo(jnp.float32).tiny), 0.0)
    share = weight / jnp.maximum(weight.sum(axis=-1, keepdims=True), jnp.finfo(jnp.float32).tiny)
    count = edges.visits.sum(axis=-1)
    value = (edges.value + count * (share * edges.q).sum(axis=-1)) / (count + 1)
    return jnp.where(visited, edges.q, value[:, None])


def log_prior(edges: Edges) -> Float[Array, "B S"]:
    """Logarithm of the prior, finite where a prior has vanished."""
    return jnp.log(jnp.maximum(edges.prior, jnp.finfo(jnp.float32).tiny))


def improved_policy(edges: Edges, scaled_q: Float[Array, "B S"]) -> Float[Array, "B S"]:
    """softmax(logits + sigma(completed Q)) over the legal moves (paper, eq. 11)."""
    logits = jnp.where(edges.legal, log_prior(edges) + scaled_q, jnp.finfo(jnp.float32).min)
    return jnp.where(edges.legal, jax.nn.softmax(logits, axis=-1), 0.0)


def improved_policy_score(edges: Edges, scaled_q: Float[Array, "B S"]) -> Float[Array, "B S"]:
    """Below the root: the move that falls most short of the improved policy (paper, eq. 14)."""
    count = 1.0 + edges.visits.sum(axis=-1, keepdims=True)
    return improved_policy(edges, scaled_q) - edges.started / count


def phase_visits(
    considered: Int32[Array, "*#b"], left: Int32[Array, "*#b"], budget: Int32[Array, "*#b"]
) -> Int32[Array, "..."]:
    """Visits that each of the moves `left` gets in a phase: max(1, floor(n / (ceil(log2 m) left))).

    The paper's sequential halving (after Karnin et al. 2013). A move that is alone gets all n.
    """
    powers = jnp.left_shift(1, jnp.arange(31, dtype=jnp.int32))
    phases = (powers < considered[..., None]).sum(axis=-1, dtype=jnp.int32)
    share = jnp.maximum(1, budget // (jnp.maximum(phases, 1) * jnp.maximum(left, 1)))
    return jnp.where(considered <= 1, jnp.maximum(1, budget), share)


def considered_visits(
    considered: Int32[Array, "B"],
    budget: Int32[Array, "B"],
    made: Int32[Array, "B"],
    most: int,
) -> Int32[Array, "B"]:
    """The visit count of the moves among which sequential halving chooses the next one.

    Of m = `considered` moves, at most `most`, half stay after each phase, but never fewer than two,
    between which the rest of the n = `budget` simulations is spent; `made` are over. As in mctx.
    """
    phase = jnp.arange(max(1, most.bit_length()), dtype=jnp.int32)
    moves = considered[:, None]
    left = jnp.maximum(jnp.right_shift(moves, phase), jnp.minimum(moves, 2))
    left = jnp.maximum(left, 1)
    each = phase_visits(moves, left, budget[:, None])
    before = jnp.cumsum(each * left, axis=-1) - each * left
    visited = jnp.cumsum(each, axis=-1) - each
    # Two moves that are left in one phase stay so in all later ones, and their count just goes on.
    now = (before <= made[:, None]).sum(axis=-1, keepdims=True) - 1
    left, before, visited = (
        jnp.take_along_axis(x, now, axis=-1)[:, 0] for x in (left, before, visited)
    )
    return visited + (made - before) // left

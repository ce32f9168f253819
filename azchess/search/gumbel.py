"""Gumbel AlphaZero: sequential halving at the root, improved policies below it."""

import dataclasses
import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from azchess.search.edges import Edges
from azchess.search.knobs import SearchKnobs
from azchess.search.node import Node
from azchess.search.policy import TreeSearch


@dataclasses.dataclass(frozen=True)
class Gumbel(TreeSearch):
    """Full Gumbel AlphaZero (Danihelka et al. 2022, "Policy improvement by planning with Gumbel").

    At the root `considered` moves are drawn without replacement by Gumbel noise and sequentially
    halved; below the root moves are chosen so that visits follow the improved policy. Choices on
    which the field differs:

    - sigma(Q) = (c_visit + largest visit count) c_scale Q. The paper takes Q in [0, 1] and
      c_scale 1 for board games, which are the defaults here; mctx rescales the completed Q of each
      node to [0, 1] and takes c_scale 0.1: `rescale_values=True` and the knob `c_scale=0.1`.
    - An unvisited move takes the mixed value v_mix (paper, appendix D), as in mctx.
    - Visit counts decide phases, so that Q is read anew within a phase, as in mctx.
    - Ties go to the higher prior, then to the lower rank of the label.

    The move played is the survivor of the halving; the policy to learn is
    softmax(logits + sigma(completed Q)). Each search begins with a new tree: the halving is planned
    for moves that have no visits yet.
    """

    reuses: ClassVar[bool] = False

    simulations: int = 16
    """Positions evaluated below the root per move (paper: 2 to 200)."""
    considered: int = 16
    """Most moves tried at the root (paper: 16)."""
    rescale_values: bool = False
    """Rescale the completed Q of each node to [0, 1] by its least and greatest (mctx: True)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.considered < 1:
            raise ValueError(f"search.considered = {self.considered}: must be at least 1")

    def noise(self, keys: Key[Array, "B"], root: Node) -> Float[Array, "B S"]:
        return jax.vmap(lambda key: jax.random.gumbel(key, root.prior.shape[1:]))(keys)

    def root_rule(self, edges: Edges, knobs: SearchKnobs, noise: Any) -> Float[Array, "B S"]:
        table = jnp.asarray(considered_visits(self.considered, self.simulations))
        considered = jnp.minimum(edges.legal.sum(axis=-1), table.shape[0] - 1)
        made = jnp.minimum(edges.visits.sum(axis=-1), table.shape[1] - 1)
        score = self.root_score(edges, knobs, noise)
        return jnp.where(edges.visits == table[considered, made][:, None], score, -jnp.inf)

    def rule(self, edges: Edges, knobs: SearchKnobs) -> Float[Array, "B S"]:
        return improved_policy_score(edges, self.scaled_q(edges, knobs))

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
        q = completed_q(edges)
        if self.rescale_values:
            low = jnp.where(edges.legal, q, jnp.inf).min(axis=-1, keepdims=True)
            high = jnp.where(edges.legal, q, -jnp.inf).max(axis=-1, keepdims=True)
            q = (q - low) / jnp.maximum(high - low, 1e-8)
        else:
            q = (q + 1.0) / 2.0
        most = edges.visits.max(axis=-1, keepdims=True)
        return (knobs.c_visit + most) * knobs.c_scale * q


def completed_q(edges: Edges) -> Float[Array, "B S"]:
    """Q of the visited moves, and the mixed value v_mix for the others (paper, appendix D)."""
    visited = edges.visits > 0
    weight = jnp.where(visited, jnp.maximum(edges.prior, jnp.finfo(jnp.float32).tiny), 0.0)
    share = weight / jnp.maximum(weight.sum(axis=-1, keepdims=True), jnp.finfo(jnp.float32).tiny)
    count = edges.visits.sum(axis=-1)
    mixed = (edges.value + count * (share * edges.q).sum(axis=-1)) / (count + 1)
    return jnp.where(visited, edges.q, mixed[:, None])


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


def considered_visits(considered: int, simulations: int) -> Int32[np.ndarray, "M N"]:
    """The visit count that sequential halving asks for, by number of moves m and simulation.

    Each phase gives each of its moves max(1, floor(n / (ceil(log2 m) m))) visits and then keeps
    half of them, never fewer than two (Karnin et al. 2013).
    """
    rows = [list(range(simulations))] * 2  # with no or one move, that move is visited each time
    for moves in range(2, considered + 1):
        phases = math.ceil(math.log2(moves))
        row: list[int] = []
        left, visited = moves, 0
        while len(row) < simulations:
            extra = max(1, simulations // (phases * left))
            for _ in range(extra):
                row += [visited] * left
                visited += 1
            left = max(2, left // 2)
        rows.append(row[:simulations])
    return np.array(rows[: considered + 1], np.int32)

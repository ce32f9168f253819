"""Gumbel AlphaZero: sequential halving at the root, improved policies below it."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int32, Key

from azchess.games.game import Game, Position
from azchess.networks.evaluator import Evaluator, prior
from azchess.search.decision import Decision, decide
from azchess.search.edges import Edges, best_slot, ranks_of
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.puct import check_simulations
from azchess.search.root import split_keys
from azchess.search.tree import edges_of, evaluate_node, grow, root_tree


@dataclasses.dataclass(frozen=True)
class Gumbel:
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
    softmax(logits + sigma(completed Q)).
    """

    simulations: int = 16
    """Positions evaluated below the root per move (paper: 2 to 200)."""
    considered: int = 16
    """Most moves tried at the root (paper: 16)."""
    rescale_values: bool = False
    """Rescale the completed Q of each node to [0, 1] by its least and greatest (mctx: True)."""
    max_depth: int | None = None
    """Longest line in plies; None for no limit."""

    def __post_init__(self) -> None:
        check_simulations(self.simulations, self.max_depth)
        if self.considered < 1:
            raise ValueError(f"search.considered = {self.considered}: must be at least 1")

    def __call__(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        positions: Position,
        knobs: SearchKnobs,
    ) -> Decision:
        """Searches positions `[B]`, none of them finished; keys `[B]` are consumed."""
        knobs = per_game(knobs, keys.shape[0])
        root_key, noise_key, search_key = split_keys(keys, 3)
        node = evaluate_node(game, evaluate, params, root_key, positions)
        plain = prior(node.evaluation, node.moves)
        noise = jax.vmap(lambda key: jax.random.gumbel(key, plain.shape[1:]))(noise_key)
        scale = functools.partial(self.scaled_q, knobs=knobs)
        root_score = functools.partial(
            halving_score,
            scale=scale,
            gumbel=jnp.asarray(knobs.gumbel_scale)[:, None] * noise,
            table=considered_visits(self.considered, self.simulations),
        )
        tree = grow(
            game,
            evaluate,
            params,
            search_key,
            root_tree(node, plain, knobs.discount, self.simulations + 1),
            simulations=self.simulations,
            root_rule=root_score,
            rule=functools.partial(improved_policy_score, scale=scale),
            discount=knobs.discount,
            max_depth=self.max_depth,
        )
        root = jnp.zeros(keys.shape, jnp.int32)
        edges = edges_of(tree, root, root)
        score = root_score(edges, wanted=edges.visits.max(axis=-1))
        slot = best_slot(score, edges, node.moves.labels, ranks_of(game))
        policy = improved_policy(edges, scale(edges))
        return decide(tree, slot, policy, plain, node.evaluation.moves_left)

    def scaled_q(self, edges: Edges, *, knobs: SearchKnobs) -> Float[Array, "B S"]:
        """sigma(completed Q), in units of logits."""
        q = completed_q(edges)
        if self.rescale_values:
            low = jnp.where(edges.legal, q, jnp.inf).min(axis=-1, keepdims=True)
            high = jnp.where(edges.legal, q, -jnp.inf).max(axis=-1, keepdims=True)
            q = (q - low) / jnp.maximum(high - low, 1e-8)
        else:
            q = (q + 1.0) / 2.0
        most = edges.visits.max(axis=-1, keepdims=True)
        return (
            (jnp.asarray(knobs.c_visit)[:, None] + most) * jnp.asarray(knobs.c_scale)[:, None] * q
        )


Scale: TypeAlias = Callable[[Edges], Float[Array, "B S"]]


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


def improved_policy_score(edges: Edges, *, scale: Scale) -> Float[Array, "B S"]:
    """Below the root: the move that falls most short of the improved policy (paper, eq. 14)."""
    count = 1.0 + edges.visits.sum(axis=-1, keepdims=True)
    return improved_policy(edges, scale(edges)) - edges.visits / count


def halving_score(
    edges: Edges,
    *,
    scale: Scale,
    gumbel: Float[Array, "B S"],
    table: Int32[np.ndarray, "M N"],
    wanted: Int32[Array, "B"] | None = None,
) -> Float[Array, "B S"]:
    """At the root: Gumbel + logits + sigma(Q) among the moves of the phase's visit count.

    `wanted` is that count; by default the table says it, from the number of moves considered and
    the number of simulations made.
    """
    if wanted is None:
        considered = jnp.minimum(edges.legal.sum(axis=-1), table.shape[0] - 1)
        made = jnp.minimum(edges.visits.sum(axis=-1), table.shape[1] - 1)
        wanted = jnp.asarray(table)[considered, made]
    logits = log_prior(edges)
    logits = logits - jnp.where(edges.legal, logits, -jnp.inf).max(axis=-1, keepdims=True)
    score = jnp.maximum(gumbel + logits + scale(edges), -1e9)
    return jnp.where(edges.visits == wanted[:, None], score, -jnp.inf)


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

"""Gumbel AlphaZero with the moves of a halving phase searched side by side."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Int32, Key

from azchess.games.game import Game
from azchess.networks.evaluator import Evaluator
from azchess.pytree import pytree
from azchess.search.edges import Edges, slot_ranks
from azchess.search.grow import Grower, budget_of, deepened
from azchess.search.gumbel import Gumbel, phase_visits
from azchess.search.knobs import SearchKnobs, columns
from azchess.search.node import split_keys
from azchess.search.policy import root_edges
from azchess.search.tree import UNVISITED, Tree


@dataclasses.dataclass(frozen=True)
class PhaseGumbel(Gumbel):
    """Gumbel AlphaZero in the paper's phases, with many positions per call of the network.

    Formulas, options and ties are those of `Gumbel` (Danihelka et al. 2022, algorithms 1 and 2);
    what differs is when the root's scores g + logits + sigma(Q) are read. Here they are read as a
    phase ends, and the better half of its moves goes on, as in the paper; `Gumbel` reads them anew
    for each simulation, as mctx does. Within a phase the moves have nothing to say to each other:
    each step searches one line below every move of the phase and evaluates their ends together.
    Nothing is approximated, as it is with visits in flight. With 16 moves considered, 200
    simulations take 49 calls of the network, 32 take 4, and 16 or fewer take one, besides the
    root's.

    Where the simulations end within a pass over the moves, the best by score get those that are
    left. A game with few legal moves may be done sooner than the others; it waits.
    """

    narrowing: int = 4
    """A step has as many lines per game as moves are considered. As those are dropped, a loop of a
    `narrowing`-th of the lines takes over, and so on: at 2 no line idles, at more fewer loops are
    compiled."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leaves != 1:
            raise ValueError(
                f"search.leaves = {self.leaves}: must be 1, a phase is evaluated together anyway"
            )
        if self.narrowing < 2:
            raise ValueError(f"search.narrowing = {self.narrowing}: must be at least 2")

    def widths(self, slots: int) -> list[int]:
        """Lines per step of the loops that follow each other as moves are dropped."""
        widths = [min(self.considered, slots, self.simulations)]
        while widths[-1] >= 2 * self.narrowing:
            widths.append(widths[-1] // self.narrowing)
        return widths

    def grow(
        self,
        game: Game,
        evaluate: Evaluator,
        params: object,
        keys: Key[Array, "B"],
        tree: Tree,
        knobs: SearchKnobs,
        noise: Any,
    ) -> Tree:
        batch, slots = tree.labels.shape[0], tree.labels.shape[-1]
        budget = budget_of(self.simulations, knobs)
        grower = Grower(game, evaluate, params, self, self.rule, self.rule, knobs)
        ranks = slot_ranks(game, self.ties, tree.labels[:, 0], tree.mover[:, 0])

        def renewed(state: State, left: Int32[Array, "B"]) -> State:
            """Where a phase is over, the best of its moves make up the next one."""
            edges = root_edges(state.tree)
            score = self.root_score(edges, columns(knobs).at_root(), noise)
            score = jnp.where(considered(state), score, -jnp.inf)
            order = best_first(score, edges, ranks)
            passes = phase_visits(self.number_considered(edges), left, budget)
            over = state.passes == 0
            return dataclasses.replace(
                state,
                left=jnp.where(over, left, state.left),
                passes=jnp.where(over, passes, state.passes),
                order=jnp.where(over[:, None], order, state.order),
            )

        def step(width: int, state: State) -> State:
            lane_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, state.step)
            state = side_by_side(grower, state, lane_keys, budget, width)
            return renewed(state, jnp.maximum(state.left // 2, jnp.minimum(state.left, 2)))

        def unfinished(fewer: int, state: State) -> Bool[Array, ""]:
            return ((state.made < budget) & (state.left > fewer)).any()

        none = jnp.zeros((batch,), jnp.int32)
        every = jnp.broadcast_to(jnp.arange(slots, dtype=jnp.int32), (batch, slots))
        state = State(
            tree=tree,
            step=jnp.int32(0),
            made=none,
            used=none,
            left=none + slots,
            passes=none,
            order=every,
        )
        state = renewed(state, jnp.maximum(self.number_considered(root_edges(tree)), 1))
        widths = self.widths(slots)
        for width, fewer in zip(widths, [*widths[1:], 0], strict=True):
            state = jax.lax.while_loop(
                functools.partial(unfinished, fewer), functools.partial(step, width), state
            )
        return state.tree


@pytree
class State:
    """Growing trees, and where each game stands in its halving.

    `made` simulations so far, of which `used` took a place in the tree. `left` moves are considered
    in this phase, the first of `order` (slots, best first), for `passes` more visits each.
    """

    tree: Tree
    step: Int32[Array, ""]
    made: Int32[Array, "B"]
    used: Int32[Array, "B"]
    left: Int32[Array, "B"]
    passes: Int32[Array, "B"]
    order: Int32[Array, "B S"]


def considered(state: State) -> Bool[Array, "B S"]:
    """Which slots of the root are in the phase."""
    batch, slots = state.order.shape
    stays = jnp.arange(slots) < state.left[:, None]
    return jnp.zeros((batch, slots), bool).at[jnp.arange(batch)[:, None], state.order].set(stays)


def best_first(
    score: Float[Array, "B S"],
    edges: Edges,
    ranks: Int16[Array, "B S"],
) -> Int32[Array, "B S"]:
    """All slots, the best legal ones first; ties as in `best_slot`."""
    score = jnp.where(edges.legal, score, -jnp.inf)
    slots = jnp.broadcast_to(jnp.arange(score.shape[-1], dtype=jnp.int32), score.shape)
    order = (-score, -edges.prior, ranks.astype(jnp.int32), slots)
    return jax.lax.sort(order, dimension=-1, num_keys=3)[-1]


def side_by_side(
    grower: Grower,
    state: State,
    keys: Key[Array, "B"],
    budget: Int32[Array, "B"],
    width: int,
) -> State:
    """One simulation below each move of the phase, while the budget lasts, in one evaluation."""
    batch = len(keys)
    lane = jnp.arange(width, dtype=jnp.int32)[:, None]
    counts = lane < jnp.minimum(state.left, budget - state.made)
    # Idle lanes go down the line of the first one, and are forgotten.
    first = jnp.where(counts, state.order[:, :width].T, state.order[:, 0])
    lane_keys = jax.vmap(lambda i: jax.vmap(jax.random.fold_in, (0, None))(keys, i))(lane[:, 0])
    rows = jnp.tile(jnp.arange(batch), width)
    line_keys, leaf_keys = split_keys(lane_keys.reshape(-1), 2)
    leaf, _ = grower.line(state.tree, rows, line_keys, counts.reshape(-1), first.reshape(-1))
    new = counts & (leaf.child == UNVISITED).reshape(counts.shape)
    index = state.tree.size - grower.growth.simulations + state.used
    index = index + jnp.cumsum(new, axis=0, dtype=jnp.int32) - 1
    tree = grower.visit(
        state.tree, rows, leaf_keys, leaf, counts.reshape(-1), index.reshape(-1), apart=True
    )
    depth = leaf.depth.reshape(counts.shape).max(axis=0)
    return dataclasses.replace(
        state,
        tree=deepened(tree, depth, counts.any(axis=0)),
        step=state.step + 1,
        made=state.made + counts.sum(axis=0, dtype=jnp.int32),
        used=state.used + new.sum(axis=0, dtype=jnp.int32),
        passes=jnp.maximum(state.passes - 1, 0),
    )

"""Evaluated positions, as search puts them into its trees."""

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Int32, Key

from azchess.games.game import Game, Moves, Position, relative_sign
from azchess.networks.evaluator import Evaluator, prior
from azchess.pytree import pytree
from azchess.search.knobs import Knob

Chance: TypeAlias = Literal["sampled", "spread", "exact"]
"""How dice are searched: see `azchess.search.policy.TreeSearch`."""

TINY = 1e-30


@pytree
class Node:
    """Evaluated positions, ready to be put into trees; seen from their movers.

    `value` and `wdl` are exact where the game is over; `finished` says that no line goes on from
    here, and `solved` that the rules alone say what it is worth. At a chance node the `prior` holds
    the probabilities of the outcomes. `played`: see `Evaluation`.
    """

    position: Position
    moves: Moves
    mover: Int32[Array, "R"]
    finished: Bool[Array, "R"]
    solved: Bool[Array, "R"]
    value: Float[Array, "R"]
    wdl: Float[Array, "R 3"]
    moves_left: Float[Array, "R"]
    prior: Float[Array, "R S"]
    chance: Bool[Array, "R"] | None = None
    played: Bool[Array, "R 2 A"] | None = None


def evaluate_node(
    game: Game,
    evaluate: Evaluator,
    params: object,
    keys: Key[Array, "R"],
    positions: Position,
    *,
    discount: Knob = 1.0,
    policy_temperature: Knob = 1.0,
    chance: Chance = "sampled",
) -> Node:
    """Finds the moves, the status and the evaluation of positions `[R]`; keys `[R]` are consumed.

    Exact where a game is over. A win in `m` plies is worth `discount**m`, with `m` the evaluator's
    plies to the end. A line ends at a position that is over by the rules, or without a move left at
    a ply cap. The worth of a chance node is that of one throw of the dice, or the mean over all of
    them where `chance` is "exact".
    """

    batch = len(keys)

    def judge(keys: Key[Array, "N"], positions: Position) -> Node:
        own = [
            jnp.repeat(jnp.broadcast_to(jnp.asarray(knob), (batch,)), len(keys) // batch)
            for knob in (discount, policy_temperature)
        ]
        return judged(game, evaluate, params, keys, positions, *own)

    if not game.num_outcomes:
        return judge(keys, positions)
    return thrown(game, judge, keys, positions, every=chance == "exact")


def judged(
    game: Game,
    evaluate: Evaluator,
    params: object,
    keys: Key[Array, "R"],
    positions: Position,
    discount: Float[Array, "R"],
    policy_temperature: Float[Array, "R"],
) -> Node:
    """Evaluated positions of a game without dice, or after the dice are thrown."""
    moves = jax.vmap(game.moves)(positions)
    status = jax.vmap(game.status)(positions, moves)
    evaluation = evaluate(params, keys, positions, moves)
    over = status.terminated
    moves_left = jnp.where(over, 0.0, evaluation.moves_left)
    estimate = evaluation.value * discount ** jnp.maximum(moves_left, 0.0)
    exact = jax.nn.one_hot(1 - status.outcome, 3)
    return Node(
        position=positions,
        moves=moves,
        mover=jax.vmap(game.mover)(positions),
        finished=over | ~moves.legal.any(axis=-1),
        solved=over,
        value=jnp.where(over, status.outcome, estimate),
        wdl=jnp.where(over[:, None], exact, evaluation.wdl),
        moves_left=moves_left,
        prior=prior(evaluation, moves, policy_temperature),
        played=evaluation.played,
    )


def thrown(
    game: Game,
    judge: Callable[[Key[Array, "R"], Position], Node],
    keys: Key[Array, "R"],
    positions: Position,
    *,
    every: bool,
) -> Node:
    """Evaluated positions of a game with dice: a chance node is worth the mean of its throws.

    One throw is drawn for it, or `every` outcome weighs by its probability.
    """
    moves = jax.vmap(game.moves)(positions)
    chances = jax.vmap(game.chance)(positions, moves)
    dice = chances.sum(axis=-1) > 0
    mover = jax.vmap(game.mover)(positions)
    if every:
        slots = jnp.broadcast_to(jnp.arange(game.num_outcomes), (len(dice), game.num_outcomes))
        weights = jnp.where(dice[:, None], chances[:, : game.num_outcomes], slots == 0)
    else:
        keys, draw = split_keys(keys, 2)
        slots = jax.vmap(jax.random.categorical)(draw, jnp.log(jnp.maximum(chances, TINY)))[:, None]
        weights = jnp.ones(slots.shape)

    def throw(position: Position, dice: Bool[Array, ""], label: Int16[Array, ""]) -> Position:
        after = game.step(position, jnp.maximum(label, 0).astype(jnp.int32))
        return jax.tree.map(lambda a, b: jnp.where(dice, a, b), after, position)

    number = slots.shape[1]
    labels = jnp.take_along_axis(moves.labels, slots, axis=1)
    seen = jax.vmap(jax.vmap(throw, (None, None, 0)))(positions, dice, labels)
    seen = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), seen)
    node = judge(jnp.repeat(keys, number), seen)
    node = jax.tree.map(lambda leaf: leaf.reshape(len(dice), number, *leaf.shape[1:]), node)
    view = relative_sign(node.mover, jnp.broadcast_to(mover[:, None], node.mover.shape))
    wdl = jnp.where((view > 0)[..., None], node.wdl, node.wdl[..., ::-1])
    first = jax.tree.map(lambda leaf: leaf[:, 0], node)
    return Node(
        position=positions,
        moves=moves,
        mover=mover,
        finished=first.finished & ~dice,
        solved=first.solved & ~dice,
        value=(weights * view * node.value).sum(axis=1),
        wdl=(weights[..., None] * wdl).sum(axis=1),
        moves_left=(weights * node.moves_left).sum(axis=1),
        prior=jnp.where(dice[:, None], chances, first.prior),
        chance=dice,
        played=first.played,
    )


def repeated(game: Game, node: Node, depth: Int32[Array, "R"]) -> Node:
    """Nodes at these depths below their roots, drawn where a position has come back in the line.

    Lc0's two-fold draws: the position has stood before, the way from there to here lies between the
    root and the node, and is as long as `depth` allows, 4 plies at least. Who could force it once
    could do so again. It ends the line, is proven, and has the length of that way as moves left.
    """
    plies = jax.vmap(game.recurrence)(node.position)
    drawn = (plies > 0) & (depth >= jnp.maximum(plies, 4)) & ~node.finished
    draw = jnp.array([0.0, 1.0, 0.0])
    return dataclasses.replace(
        node,
        finished=node.finished | drawn,
        solved=node.solved | drawn,
        value=jnp.where(drawn, 0.0, node.value),
        wdl=jnp.where(drawn[:, None], draw, node.wdl),
        moves_left=jnp.where(drawn, plies.astype(jnp.float32), node.moves_left),
    )


def split_keys(keys: Key[Array, "B"], number: int) -> Key[Array, "N B"]:
    """Splits the key of every game: keys `[B]` are consumed, keys `[number, B]` come back."""
    return jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, number))(keys), 1, 0)

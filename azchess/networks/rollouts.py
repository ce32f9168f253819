"""Play-outs: a position is judged by playing it to the end with random moves, as UCT does."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int32, Key

from azchess.games.game import Game, Moves, Position, Status, relative_sign
from azchess.networks.evaluator import Evaluation, Evaluator
from azchess.pytree import pytree


@pytree
class Playout:
    """How games went on from given positions, with random moves.

    `outcome`: +1 where the mover of the given position won, -1 where that player lost, 0 drawn or
    cut. `finished`: over by the rules, not cut. `plies`: moves made, rolls of the dice included.
    `played`: which labels each seat played at least once; rolls are not among them.
    """

    outcome: Float[Array, "*b"]
    finished: Bool[Array, "*b"]
    plies: Int32[Array, "*b"]
    played: Bool[Array, "*b 2 A"]


@pytree
class _Line:
    """Where the games of a batch stand during their play-outs."""

    positions: Position
    moves: Moves
    status: Status
    plies: Int32[Array, "B"]
    played: Bool[Array, "B 2 A"]


def playout(
    game: Game, keys: Key[Array, "B"], positions: Position, max_plies: int | None = None
) -> Playout:
    """Plays positions `[B]` to the end, every legal move being as likely as any other.

    At chance nodes the dice roll with their own probabilities. One loop serves the whole batch and
    ends with its last game; a game's moves depend on its key alone, not on the games beside it. A
    game that is not over after `max_plies` moves is cut (by default none is, so that a game without
    end plays for ever), and so is one that the rules truncate. Where `played` is not used, XLA
    drops it.
    """
    lanes = jnp.arange(keys.shape[0])

    def going(line: _Line) -> Bool[Array, "B"]:
        more = line.moves.legal.any(axis=-1) & ~line.status.over
        return more if max_plies is None else more & (line.plies < max_plies)

    def play(line: _Line) -> _Line:
        active, mover = going(line), jax.vmap(game.mover)(line.positions)
        chance = jax.vmap(game.chance)(line.positions, line.moves)
        # A game that goes on has made as many plies as the loop.
        shares = jax.vmap(lambda key, ply: jax.random.uniform(jax.random.fold_in(key, ply)))
        slot = _random_slot(shares(keys, line.plies), line.moves, chance)
        label = jnp.maximum(line.moves.labels[lanes, slot], 0).astype(jnp.int32)
        after = jax.vmap(game.step)(line.positions, label)
        after = jax.tree.map(lambda new, old: _select(active, new, old), after, line.positions)
        chosen = active & (chance.sum(axis=-1) == 0)
        moves = jax.vmap(game.moves)(after)
        return _Line(
            positions=after,
            moves=moves,
            status=jax.vmap(game.status)(after, moves),
            plies=line.plies + active,
            played=line.played.at[lanes, mover, label].max(chosen),
        )

    moves = jax.vmap(game.moves)(positions)
    first = _Line(
        positions=positions,
        moves=moves,
        status=jax.vmap(game.status)(positions, moves),
        plies=jnp.zeros(lanes.shape, jnp.int32),
        played=jnp.zeros((*lanes.shape, 2, game.num_labels), bool),
    )
    last = jax.lax.while_loop(lambda line: going(line).any(), play, first)
    movers = (jax.vmap(game.mover)(tree) for tree in (last.positions, positions))
    outcome = jnp.where(last.status.terminated, last.status.outcome, 0)
    return Playout(
        outcome=relative_sign(*movers) * outcome,
        finished=last.status.terminated,
        plies=last.plies,
        played=last.played,
    )


def _random_slot(
    share: Float32[Array, "B"], moves: Moves, chance: Float[Array, "B S"]
) -> Int32[Array, "B"]:
    """The slot at a share of the way, from 0 to 1, through the legal moves or the dice's odds."""
    weights = jnp.where(chance.sum(axis=-1, keepdims=True) > 0, chance, moves.legal)
    reached = jnp.cumsum(weights, axis=-1)
    slot = (reached <= share[:, None] * reached[:, -1:]).sum(axis=-1)
    return jnp.minimum(slot, moves.labels.shape[-1] - 1)


def _select(mask: Bool[Array, "B"], yes: Array, no: Array) -> Array:
    """`where` over the first axis of arrays of any rank."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (yes.ndim - 1)), yes, no)


def rollout_evaluator(game: Game, rollouts: int = 1, max_plies: int | None = None) -> Evaluator:
    """An evaluator that plays `rollouts` random games from each position; params are ignored.

    `wdl` is the mean result for the mover, `moves_left` the mean number of plies played (rolls of
    the dice included); all moves have equal priors. A play-out that is not over after `max_plies`
    counts as a draw; without it a game that has no end plays for ever. UCT (Kocsis & Szepesvari
    2006) plays one game per leaf. Raises ValueError unless `rollouts` is at least 1.
    """
    if rollouts < 1:
        raise ValueError(f"rollout_evaluator: rollouts = {rollouts}; must be at least 1")

    def evaluate(
        params: Any, keys: Key[Array, "B"], positions: Position, moves: Moves
    ) -> Evaluation:
        del params
        batch = keys.shape[0]
        lanes = jnp.repeat(jnp.arange(batch), rollouts)
        games = jax.vmap(lambda key: jax.random.split(key, rollouts))(keys).reshape(-1)
        starts = jax.tree.map(lambda leaf: leaf[lanes], positions)
        played = playout(game, games, starts, max_plies)
        outcome = played.outcome.reshape(batch, rollouts)
        results = jnp.stack([outcome > 0, outcome == 0, outcome < 0], axis=-1)
        return Evaluation(
            logits=jnp.zeros(moves.labels.shape, jnp.float32),
            wdl=results.mean(axis=1, dtype=jnp.float32),
            moves_left=played.plies.reshape(batch, rollouts).mean(axis=1, dtype=jnp.float32),
            played=played.played.reshape(batch, rollouts, 2, -1).any(axis=1),
        )

    return evaluate

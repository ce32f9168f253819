"""The truth of a small game: every line is played to its end, and the dice are counted in full."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Float64

from azchess.games.game import Game, Position

CHUNK = 4096
"""Positions looked at in one call, whatever their number, so that there is one compilation."""


@dataclasses.dataclass(frozen=True)
class Solution:
    """What positions and their moves are worth to the mover with best play on both sides.

    `worth` `[B]` is the expected result, from -1 to 1, `moves` `[B, A]` that of each label, NaN
    where it is not legal. At a chance node `moves` are the worths behind the rolls.
    """

    worth: Float64[np.ndarray, "B"]
    moves: Float64[np.ndarray, "B A"]

    @property
    def best(self) -> Bool[np.ndarray, "B A"]:
        """The moves that lose nothing."""
        return self.moves >= self.worth[:, None] - 1e-9

    @property
    def loss(self) -> Float64[np.ndarray, "B A"]:
        """What each move gives away, in expected results from 0 to 2; NaN where not legal."""
        return self.worth[:, None] - self.moves


@dataclasses.dataclass(frozen=True)
class _Level:
    """All positions that many plies from the start; edges `[E]` in the order of their parents."""

    over: Bool[np.ndarray, "N"]
    outcome: Float[np.ndarray, "N"]
    seat: Float[np.ndarray, "N"]
    parent: Any
    label: Any
    chance: Any


def solve(game: Game, positions: Position, most: int = 2**24) -> Solution:
    """Expectimax (minimax without dice) from positions `[B]` to the end of every line.

    Runs on the host; positions that are reached by different moves are looked at once for each.
    Truncated positions count as ends by their `outcome`, a draw. Raises ValueError where one ply
    would have more than `most` positions; memory is some hundred bytes for each of them.
    """
    positions = jax.device_get(positions)
    levels = [_look(game, positions)]
    while len((level := levels[-1]).parent):
        if len(level.parent) > most:
            raise ValueError(
                f"solve({game.name}): {len(level.parent)} positions after {len(levels)} plies "
                f"are more than most = {most}; give fewer positions, or ones nearer to the end"
            )
        positions = _step(game, positions, level)
        levels.append(_look(game, positions))
    behind = np.zeros(0)
    for level in reversed(levels[1:]):
        behind = _back_up(level, behind)
    root = levels[0]
    table = np.full((len(root.over), game.num_labels), np.nan)
    table[root.parent, root.label] = root.seat[root.parent] * behind
    return Solution(worth=root.seat * _back_up(root, behind), moves=table)


def _back_up(level: _Level, behind: Float64[np.ndarray, "E"]) -> Float64[np.ndarray, "N"]:
    """The worth of the positions of a level to seat 0, from that of the positions behind them."""
    worth = (level.seat * level.outcome).astype(np.float64)
    going = np.flatnonzero(~level.over)
    if len(going):
        starts = np.searchsorted(level.parent, going)
        seat = level.seat[level.parent]
        best = level.seat[going] * np.maximum.reduceat(seat * behind, starts)
        rolled = np.add.reduceat(level.chance * behind, starts)
        dice = np.add.reduceat(level.chance, starts) > 0
        worth[going] = np.where(dice, rolled, best)
    return worth


def _look(game: Game, positions: Position) -> _Level:
    """What there is to know of positions `[N]`."""
    labels, over, outcome, seat, chance = _chunked(functools.partial(_facts, game), positions)
    over = over | ~(labels >= 0).any(axis=1)
    parent, slot = np.nonzero((labels >= 0) & ~over[:, None])
    return _Level(
        over=over,
        outcome=outcome,
        seat=1.0 - 2.0 * seat,
        parent=parent,
        label=labels[parent, slot].astype(np.int32),
        chance=chance[parent, slot].astype(np.float64),
    )


def _step(game: Game, positions: Position, level: _Level) -> Position:
    """The positions behind all edges of a level."""
    before = jax.tree.map(lambda leaf: leaf[level.parent], positions)
    return _chunked(lambda edge: _after(game, *edge), (before, level.label))


def _chunked(run: Any, tree: Any) -> Any:
    """`run` over the first axis of a tree of arrays, a chunk at a time, as arrays on the host."""
    size = len(jax.tree.leaves(tree)[0])
    chunks = []
    for start in range(0, size, CHUNK):
        rows = np.minimum(np.arange(start, start + CHUNK), size - 1)
        chunk = jax.device_get(run(jax.tree.map(lambda leaf, rows=rows: leaf[rows], tree)))
        chunks.append(jax.tree.map(lambda leaf, end=size - start: leaf[:end], chunk))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *chunks)


@functools.partial(jax.jit, static_argnums=0)
def _facts(game: Game, positions: Position) -> Any:
    moves = jax.vmap(game.moves)(positions)
    status = jax.vmap(game.status)(positions, moves)
    chance = jax.vmap(game.chance)(positions, moves)
    seat = jax.vmap(game.mover)(positions)
    return moves.labels, status.over, status.outcome.astype(jnp.float32), seat, chance


@functools.partial(jax.jit, static_argnums=0)
def _after(game: Game, positions: Position, labels: Any) -> Position:
    return jax.vmap(game.step)(positions, labels)

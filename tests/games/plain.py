"""The worth of positions by recursion in plain Python, one call of the game at a time."""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from azchess.games.game import Game


@functools.cache
def _facts(game: Game) -> Any:
    def look(position):
        moves = game.moves(position)
        after = jax.vmap(game.step, (None, 0))(position, jnp.maximum(moves.labels, 0))
        return (
            game.status(position, moves),
            game.mover(position),
            moves.labels,
            game.chance(position, moves),
            after,
        )

    return jax.jit(look)


def children(game: Game, position: Any) -> Any:
    """Whether the game is over and its outcome, the mover, and (label, chance, child) triples."""
    status, mover, labels, chance, after = jax.device_get(_facts(game)(position))
    behind = [
        (int(label), float(chance[slot]), jax.tree.map(lambda leaf, at=slot: leaf[at], after))
        for slot, label in enumerate(labels)
        if label >= 0
    ]
    return bool(status.terminated), int(status.outcome), int(mover), behind


def worth(game: Game, position: Any, mean: bool = False) -> float:
    """The result that seat 0 expects with best play, or with random play by both if `mean`."""
    over, outcome, mover, behind = children(game, position)
    if over:
        return outcome if mover == 0 else -outcome
    worths = [worth(game, child, mean) for _, _, child in behind]
    chances = [chance for _, chance, _ in behind]
    if sum(chances):
        return sum(chance * value for chance, value in zip(chances, worths, strict=True))
    if mean:
        return sum(worths) / len(worths)
    return max(worths) if mover == 0 else min(worths)


def seen(game: Game, position: Any, value: float) -> float:
    """A value of seat 0 as the mover of a position sees it."""
    return value if int(game.mover(position)) == 0 else -value

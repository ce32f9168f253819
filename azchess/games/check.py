"""Does a game keep the promises of the `Game` boundary in its shapes and types?"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.game import Game


def check_game(game: Game) -> None:
    """Traces every function of a game once. Raises ValueError for a result of the wrong shape or
    type, or for a position that does not keep its structure from move to move.
    """
    try:
        _check_functions(game)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"game {game.name}: {type(error).__name__}: {error}") from error
    squares = math.prod(game.board)
    _check_table(game, "geometry", game.geometry, (game.num_labels, 3), squares)
    _check_table(game, "ranks", game.ranks, (game.num_labels,), None)
    group = len(game.symmetries.squares)
    _check_table(game, "symmetries.squares", game.symmetries.squares, (group, squares), squares)
    _check_table(
        game, "symmetries.labels", game.symmetries.labels, (group, game.num_labels), game.num_labels
    )


def _check_functions(game: Game) -> None:
    position = jax.eval_shape(game.init, jax.random.key(0))
    label = jax.ShapeDtypeStruct((), jnp.int32)
    moves = jax.eval_shape(game.moves, position)
    _check(game, "moves(position).labels", moves.labels, (game.num_slots,), jnp.int16)
    _check(game, "moves(position).count", moves.count, (), jnp.int32)
    status = jax.eval_shape(game.status, position, moves)
    _check(game, "status(position, moves).terminated", status.terminated, (), bool)
    _check(game, "status(position, moves).truncated", status.truncated, (), bool)
    _check(game, "status(position, moves).outcome", status.outcome, (), None)
    _check(game, "mover(position)", jax.eval_shape(game.mover, position), (), jnp.int32)
    history = jax.eval_shape(game.history, position)
    for leaf in jax.tree.leaves(history):
        if leaf.shape[:1] != (game.num_boards,):
            raise ValueError(
                f"game {game.name}: history(position) has an array of shape {leaf.shape}; its "
                f"first axis must be num_boards = {game.num_boards}"
            )
    tokens = (math.prod(game.board), game.num_features)
    _check(game, "tokens(history)", jax.eval_shape(game.tokens, history), tokens, None)
    record = jax.eval_shape(game.record, position)
    symmetric = jax.eval_shape(game.symmetric, record)
    _check(game, "symmetric(record)", symmetric, (len(game.symmetries.squares),), bool)
    _check_same(game, "step(position, label)", jax.eval_shape(game.step, position, label), position)
    _check_same(game, "position(record)", jax.eval_shape(game.position, record), position)


def _check(game: Game, what: str, value: Any, shape: tuple[int, ...], dtype: Any) -> None:
    if value.shape != shape or (dtype is not None and value.dtype != dtype):
        wanted = "numbers" if dtype is None else jnp.dtype(dtype).name
        raise ValueError(
            f"game {game.name}: {what} is {value.dtype.name}{list(value.shape)}; must be "
            f"{wanted}{list(shape)}"
        )


def _check_same(game: Game, what: str, value: Any, position: Any) -> None:
    """A position after a move must fit where the position before it was, weak types included."""
    kinds = [
        [(leaf.shape, leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(tree)]
        for tree in (value, position)
    ]
    if jax.tree.structure(value) != jax.tree.structure(position) or kinds[0] != kinds[1]:
        raise ValueError(
            f"game {game.name}: {what} must be a position like that of init(key): it is\n"
            f"  {value}\nbut must be\n  {position}"
        )


def _check_table(
    game: Game, what: str, table: np.ndarray, shape: tuple[int, ...], limit: int | None
) -> None:
    """A table of a game: its shape, and that its first column or all of it are indices."""
    if table.shape != shape:
        raise ValueError(
            f"game {game.name}: {what} has shape {list(table.shape)}; must be {list(shape)}"
        )
    places = table[:, :2] if what == "geometry" else table
    if limit is not None and (places.min() < 0 or places.max() >= limit):
        raise ValueError(f"game {game.name}: {what} must lie between 0 and {limit - 1}")

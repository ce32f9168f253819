"""Does a game keep the promises of the `Game` boundary in its shapes and types?"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from azchess.games.game import Game


def check_game(game: Game) -> None:
    """Traces every function of a game once, and looks at its tables and its start.

    Raises ValueError for a result of the wrong shape or type, for a position that does not keep its
    structure from move to move, for tables that point nowhere, and for labels or seats of the start
    that cannot be. What the game's moves mean is not looked at.
    """
    if not isinstance(game, Game):
        raise ValueError(f"{game!r} is not a Game")
    if not (game.num_slots >= 1 and 1 <= game.num_labels < 2**15):
        raise ValueError(
            f"game {game.name}: num_slots = {game.num_slots} and num_labels = {game.num_labels} "
            f"must be at least 1, and labels fewer than {2**15}"
        )
    try:
        _check_functions(game)
        _check_tables(game)
        _check_start(game)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"game {game.name}: {type(error).__name__}: {error}") from error


def _check_tables(game: Game) -> None:
    squares, labels = math.prod(game.board), game.num_labels
    group = len(game.symmetries.squares)
    _check_table(game, "geometry", game.geometry, (labels, 3))
    _check_table(game, "ranks", game.ranks, (labels,))
    _check_table(game, "notation_ranks", game.notation_ranks, (2, labels))
    _check_table(game, "symmetries.squares", game.symmetries.squares, (group, squares))
    _check_table(game, "symmetries.labels", game.symmetries.labels, (group, labels))
    if game.geometry.min() < 0 or game.geometry[:, :2].max() >= squares:
        raise ValueError(f"game {game.name}: geometry must lie between 0 and {squares - 1}")
    for name in ("squares", "labels"):
        table = getattr(game.symmetries, name)
        if group < 1 or (np.sort(table, axis=1) != np.arange(table.shape[1])).any():
            raise ValueError(f"game {game.name}: symmetries.{name} must be permutations")


def _check_start(game: Game) -> None:
    """The first position itself: its seat, its labels, and that it is not over."""
    position = game.init(jax.random.key(0))
    moves = game.moves(position)
    labels = np.asarray(moves.labels)[: int(moves.count)]
    if int(game.mover(position)) not in (0, 1):
        raise ValueError(f"game {game.name}: mover must be 0 or 1, not {game.mover(position)}")
    if game.status(position, moves).over or not len(labels):
        raise ValueError(f"game {game.name}: init(key) must be a position in which one can move")
    if len(set(labels.tolist())) < len(labels) or not (labels < game.num_labels).all():
        raise ValueError(
            f"game {game.name}: the labels of moves must differ and be below num_labels = "
            f"{game.num_labels}, not {labels.tolist()}"
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
    if not any(
        jnp.issubdtype(status.outcome.dtype, kind) for kind in (jnp.signedinteger, jnp.floating)
    ):
        raise ValueError(f"game {game.name}: outcome is {status.outcome.dtype}; must have a sign")
    _check(game, "mover(position)", jax.eval_shape(game.mover, position), (), jnp.int32)
    recurrence = jax.eval_shape(game.recurrence, position)
    _check(game, "recurrence(position)", recurrence, (), jnp.int32)
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


def _check_table(game: Game, what: str, table: np.ndarray, shape: tuple[int, ...]) -> None:
    """A table of a game: whole numbers of this shape."""
    if not isinstance(table, np.ndarray) or not np.issubdtype(table.dtype, np.integer):
        raise ValueError(f"game {game.name}: {what} must be a numpy array of whole numbers")
    if table.shape != shape:
        raise ValueError(
            f"game {game.name}: {what} has shape {list(table.shape)}; must be {list(shape)}"
        )

"""Evaluators without a network: a handcrafted evaluation, or a table of all positions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from azchess.games.game import Game, Moves, Position
from azchess.networks.evaluator import Evaluation, Evaluator


def function_evaluator(game: Game, judge: Callable[[Any, Position], Any]) -> Evaluator:
    """An evaluator from a function that judges one position, `(params, position) -> (logits, v)`.

    `logits` is `[A]`, one per label, or a single number where all moves are alike. `v` is what the
    position is worth to its mover: a number in [-1, 1], which counts as that share of wins (or
    losses) among draws, or probabilities `[3]` of a win, a draw and a loss. `params` is what the
    search is given as such: weights, or a table. Moves left are 0, so that a search's discount
    leaves the values as they are. Raises ValueError for answers of other shapes.

    A handcrafted evaluation, and a table of values that the position's index looks up:

        function_evaluator(game, lambda scale, position: (0.0, jnp.tanh(scale * lead(position))))
        function_evaluator(game, lambda table, position: (0.0, table[index(position)]))
    """

    def evaluate(
        params: Any, keys: Key[Array, "B"], positions: Position, moves: Moves
    ) -> Evaluation:
        del keys
        logits, worth = jax.vmap(lambda position: _judgement(game, judge(params, position)))(
            positions
        )
        labels = jnp.maximum(moves.labels, 0).astype(jnp.int32)
        return Evaluation(
            logits=jnp.take_along_axis(logits, labels, axis=-1),
            wdl=worth,
            moves_left=jnp.zeros(moves.labels.shape[:-1], jnp.float32),
        )

    return evaluate


def _judgement(game: Game, answer: Any) -> tuple[Float[Array, "A"], Float[Array, "3"]]:
    """What a user's function says of one position, as logits by label and W/D/L."""
    try:
        logits, worth = (jnp.asarray(part, jnp.float32) for part in answer)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the function returns {answer}; must be (logits, worth)") from error
    if logits.shape not in ((), (game.num_labels,)) or worth.shape not in ((), (3,)):
        raise ValueError(
            f"the function returns logits of shape {logits.shape} and a worth of {worth.shape}; "
            f"logits must be () or ({game.num_labels},), one per label, and the worth () or (3,)"
        )
    if not worth.shape:
        win, loss = jnp.maximum(worth, 0.0), jnp.maximum(-worth, 0.0)
        worth = jnp.stack([win, 1.0 - win - loss, loss])
    return jnp.broadcast_to(logits, (game.num_labels,)), worth

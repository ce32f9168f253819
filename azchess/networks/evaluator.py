"""What search asks of a network: the worth of a position and of each of its moves."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int16, Key, PRNGKeyArray

from azchess.games.game import Game, Moves, Position
from azchess.pytree import pytree


@pytree
class Evaluation:
    """How a position looks to an evaluator, seen from the player to move.

    `logits` `[S]`: log-odds of the moves, one per slot; slots without a move are to be ignored.
    `wdl` `[3]`: probabilities of a win, a draw and a loss for the mover. `moves_left`: plies to the
    end of the game if it is not drawn. `played`: which labels each seat played in the random games
    behind the evaluation, if it rests on such.
    """

    logits: Float[Array, "*b S"]
    wdl: Float[Array, "*b 3"]
    moves_left: Float[Array, "*b"]
    played: Bool[Array, "*b 2 A"] | None = None

    @property
    def value(self) -> Float[Array, "*b"]:
        """Expected result for the mover, in [-1, 1]."""
        return self.wdl[..., 0] - self.wdl[..., 2]


Evaluator: TypeAlias = Callable[
    [Any, Key[Array, "B"], Position, Moves],
    Evaluation,
]
"""`(params, keys [B], positions [B], moves [B]) -> Evaluation [B]`; a key per game is consumed."""


def prior(
    evaluation: Evaluation, moves: Moves, temperature: Float[Array, "*b"] | float = 1.0
) -> Float[Array, "*b S"]:
    """Move probabilities over the slots: a softmax over the legal moves, 0 in the padding.

    A softmax of logits / temperature: above 1 flatter, below 1 sharper.
    """
    lowest = jnp.finfo(evaluation.logits.dtype).min
    logits = evaluation.logits / jnp.asarray(temperature)[..., None]
    logits = jnp.where(moves.legal, logits, lowest)
    return jnp.where(moves.legal, jax.nn.softmax(logits, axis=-1), 0.0)


@runtime_checkable
class NetworkConfig(Protocol):
    """Sizes of a network, a frozen dataclass: makes the network for a game.

    The network is a pytree of floating arrays and a callable `(tokens, moves) -> heads`; see
    `network_evaluator`.
    """

    def init(self, game: Game, key: PRNGKeyArray) -> Any:
        """A freshly initialised network."""
        ...


def network_evaluator(game: Game) -> Evaluator:
    """An evaluator whose params are a network: any callable `(tokens, moves) -> heads`.

    The network sees `tokens` `[B, Q, F]` and, per slot, from-square, to-square and kind
    `[B, S, 3]` of the move, and returns `(logits [B, S], wdl logits [B, 3], moves left [B])`.
    """

    def evaluate(
        network: Any, keys: Key[Array, "B"], positions: Position, moves: Moves
    ) -> Evaluation:
        del keys
        history = jax.vmap(game.history)(positions)
        return apply_network(network, game, jax.vmap(game.tokens)(history), moves.labels)

    return evaluate


def apply_network(
    network: Any, game: Game, tokens: Float[Array, "B Q F"], labels: Int16[Array, "B S"]
) -> Evaluation:
    """The network's evaluation of positions given as tokens and the labels of their moves.

    Raises ValueError where the network's answers have other shapes than they must.
    """
    squares = jnp.asarray(game.geometry)[jnp.maximum(labels, 0)]
    heads = network(tokens, squares)
    batch = labels.shape[0]
    shapes = [getattr(head, "shape", type(head)) for head in heads or ()]
    wanted = [labels.shape, (batch, 3), (batch,)]
    if shapes != wanted:
        raise ValueError(
            f"the network returns arrays of shapes {shapes} for (tokens {tokens.shape}, moves "
            f"{squares.shape}); logits, wdl logits and moves left must be {wanted}"
        )
    logits, wdl_logits, moves_left = heads
    return Evaluation(
        logits=logits.astype(jnp.float32),
        wdl=jax.nn.softmax(wdl_logits.astype(jnp.float32), axis=-1),
        moves_left=moves_left.astype(jnp.float32),
    )


def uniform_evaluator(game: Game) -> Evaluator:
    """An evaluator that knows nothing: equal priors, every position a draw. Params are ignored."""
    del game

    def evaluate(
        params: Any, keys: Key[Array, "B"], positions: Position, moves: Moves
    ) -> Evaluation:
        del params, keys, positions
        batch = moves.labels.shape[:-1]
        return Evaluation(
            logits=jnp.zeros(moves.labels.shape, jnp.float32),
            wdl=jnp.broadcast_to(jnp.array([0.0, 1.0, 0.0], jnp.float32), (*batch, 3)),
            moves_left=jnp.zeros(batch, jnp.float32),
        )

    return evaluate

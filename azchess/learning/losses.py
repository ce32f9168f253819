"""What learning minimises: a loss per sample for the policy, the result and the plies left."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Int16, PRNGKeyArray

from azchess.games.game import Game
from azchess.learning.replay import Samples
from azchess.pytree import pytree
from azchess.search.knobs import Knob

MOVES_LEFT_SCALE = 10.0


@pytree
class LearnKnobs:
    """Numbers of learning, which may change without compiling anything anew."""

    learning_rate: Knob = 1e-3
    """Peak of the schedule (AlphaZero: SGD from 0.2 down to 0.0002)."""
    weight_decay: Knob = 1e-4
    """Decoupled for AdamW, on matrices only (AlphaZero: L2 of 1e-4)."""
    value_weight: Knob = 1.0
    """Weight of the result's cross-entropy against the policy's (AlphaZero: 1)."""
    moves_left_weight: Knob = 0.5
    """Weight of the loss of the plies left (AlphaZero: none)."""
    search_share: Knob = 0.0
    """Share of the search's win, draw and loss in the value target, against the game's result
    (AlphaZero: 0)."""


def check_learn_knobs(knobs: LearnKnobs) -> None:
    """Raises ValueError for a value out of its range; only for knobs that are Python numbers."""
    for name in ("learning_rate", "weight_decay", "value_weight", "moves_left_weight"):
        value = getattr(knobs, name)
        if isinstance(value, int | float) and not value >= 0.0:
            raise ValueError(f"knobs.learn.{name} = {value}: must be at least 0")
    share = knobs.search_share
    if isinstance(share, int | float) and not 0.0 <= share <= 1.0:
        raise ValueError(f"knobs.learn.search_share = {share}: must be between 0 and 1")


@pytree
class Batch:
    """Samples as the network reads them; `squares` are from, to and kind of each slot's move."""

    tokens: Float[Array, "N Q F"]
    squares: Int[Array, "N S 3"]
    legal: Bool[Array, "N S"]
    samples: Samples


@pytree
class Losses:
    """Losses per sample or their weighted mean; `accuracy` counts agreement of the likeliest."""

    policy: Float[Array, "*b"]
    value: Float[Array, "*b"]
    moves_left: Float[Array, "*b"]
    accuracy: Float[Array, "*b"]


def make_batch(game: Game, samples: Samples, key: PRNGKeyArray | None) -> Batch:
    """Tokens and moves of samples; with a key, each seen through a random symmetry that holds."""
    newest = jax.tree.map(lambda x: x[:, 0], samples.history)
    labels = jax.vmap(lambda record: game.moves(game.position(record)).labels)(newest)
    tokens = jax.vmap(game.tokens)(samples.history)
    legal = labels >= 0
    if key is not None and game.symmetries.squares.shape[0] > 1:
        valid = jax.vmap(game.symmetric)(newest)
        logits = jnp.where(valid, 0.0, jnp.finfo(jnp.float32).min)
        chosen = jax.random.categorical(key, logits, axis=-1)
        labels = jnp.asarray(game.symmetries.labels)[chosen[:, None], jnp.maximum(labels, 0)]
        source = jnp.asarray(inverse(game.symmetries.squares))[chosen]
        tokens = jnp.take_along_axis(tokens, source[..., None].astype(jnp.int32), axis=1)
    squares = jnp.asarray(game.geometry)[jnp.maximum(labels, 0)]
    return Batch(tokens=tokens, squares=squares, legal=legal, samples=samples)


def inverse(permutations: Int16[np.ndarray, "G Q"]) -> Int16[np.ndarray, "G Q"]:
    """For each permutation, where a square's content comes from."""
    return np.argsort(permutations, axis=1).astype(np.int16)


def losses(network: Any, batch: Batch, search_share: Knob) -> Losses:
    """The losses of each sample `[N]`, from its mover's view.

    Policy: cross-entropy against the search policy, 0 where that is 0, which is no target. Value:
    cross-entropy of win, draw and loss against the game's result, mixed with the search's own
    estimate by `search_share` (0 to 1).
    Plies left: Huber loss in units of ten plies, where the game was not drawn.
    """
    samples = batch.samples
    logits, wdl_logits, moves_left = network(batch.tokens, batch.squares)
    logits = jnp.where(batch.legal, logits.astype(jnp.float32), jnp.finfo(jnp.float32).min)
    log_policy = jnp.where(batch.legal, jax.nn.log_softmax(logits, axis=-1), 0.0)
    target = (1.0 - search_share) * samples.result + search_share * samples.wdl
    log_wdl = jax.nn.log_softmax(wdl_logits.astype(jnp.float32), axis=-1)
    decided = samples.result[:, 0] + samples.result[:, 2]
    plies = optax.huber_loss(moves_left / MOVES_LEFT_SCALE, samples.moves_left / MOVES_LEFT_SCALE)
    agree = logits.argmax(axis=-1) == samples.policy.argmax(axis=-1)
    return Losses(
        policy=-(samples.policy * log_policy).sum(axis=-1),
        value=-(target * log_wdl).sum(axis=-1),
        moves_left=decided * plies,
        accuracy=agree.astype(jnp.float32),
    )


def total_loss(network: Any, batch: Batch, knobs: LearnKnobs) -> tuple[Float[Array, ""], Losses]:
    """The weighted sum of the mean losses, and the means, over samples of weight above 0.

    The policy's mean is over those that have a policy to learn.
    """
    each = losses(network, batch, knobs.search_share)
    weight = batch.samples.weight
    taught = weight * (batch.samples.policy.sum(axis=-1) > 0)

    def mean(loss: Float[Array, "N"], weight: Float[Array, "N"]) -> Float[Array, ""]:
        return (weight / jnp.maximum(weight.sum(), 1.0) * loss).sum()

    means = Losses(
        policy=mean(each.policy, taught),
        value=mean(each.value, weight),
        moves_left=mean(each.moves_left, weight),
        accuracy=mean(each.accuracy, taught),
    )
    total = means.policy + knobs.value_weight * means.value
    return total + knobs.moves_left_weight * means.moves_left, means

"""What happens at the root only: exploration noise on the prior and the choice of the move."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int32, Key

from azchess.search.knobs import Knob, SearchKnobs
from azchess.search.node import Node


def dirichlet(keys: Key[Array, "B"], alpha: Knob, legal: Bool[Array, "B S"]) -> Float[Array, "B S"]:
    """Dirichlet noise over the legal moves of each game, 0 on the other slots.

    Normalised gamma draws, taken as logarithms since gamma draws at small alpha underflow. Keys
    `[B]`, one per game, are consumed.
    """

    def draw(key: Key[Array, ""], alpha: Float[Array, ""]) -> Float[Array, "S"]:
        return jax.random.loggamma(key, alpha, (legal.shape[-1],))

    logits = jnp.where(legal, jax.vmap(draw)(keys, jnp.asarray(alpha)), jnp.finfo(jnp.float32).min)
    return jnp.where(legal, jax.nn.softmax(logits, axis=-1), 0.0)


def noisy_prior(
    keys: Key[Array, "B"],
    prior: Float[Array, "B S"],
    legal: Bool[Array, "B S"],
    fraction: Knob,
    alpha: Knob,
) -> Float[Array, "B S"]:
    """The prior with a fraction of it replaced by Dirichlet noise over the legal moves.

    (1 - fraction) P + fraction Dir(alpha), AlphaZero (Silver et al. 2018), where chess has
    alpha 0.3 and fraction 0.25. The noise is drawn over the legal moves, so that all of the
    fraction arrives there. Keys `[B]` are consumed.
    """
    share = jnp.asarray(fraction)[:, None]
    return (1.0 - share) * prior + share * dirichlet(keys, alpha, legal)


def dirichlet_prior(keys: Key[Array, "B"], root: Node, knobs: SearchKnobs) -> Float[Array, "B S"]:
    """The root's prior, flattened by the root's temperature and mixed with Dirichlet noise."""
    legal = root.moves.legal
    alpha = jnp.asarray(knobs.noise_alpha)
    if knobs.noise_total is not None:
        alpha = jnp.asarray(knobs.noise_total) / jnp.maximum(legal.sum(axis=-1), 1)
    warm = tempered(root.prior, jnp.asarray(knobs.root_temperature)[:, None])
    return noisy_prior(keys, warm, legal, knobs.noise_fraction, alpha)


def tempered(prior: Float[Array, "B S"], temperature: Float[Array, "B 1"]) -> Float[Array, "B S"]:
    """prior^(1/temperature), normalised; unchanged, to the bit, at temperature 1."""
    logits = jnp.log(jnp.maximum(prior, jnp.finfo(jnp.float32).tiny)) / temperature
    power = jnp.where(prior > 0, jnp.exp(logits - logits.max(axis=-1, keepdims=True)), 0.0)
    warm = power / power.sum(axis=-1, keepdims=True)
    return jnp.where(temperature == 1.0, prior, warm)


def sample_slot(
    keys: Key[Array, "B"], policy: Float[Array, "B S"], temperature: Knob
) -> Int32[Array, "B"]:
    """Draws a move in proportion to policy^(1 / temperature); never one of policy 0. Keys `[B]`."""
    lowest = jnp.finfo(jnp.float32).min
    logits = (
        jnp.log(jnp.where(policy > 0, policy, 1.0))
        / jnp.maximum(jnp.asarray(temperature), 1e-3)[:, None]
    )
    logits = jnp.where(policy > 0, logits, lowest)
    return jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)

"""The learner: a network, its optimiser, and one update from a batch of samples."""

import dataclasses
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int32

from azchess.learning.losses import Batch, LearnKnobs, Losses, total_loss
from azchess.pytree import pytree

Optimiser: TypeAlias = Literal["adamw", "sgd"] | optax.GradientTransformation


@dataclasses.dataclass(frozen=True)
class LearnConfig:
    """Sizes and choices of learning."""

    batch: int = 256
    """N, samples per update (AlphaZero: 4,096)."""
    updates: int = 16
    """K, updates per iteration."""
    optimiser: Optimiser = "adamw"
    """AdamW, SGD with momentum 0.9 (AlphaZero), or any optax transform in Python; the knobs
    `learning_rate` and `weight_decay` reach a transform made by `optax.inject_hyperparams`."""
    clip: float = 1.0
    """Largest norm of the gradient; larger ones are scaled down to it."""
    warmup: int = 100
    """Updates in which the learning rate rises from 0 to its peak."""
    decay: int | None = None
    """Updates after which a cosine has brought the learning rate to a twentieth of its peak; None
    keeps it at the peak (AlphaZero: three steps down)."""
    average: float | None = None
    """Decay per update of an average of the weights that plays the games; None plays the
    newest weights (AlphaZero)."""
    augment: bool = True
    """See each sample through a random symmetry that its position allows (AlphaZero: not in
    chess)."""
    fill: float = 0.0
    """Share of the replay to fill before the first update."""

    def __post_init__(self) -> None:
        for name, least in (("batch", 1), ("updates", 1), ("warmup", 0)):
            if getattr(self, name) < least:
                value = getattr(self, name)
                raise ValueError(f"learn.{name} = {value}: must be at least {least}")
        if self.decay is not None and self.decay < self.warmup:
            raise ValueError(
                f"learn.decay = {self.decay}: must be at least learn.warmup = {self.warmup}, "
                "or None"
            )
        if self.average is not None and not 0.0 < self.average < 1.0:
            raise ValueError(f"learn.average = {self.average}: must be between 0 and 1, or None")
        if not 0.0 <= self.fill < 1.0:
            raise ValueError(f"learn.fill = {self.fill}: must be at least 0 and below 1")
        if self.clip <= 0.0:
            raise ValueError(f"learn.clip = {self.clip}: must be above 0")
        if isinstance(self.optimiser, str) and self.optimiser not in ("adamw", "sgd"):
            raise ValueError(f"learn.optimiser = {self.optimiser!r}: must be adamw or sgd")


@pytree
class Learner:
    """The network being trained, its averaged weights (None without), and the optimiser's state."""

    network: Any
    average: Any
    optimiser: Any
    step: Int32[Array, ""]

    @property
    def player(self) -> Any:
        """The network that plays: the averaged one if there is one."""
        return self.network if self.average is None else self.average


@pytree
class UpdateMetrics:
    """What one update says of itself."""

    losses: Losses
    gradient_norm: Float[Array, "*b"]
    learning_rate: Float[Array, "*b"]


def new_learner(config: LearnConfig, network: Any) -> Learner:
    """A learner at step 0."""
    return Learner(
        network=network,
        average=None if config.average is None else jax.tree.map(jnp.copy, network),
        optimiser=make_optimiser(config).init(network),
        step=jnp.zeros((), jnp.int32),
    )


def make_optimiser(config: LearnConfig) -> optax.GradientTransformation:
    """The optax transform of a config, with learning rate and weight decay as part of its state."""
    if not isinstance(config.optimiser, str):
        return config.optimiser
    numbers = {"learning_rate": 0.0, "weight_decay": 0.0}
    if config.optimiser == "adamw":
        make = optax.inject_hyperparams(optax.adamw, static_args=("mask",))
        return make(**numbers, mask=matrices)

    def sgd(learning_rate: Array, weight_decay: Array) -> optax.GradientTransformation:
        decay = optax.add_decayed_weights(weight_decay, mask=matrices)
        return optax.chain(decay, optax.sgd(learning_rate, momentum=0.9))

    return optax.inject_hyperparams(sgd)(**numbers)


def matrices(network: Any) -> Any:
    """True for the weights that decay: kernels and other leaves of two axes or more, not biases."""

    def decays(path: tuple[Any, ...], leaf: Array) -> bool:
        name = jax.tree_util.keystr(path)
        return leaf.ndim >= 2 and "bias" not in name and "scale" not in name

    return jax.tree_util.tree_map_with_path(decays, network)


def schedule(config: LearnConfig, step: Int32[Array, ""]) -> Float[Array, ""]:
    """Share of the peak learning rate at an update: linear warm-up, then constant or a cosine."""
    warm = (step + 1) / max(config.warmup, 1)
    if config.decay is None:
        return jnp.minimum(warm, 1.0)
    done = (step - config.warmup) / max(config.decay - config.warmup, 1)
    cosine = 0.05 + 0.95 * 0.5 * (1.0 + jnp.cos(jnp.pi * jnp.clip(done, 0.0, 1.0)))
    return jnp.minimum(warm, cosine)


def update(
    config: LearnConfig, learner: Learner, batch: Batch, knobs: LearnKnobs
) -> tuple[Learner, UpdateMetrics]:
    """One step of the optimiser; leaves the learner as it is where the batch holds no sample."""
    gradient, means = jax.grad(total_loss, has_aux=True)(learner.network, batch, knobs)
    norm = optax.tree.norm(gradient)
    gradient = jax.tree.map(lambda g: g * jnp.minimum(1.0, config.clip / (norm + 1e-9)), gradient)
    rate = jnp.float32(knobs.learning_rate) * schedule(config, learner.step)
    state = with_numbers(learner.optimiser, rate, jnp.float32(knobs.weight_decay))
    steps, state = make_optimiser(config).update(gradient, state, learner.network)
    network = optax.apply_updates(learner.network, steps)
    average = learner.average
    if config.average is not None:
        average = optax.incremental_update(network, average, 1.0 - config.average)
    new = Learner(network=network, average=average, optimiser=state, step=learner.step + 1)
    learns = batch.samples.weight.sum() > 0
    new = jax.tree.map(lambda a, b: jnp.where(learns, a, b), new, learner)
    return new, UpdateMetrics(losses=means, gradient_norm=norm, learning_rate=rate)


def with_numbers(state: Any, learning_rate: Array, weight_decay: Array) -> Any:
    """The optimiser's state with these numbers, if it holds numbers of those names."""
    if not hasattr(state, "hyperparams"):
        return state
    numbers = {"learning_rate": learning_rate, "weight_decay": weight_decay}
    known = {name: numbers.get(name, value) for name, value in state.hyperparams.items()}
    return state._replace(hyperparams=known)

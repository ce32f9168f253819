"""The learner does what its formulas say: schedule, clipping, decay, average, any optimiser."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from azchess.games.toy import subtraction
from azchess.learning.learner import (
    LearnConfig,
    make_optimiser,
    matrices,
    new_learner,
    schedule,
    update,
)
from azchess.learning.losses import LearnKnobs, make_batch, total_loss
from azchess.learning.replay import Samples
from learning.scripted import NETWORK

GAME = subtraction(6, 3)
ADAM = LearnConfig(warmup=0)


@pytest.fixture(scope="module")
def batch():
    """Five samples whose policies and results are plain to see."""
    heaps = jnp.array([1, 2, 3, 5, 6], jnp.int32)
    history = jax.vmap(lambda key: GAME.history(GAME.init(key)))(
        jax.random.split(jax.random.key(0), 5)
    )
    history = dataclasses.replace(history, stones=heaps[:, None])
    samples = Samples(
        history=history,
        policy=jax.nn.one_hot(jnp.array([0, 1, 2, 0, 1]), 3),
        result=jax.nn.one_hot(jnp.array([0, 0, 0, 0, 2]), 3),
        wdl=jnp.full((5, 3), 1 / 3),
        moves_left=jnp.array([1.0, 1.0, 1.0, 3.0, 4.0]),
        weight=jnp.ones(5),
    )
    return jax.jit(lambda samples: make_batch(GAME, samples, None))(samples)


@pytest.fixture(scope="module")
def network():
    return NETWORK.init(GAME, jax.random.key(0))


step = jax.jit(update, static_argnums=0)


def rates(config, steps):
    return [float(schedule(config, jnp.int32(number))) for number in steps]


@pytest.mark.fast
def test_the_rate_rises_in_warm_up_and_stays_or_falls_to_a_twentieth():
    constant = LearnConfig(warmup=10)
    assert rates(constant, [0, 4, 9, 10, 1000]) == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0])
    falling = LearnConfig(warmup=10, decay=110)
    assert rates(falling, [0, 9, 10]) == pytest.approx([0.1, 1.0, 1.0])
    middle, end, after = rates(falling, [60, 110, 500])
    assert middle == pytest.approx((1 + 0.05) / 2, abs=1e-6)
    assert end == after == pytest.approx(0.05)
    assert rates(LearnConfig(warmup=0), [0, 1]) == [1.0, 1.0]
    assert rates(LearnConfig(warmup=0, decay=4), [0, 2, 4]) == pytest.approx([1.0, 0.525, 0.05])


def test_the_rate_in_use_is_reported(batch, network):
    config = LearnConfig(warmup=4, decay=10)
    learner = new_learner(config, network)
    seen = []
    for _ in range(5):
        learner, metrics = step(config, learner, batch, LearnKnobs(learning_rate=0.01))
        seen.append(float(metrics.learning_rate))
    assert seen == pytest.approx([0.01 * rate for rate in rates(config, range(5))])
    assert int(learner.step) == 5


@pytest.mark.parametrize("clip", [1e-3, 1e6])
def test_the_gradient_is_shortened_to_the_clip_and_reported_as_it_was(clip, batch, network):
    # Plain descent at rate 1: the step is the gradient.
    config = LearnConfig(warmup=0, clip=clip, optimiser=optax.sgd(1.0))
    learner = new_learner(config, network)
    knobs = LearnKnobs()
    gradient = jax.grad(total_loss, has_aux=True)(network, batch, knobs)[0]
    norm = float(optax.tree.norm(gradient))
    after, metrics = step(config, learner, batch, knobs)
    moved = jax.tree.map(lambda a, b: a - b, network, after.network)
    assert float(metrics.gradient_norm) == pytest.approx(norm, rel=1e-4)
    assert norm > 1e-3
    assert float(optax.tree.norm(moved)) == pytest.approx(min(norm, clip), rel=1e-2)
    share = min(1.0, clip / norm)
    for a, b in zip(*map(jax.tree.leaves, (moved, gradient)), strict=True):
        np.testing.assert_allclose(a, share * b, atol=2e-7 + 1e-3 * share * float(abs(b).max()))


def test_the_average_follows_its_formula_and_plays(batch, network):
    config = LearnConfig(warmup=0, average=0.75)
    learner = new_learner(config, network)
    assert learner.player is learner.average
    mean = network
    for _ in range(3):
        learner, _ = step(config, learner, batch, LearnKnobs(learning_rate=0.1))
        mean = jax.tree.map(lambda m, w: 0.75 * m + 0.25 * w, mean, learner.network)
    for a, b in zip(*map(jax.tree.leaves, (mean, learner.average)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    plain = new_learner(ADAM, network)
    assert plain.average is None
    assert plain.player is plain.network


CUSTOM = optax.inject_hyperparams(optax.lion)(learning_rate=0.0)
OPTIMISERS = {
    "adamw": "adamw",
    "sgd": "sgd",
    "lion": CUSTOM,
    "adam with its own rate": optax.adam(0.01),
    "a chain": optax.chain(optax.clip(0.5), optax.rmsprop(0.01)),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_optimiser_lowers_the_loss_and_keeps_its_shapes(name, batch, network):
    config = LearnConfig(warmup=0, optimiser=OPTIMISERS[name])
    learner = new_learner(config, network)
    knobs = LearnKnobs(learning_rate=0.02)
    before = total_loss(network, batch, knobs)[0]
    avals = [jax.typeof(leaf) for leaf in jax.tree.leaves(learner)]
    for _ in range(15):
        learner, _ = step(config, learner, batch, knobs)
        assert [jax.typeof(leaf) for leaf in jax.tree.leaves(learner)] == avals
    assert total_loss(learner.network, batch, knobs)[0] < 0.9 * before


@pytest.mark.parametrize("optimiser", ["adamw", "sgd", CUSTOM], ids=["adamw", "sgd", "lion"])
def test_the_knob_of_the_rate_reaches_the_optimiser(optimiser, batch, network):
    config = LearnConfig(warmup=0, optimiser=optimiser)
    learner = new_learner(config, network)

    def moved(rate):
        knobs = LearnKnobs(learning_rate=rate, weight_decay=0.0)
        after, _ = step(config, learner, batch, knobs)
        return jax.tree.map(lambda a, b: a - b, after.network, network)

    assert float(optax.tree.norm(moved(0.0))) == 0.0
    small, large = moved(0.01), moved(0.04)
    ratio = float(optax.tree.norm(large) / optax.tree.norm(small))
    assert ratio == pytest.approx(4, rel=1e-2)


@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_weights_decay_and_biases_do_not(name, batch, network):
    config = LearnConfig(warmup=0, optimiser=name)
    network = jax.tree.map(lambda leaf: leaf + 1, network)
    learner = new_learner(config, network)
    flat = dataclasses.replace(
        batch,
        samples=dataclasses.replace(
            batch.samples, policy=0 * batch.samples.policy, result=0 * batch.samples.result
        ),
    )
    knobs = LearnKnobs(learning_rate=0.1, weight_decay=0.5, moves_left_weight=0.0)
    # Without targets there is no gradient: what moves is what decays, by rate times decay.
    after, metrics = step(config, learner, flat, knobs)
    assert float(metrics.gradient_norm) == 0.0
    for decays, old, new in zip(
        *map(jax.tree.leaves, (matrices(network), network, after.network)), strict=True
    ):
        np.testing.assert_allclose(new, old * (0.95 if decays else 1.0), rtol=1e-5)


def test_matrices_are_the_kernels_and_the_squares(network):
    paths = jax.tree_util.tree_leaves_with_path(matrices(network))
    names = {jax.tree_util.keystr(path, simple=True, separator="/"): on for path, on in paths}
    kernels = {on for name, on in names.items() if "kernel" in name}
    assert kernels == {True}
    assert any(name.startswith("squares") and on for name, on in names.items())
    assert not any(on for name, on in names.items() if "bias" in name or "scale" in name)


def test_an_optimiser_has_its_numbers_in_its_state(network):
    for name in ("adamw", "sgd"):
        state = make_optimiser(LearnConfig(optimiser=name)).init(network)
        assert {"learning_rate", "weight_decay"} <= set(state.hyperparams)

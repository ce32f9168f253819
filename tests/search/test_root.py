"""Noise, sampled moves and knobs at the root."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.search.knobs import SearchKnobs, check_knobs, per_game
from azchess.search.node import split_keys
from azchess.search.root import dirichlet, noisy_prior, sample_slot

DRAWS, SLOTS, LEGAL = 2000, 64, 20


@pytest.fixture(scope="module")
def legal():
    mask = np.zeros((DRAWS, SLOTS), bool)
    mask[:, :LEGAL] = True
    return jnp.asarray(mask)


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(0), DRAWS)


@pytest.mark.fast
@pytest.mark.parametrize("alpha", [0.03, 0.3, 10.0])
def test_noise_is_a_distribution_over_the_legal_moves_for_any_alpha(alpha, keys, legal):
    noise = dirichlet(keys, jnp.full((DRAWS,), alpha), legal)
    assert jnp.isfinite(noise).all()
    np.testing.assert_allclose(noise.sum(axis=-1), 1.0, atol=1e-5)
    assert (noise[~legal] == 0).all()
    # Mean and variance of a Dirichlet distribution of LEGAL equal parameters.
    mean, share = 1 / LEGAL, noise[:, :LEGAL]
    variance = mean * (1 - mean) / (LEGAL * alpha + 1)
    np.testing.assert_allclose(share.mean(axis=0), mean, atol=5 * (variance / DRAWS) ** 0.5)
    np.testing.assert_allclose(share.var(), variance, rtol=0.1)


@pytest.mark.fast
def test_noise_shifts_the_prior_of_twenty_moves_as_in_the_paper(keys, legal):
    """The size that mctx reaches with 4,672 labels instead is 0.0008."""
    prior = jnp.where(legal, 1 / LEGAL, 0.0)
    noisy = noisy_prior(keys, prior, legal, jnp.full(DRAWS, 0.25), jnp.full(DRAWS, 0.3))
    np.testing.assert_allclose(noisy.sum(axis=-1), 1.0, atol=1e-5)
    shift = 0.5 * jnp.abs(noisy - prior).sum(axis=-1)
    assert float(shift.mean()) == pytest.approx(0.14, abs=0.005)


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_the_whole_fraction_of_noise_arrives_on_legal_moves(fraction, keys, legal):
    prior = jnp.where(legal, jax.nn.softmax(jnp.where(legal, jnp.arange(SLOTS) / 5, -1e9)), 0.0)
    noisy = noisy_prior(keys, prior, legal, jnp.full(DRAWS, fraction), jnp.full(DRAWS, 0.3))
    np.testing.assert_allclose(
        (noisy - (1 - fraction) * prior)[:, :LEGAL].sum(axis=-1), fraction, atol=1e-5
    )
    assert (noisy[~legal] == 0).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_moves_are_drawn_in_proportion_to_the_policy_at_a_temperature(temperature, keys):
    policy = jnp.array([0.5, 0.0, 0.3, 0.2])
    slots = sample_slot(keys, jnp.broadcast_to(policy, (DRAWS, 4)), jnp.full((DRAWS,), temperature))
    wanted = policy ** (1 / temperature) * (policy > 0)
    counts = jnp.bincount(slots, length=4) / DRAWS
    np.testing.assert_allclose(counts, wanted / wanted.sum(), atol=0.04)
    assert counts[1] == 0


def test_temperature_zero_draws_the_best_move(keys):
    policy = jnp.broadcast_to(jnp.array([0.3, 0.0, 0.4, 0.3]), (DRAWS, 4))
    assert (sample_slot(keys, policy, jnp.zeros((DRAWS,))) == 2).all()


def test_every_game_splits_its_own_key():
    keys = jax.random.split(jax.random.key(1), 3)
    split = split_keys(keys, 4)
    assert split.shape == (4, 3)
    assert (split[:, 2] == jax.random.split(keys[2], 4)).all()


@pytest.mark.fast
def test_a_knob_out_of_range_is_refused_by_name():
    check_knobs(SearchKnobs())
    for name, value in {"fpu": -1.5, "noise_alpha": 0.0, "discount": 1.1, "c_base": 0.0}.items():
        with pytest.raises(ValueError, match=rf"knobs\.search\.{name} = {value}"):
            check_knobs(dataclasses.replace(SearchKnobs(), **{name: value}))


def test_knobs_become_one_number_per_game():
    knobs = per_game(SearchKnobs(c_init=jnp.arange(3.0), fpu=-1), 3)
    assert knobs.c_init.tolist() == [0.0, 1.0, 2.0]
    assert all(leaf.shape == (3,) and leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(knobs))

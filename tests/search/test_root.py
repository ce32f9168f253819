"""Noise, sampled moves and knobs at the root."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.game import Moves
from azchess.search.knobs import SearchKnobs, check_knobs, per_game
from azchess.search.node import Node, split_keys
from azchess.search.root import dirichlet, dirichlet_prior, noisy_prior, sample_slot, tempered

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


def root(count, slots=SLOTS, strength=0.0):
    """A root of so many moves for each draw, with a prior that falls from the first on."""
    legal = jnp.broadcast_to(jnp.arange(slots) < count, (DRAWS, slots))
    prior = jax.nn.softmax(jnp.where(legal, -strength * jnp.arange(slots), -jnp.inf), axis=-1)
    rows = jnp.zeros((DRAWS,))
    return Node(
        position=rows,
        moves=Moves(
            labels=jnp.where(legal, jnp.arange(slots), -1).astype(jnp.int16),
            count=legal.sum(axis=-1, dtype=jnp.int32),
        ),
        mover=rows.astype(jnp.int32),
        finished=rows > 0,
        solved=rows > 0,
        value=rows,
        wdl=jnp.zeros((DRAWS, 3)),
        moves_left=rows,
        prior=prior,
    )


def shift(keys, node, **knobs):
    noisy = dirichlet_prior(keys, node, per_game(SearchKnobs(**knobs), DRAWS))
    return float(0.5 * jnp.abs(noisy - node.prior).sum(axis=-1).mean())


def expected_shift(count, alpha, fraction):
    """Mean total variation between a flat prior and itself with noise; each share is beta."""
    a, b = alpha, alpha * (count - 1)
    beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    away = 2 * math.exp(a * math.log(a) + b * math.log(b) - (a + b + 1) * math.log(a + b) - beta)
    return fraction * 0.5 * count * away


@pytest.mark.parametrize("count", [2, 20, 30])
def test_the_shift_of_the_prior_is_the_exact_one_and_knows_no_padding(count, keys):
    """Noise over padded slots would shift thirty moves by 0.041 at 128 slots, 0.021 at 256."""
    for slots in (30, 128, 256):
        wanted = expected_shift(count, 0.3, 0.25)
        assert shift(keys, root(count, slots)) == pytest.approx(wanted, abs=0.003)


def test_noise_of_a_fixed_total_is_as_uneven_whatever_the_number_of_moves(keys):
    """KataGo scales alpha by the number of moves: 0.03 for the 361 of an empty board of Go."""
    for count in (4, 20, 60):
        node = root(count)
        knobs = per_game(SearchKnobs(noise_fraction=1.0, noise_total=10.83), DRAWS)
        share = dirichlet_prior(keys, node, knobs)[:, :count]
        np.testing.assert_allclose(share.sum(axis=-1), 1.0, atol=1e-5)
        variance = (1 / count) * (1 - 1 / count) / (10.83 + 1)
        np.testing.assert_allclose(share.var(), variance, rtol=0.08)
    # The same noise as alpha = total / moves.
    one, other = (
        dirichlet_prior(keys, root(20), per_game(SearchKnobs(**knobs), DRAWS))
        for knobs in ({"noise_total": 6.0}, {"noise_alpha": 0.3})
    )
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.fast
def test_a_root_s_temperature_flattens_its_prior_and_one_leaves_it_to_the_bit(keys):
    prior = root(6, strength=0.7).prior[:4]
    warm = tempered(prior, jnp.array([[0.5], [1.0], [1.25], [1e3]]))
    assert (warm[1] == prior[1]).all()
    np.testing.assert_allclose(warm.sum(axis=-1), 1.0, atol=1e-6)
    assert (warm[:, 6:] == 0).all()
    exact = np.asarray(prior[0, :6], np.float64)
    for row, temperature in ((0, 0.5), (2, 1.25)):
        power = exact ** (1 / temperature)
        np.testing.assert_allclose(warm[row, :6], power / power.sum(), rtol=1e-5)
    np.testing.assert_allclose(warm[3, :6], 1 / 6, atol=1e-3)
    # A prior that has vanished is no move that comes back, and no NaN.
    gone = tempered(jnp.array([[1.0, 0.0, 1e-38, 0.0]]), jnp.array([[2.0]]))
    assert jnp.isfinite(gone).all()
    assert gone[0, [1, 3]].tolist() == [0, 0]


def test_noise_is_mixed_into_the_flattened_prior(keys):
    node = root(6, strength=0.7)
    knobs = per_game(SearchKnobs(noise_fraction=0.25, root_temperature=1.5), DRAWS)
    noisy = dirichlet_prior(keys, node, knobs)
    noise = (noisy - 0.75 * tempered(node.prior, jnp.full((DRAWS, 1), 1.5))) / 0.25
    np.testing.assert_allclose(
        noise, dirichlet(keys, jnp.full(DRAWS, 0.3), node.moves.legal), atol=1e-5
    )


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

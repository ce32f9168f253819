"""Moves are drawn as Lc0 draws them, whatever is learned; fast searches are small and calm."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.learning.choice import choose, sized, temperature_of
from azchess.learning.losses import LearnKnobs, make_batch, total_loss
from azchess.learning.replay import sample
from azchess.learning.selfplay import SelfPlayConfig, Starts
from azchess.search.decision import Decision
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.puct import Puct
from learning.scripted import NETWORK, remembered
from learning.test_selfplay import GAME, self_played

DRAWS = 4000


def lc0_temperature(ply, temperature, delay, decay, end):
    """Lc0's options, counted in plies: temperature, tempdecay-delay, tempdecay, temp-endgame."""
    if ply < delay:
        return temperature
    left = (delay + decay - ply) / decay if ply < delay + decay else 0.0
    return max(temperature * left, end)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("temperature", "delay", "decay", "end"),
    [(1.0, 30, 0, 0.0), (0.9, 4, 12, 0.6), (1.0, 0, 10, 0.0), (1.0, 6, 0, 0.3), (0.0, 5, 5, 0.0)],
)
def test_the_temperature_falls_as_in_lc0(temperature, delay, decay, end):
    knobs = SearchKnobs(
        temperature=temperature,
        temperature_plies=float(delay),
        temperature_decay=float(decay),
        temperature_end=end,
    )
    plies = jnp.arange(40, dtype=jnp.int32)
    wanted = [lc0_temperature(ply, temperature, delay, decay, end) for ply in range(40)]
    np.testing.assert_allclose(temperature_of(per_game(knobs, 40), plies), wanted, atol=1e-6)


def decision(visits, q, slot=0, policy=None, value=0.0):
    """A finished search, the same for many games."""
    visits, q = np.asarray(visits), np.asarray(q, np.float32)
    policy = visits / visits.sum() if policy is None else np.asarray(policy)
    fields = {
        "slot": np.int32(slot),
        "policy": policy.astype(np.float32),
        "labels": np.arange(len(visits), dtype=np.int16),
        "visits": visits.astype(np.int32),
        "q": q,
        "prior": policy.astype(np.float32),
        "network_prior": policy.astype(np.float32),
        "value": np.float32(value),
        "wdl": np.float32([0, 1, 0]),
        "moves_left": np.float32(0),
        "depth": np.int32(1),
        "lockstep": np.float32(1),
    }
    return Decision(
        **{k: jnp.asarray(np.broadcast_to(x, (DRAWS, *x.shape))) for k, x in fields.items()}
    )


def shares(decision, ply=0, **knobs):
    keys = jax.random.split(jax.random.key(0), DRAWS)
    plies = jnp.full(DRAWS, ply, jnp.int32)
    return np.bincount(choose(keys, decision, plies, SearchKnobs(**knobs)), minlength=5) / DRAWS


@pytest.mark.parametrize(
    ("temperature", "cutoff", "offset"),
    [(1.0, 2.0, 0.0), (1.0, 0.25, 0.0), (0.5, 0.25, -0.8), (2.0, 2.0, -1.0), (0.7, 2.0, 3.0)],
)
def test_moves_are_drawn_by_visits_and_values_as_in_lc0(temperature, cutoff, offset):
    visits, q = np.array([20, 12, 7, 1, 0]), np.array([0.3, 0.1, 0.0, 0.5, 0.0])
    weight = np.where(visits > 0, np.maximum(visits + offset, 0.0) / 20, 0.0)
    weight = np.where(q >= 0.3 - cutoff, weight ** (1 / temperature), 0.0)
    drawn = shares(
        decision(visits, q), temperature=temperature, value_cutoff=cutoff, visit_offset=offset
    )
    np.testing.assert_allclose(drawn, weight / weight.sum(), atol=0.025)
    assert (drawn[weight == 0] == 0).all()


def test_an_unvisited_move_is_drawn_by_the_value_of_the_position():
    """Gumbel's policy has such moves."""
    given = {"visits": [9, 1, 0, 0, 0], "q": [0.5, 0.4, 0, 0, 0], "policy": [0.4, 0.3, 0.3, 0, 0]}
    near, far = (decision(**given, value=value) for value in (0.45, -0.2))
    np.testing.assert_allclose(shares(near, value_cutoff=0.2)[:3], [0.4, 0.3, 0.3], atol=0.03)
    np.testing.assert_allclose(shares(far, value_cutoff=0.2)[:3], [4 / 7, 3 / 7, 0], atol=0.03)


@pytest.mark.fast
def test_where_nothing_is_left_to_draw_the_search_decides():
    thought = decision([1, 1, 1, 1, 0], [0.1, 0.2, 0.0, 0.0, 0.0], slot=1)
    assert shares(thought, visit_offset=-1.0)[1] == 1
    assert shares(thought, temperature=0.0)[1] == 1
    assert shares(thought, ply=30)[1] == 1
    assert shares(thought, ply=30, temperature_end=0.5)[1] < 0.5


CAPPED = SelfPlayConfig(games=8, plies=24)
SEARCH = Puct(simulations=12)
KNOBS = SearchKnobs(full_share=0.4, fast_budget=3.0, temperature_plies=4.0)


@pytest.fixture(scope="module")
def capped():
    return jax.device_get(self_played(GAME, SEARCH, CAPPED)(KNOBS, Starts())[1])


def test_the_temperature_never_touches_the_policy_that_is_learned():
    run = self_played(GAME, SEARCH, CAPPED)
    ends = [
        run(dataclasses.replace(KNOBS, full_share=1.0, temperature=t, value_cutoff=c), Starts())[1]
        for t, c in ((0.3, 2.0), (3.0, 2.0), (3.0, 0.01))
    ]
    assert not (ends[0].played[0] == ends[1].played[0]).all()
    for plies in ends:
        np.testing.assert_array_equal(plies.policy, plies.decision.policy.astype(jnp.float16))
        np.testing.assert_array_equal(plies.policy[0], ends[0].policy[0])


def test_one_coin_per_ply_makes_the_searches_of_all_games_full_or_fast(capped):
    visits = capped.decision.visits.sum(axis=-1)
    assert ((visits == 12) | (visits == 3)).all()
    full = visits == 12
    assert (full == full[:, :1]).all()
    assert 3 <= full[:, 0].sum() <= 17
    # Fast searches leave no policy to learn, and make no noise; full ones do.
    assert (capped.policy[~full] == 0).all()
    np.testing.assert_array_equal(
        capped.policy[full], capped.decision.policy[full].astype(np.float16)
    )
    noise = np.abs(capped.decision.prior - capped.decision.network_prior).max(axis=-1)
    several = (capped.decision.labels >= 0).sum(axis=-1) > 1
    assert (noise[~full] == 0).all()
    assert (noise[full & several] > 0).all()
    # The values of fast searches are learned, so that a game's plies are all there.
    assert np.isfinite(capped.result).all()
    few = self_played(GAME, SEARCH, dataclasses.replace(CAPPED, games=4))(KNOBS, Starts())[1]
    np.testing.assert_array_equal(few.played, capped.played[:, :4])
    np.testing.assert_array_equal((few.policy > 0).any(axis=-1), full[:, :4])


@pytest.mark.fast
def test_the_share_of_full_searches_is_a_number_per_game():
    knobs = sized(SearchKnobs(full_share=0.4, budget=9.0), jnp.array([True, False, True]))
    assert knobs.budget.tolist() == [9, 9, 9]
    knobs = sized(SearchKnobs(fast_budget=4.0), jnp.array([True, False]))
    assert knobs.budget[0] >= 1e6
    assert knobs.budget[1] == 4
    assert knobs.noise_fraction.tolist() == [0.25, 0.0]
    assert knobs.gumbel_scale.tolist() == [1.0, 0.0]


def test_plies_without_a_policy_teach_their_value_alone(capped):
    replay = remembered(jax.tree.map(jnp.asarray, capped), 24)
    samples = sample(replay, jax.random.key(0), 64, 1)
    taught = np.asarray(samples.policy.sum(axis=-1) > 0)
    assert 0 < taught.sum() < 64
    network, knobs = NETWORK.init(GAME, jax.random.key(1)), LearnKnobs()
    measure = jax.jit(jax.value_and_grad(total_loss, has_aux=True))

    def measured(samples, knobs=knobs):
        batch = make_batch(GAME, samples, None)
        (_, means), gradient = measure(network, batch, jax.tree.map(jnp.float32, knobs))
        return means, gradient

    means, _ = measured(samples)
    only = dataclasses.replace(samples, weight=samples.weight * taught)
    alone, _ = measured(only)
    np.testing.assert_allclose(means.policy, alone.policy, rtol=1e-5)
    np.testing.assert_allclose(means.accuracy, alone.accuracy, rtol=1e-5)
    assert abs(float(means.moves_left - alone.moves_left)) > 1e-4
    # The policy's gradient knows nothing of them.
    policy_only = LearnKnobs(value_weight=0.0, moves_left_weight=0.0)
    both = measured(samples, policy_only)[1], measured(only, policy_only)[1]
    for one, other in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)

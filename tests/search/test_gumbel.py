"""Gumbel search against mctx on games without end, and its sequential halving."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mctx._src import seq_halving

from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.search.gumbel import Gumbel, considered_visits
from azchess.search.knobs import SearchKnobs
from search.mctx_policies import gumbel_policy
from search.reference import compiled
from search.test_puct import plain_positions

BATCH = 8


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.fast
def test_sequential_halving_visits_as_mctx_does_whatever_the_budget():
    most, longest = 32, 200
    moves, budget, made = (
        x.astype(jnp.int32)
        for x in jnp.meshgrid(
            jnp.arange(most + 1), jnp.arange(1, longest + 1), jnp.arange(longest), indexing="ij"
        )
    )
    flat = (moves.ravel(), budget.ravel(), made.ravel())
    ours = np.asarray(jax.jit(considered_visits, static_argnums=3)(*flat, most))
    ours = ours.reshape(moves.shape)
    for simulations in range(1, longest + 1):
        table = np.array(seq_halving.get_table_of_considered_visits(most, simulations))
        np.testing.assert_array_equal(ours[:, simulations - 1, :simulations], table)


@pytest.mark.parametrize(
    ("search", "game", "knobs", "batch"),
    [
        # With illegal moves mctx rescales Q by values of moves that are none, so only without.
        (Gumbel(32, 6, rescale_values=True), hash_game(8), SearchKnobs(c_scale=0.1), 8),
        (
            Gumbel(32, 6, mixed_value=False),
            hash_game(8, legal=0.6),
            SearchKnobs(discount=0.95, gumbel_scale=2.0),
            8,
        ),
        slow(Gumbel(200, 16), hash_game(30, legal=0.6), SearchKnobs(), 16),
        slow(Gumbel(64, 32), hash_game(224, legal=0.2), SearchKnobs(c_visit=10.0), 16),
        slow(Gumbel(200, 16, rescale_values=True), hash_game(100), SearchKnobs(c_scale=0.1), 16),
        slow(
            Gumbel(100, 20, rescale_values=True, mixed_value=False, max_depth=3),
            hash_game(20),
            SearchKnobs(c_scale=0.3, discount=0.9),
            1,
        ),
    ],
    ids=["rescaled", "own value", "200", "224 moves", "rescaled 200", "rescaled own value"],
)
def test_visits_and_policy_equal_mctx_on_games_without_end(search, game, knobs, batch, monkeypatch):
    keys = jax.random.split(jax.random.key(3), batch)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(4), batch))
    ours = compiled(search, game)(1.0, keys, positions, knobs)
    theirs = gumbel_policy(game, search, knobs, monkeypatch)(keys, positions)
    summary = theirs.search_tree.summary()
    np.testing.assert_array_equal(ours.visits, summary.visit_counts)
    np.testing.assert_array_equal(ours.slot, theirs.action)
    np.testing.assert_allclose(ours.policy, theirs.action_weights, atol=2e-5)
    np.testing.assert_allclose(ours.value, summary.value, atol=1e-5)
    legal = ours.labels >= 0
    np.testing.assert_allclose(ours.q, jnp.where(legal, summary.qvalues, 0.0), atol=1e-5)


@pytest.mark.fast
def test_wins_in_one_and_forced_blocks_are_found_without_a_network():
    positions, squares = plain_positions()
    keys = jax.random.split(jax.random.key(0), BATCH)
    # Enough for every reply to every move before the first moves are dropped.
    search = compiled(Gumbel(simulations=128), pgx_game("tic_tac_toe"))
    decision = search(0.0, keys, positions, SearchKnobs().greedy())
    assert decision.label.tolist() == squares.tolist()
    best = decision.policy.argmax(axis=-1)
    assert (jnp.take_along_axis(decision.labels, best[:, None], 1)[:, 0] == squares).all()


def test_noise_decides_which_moves_are_considered_and_scale_zero_takes_the_likeliest():
    game = hash_game(8)
    search = compiled(Gumbel(8, 4), game)
    keys = jax.random.split(jax.random.key(3), BATCH)
    positions = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (BATCH,)), game.init(jax.random.key(4))
    )
    plain = search(1.0, keys, positions, SearchKnobs(gumbel_scale=0.0))
    likeliest = jnp.argsort(-plain.prior[0])[:4]
    assert set(jnp.flatnonzero(plain.visits[0]).tolist()) == set(likeliest.tolist())
    assert (plain.visits == plain.visits[0]).all()
    noisy = search(1.0, keys, positions, SearchKnobs())
    assert (noisy.visits != plain.visits).any(axis=-1).sum() >= BATCH // 2
    assert ((noisy.visits > 0).sum(axis=-1) == 4).all()

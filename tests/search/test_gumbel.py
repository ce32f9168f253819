"""Gumbel search against mctx on games without end, and its sequential halving."""

import functools

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest
from mctx._src import seq_halving

from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.search.gumbel import Gumbel, considered_visits
from azchess.search.knobs import SearchKnobs
from azchess.search.node import evaluate_node, split_keys
from search.reference import compiled, hashed_evaluator
from search.test_puct import plain_positions

BATCH = 8


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


def mctx_gumbel(game, search, knobs, monkeypatch):
    """`mctx.gumbel_muzero_policy` on a game without end, with the noise that our search draws."""
    evaluate = hashed_evaluator(game)

    def output(positions):
        keys = jax.random.split(jax.random.key(0), BATCH)
        node = evaluate_node(game, evaluate, 1.0, keys, positions, discount=knobs.discount)
        found = evaluate(1.0, keys, positions, node.moves)
        illegal = ~node.moves.legal
        logits = jnp.where(illegal, jnp.finfo(jnp.float32).min, found.logits)
        return logits, node.value, illegal, (positions, node.moves.labels)

    def recurrent(params, key, action, embedding):
        positions, labels = embedding
        label = jnp.take_along_axis(labels, action[:, None], axis=1)[:, 0]
        positions = jax.vmap(game.step)(positions, label.astype(jnp.int32))
        logits, value, _, embedding = output(positions)
        return mctx.RecurrentFnOutput(
            reward=jnp.zeros(BATCH),
            discount=jnp.full(BATCH, -knobs.discount),
            prior_logits=logits,
            value=value,
        ), embedding

    def run(keys, positions):
        noise_keys = split_keys(keys, 4)[2]
        noise = jax.vmap(lambda key: jax.random.gumbel(key, (game.num_slots,)))(noise_keys)
        logits, value, illegal, embedding = output(positions)
        # The paper's Q in [0, 1] is half of mctx's Q in [-1, 1]; rescaled values are alike.
        scale = knobs.c_scale if search.rescale_values else knobs.c_scale / 2
        with monkeypatch.context() as patch:
            patch.setattr(jax.random, "gumbel", lambda key, shape, dtype: noise)
            return mctx.gumbel_muzero_policy(
                (),
                jax.random.key(0),
                mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding),
                recurrent,
                search.simulations,
                invalid_actions=illegal,
                max_depth=search.max_depth,
                qtransform=functools.partial(
                    mctx.qtransform_completed_by_mix_value,
                    value_scale=scale,
                    maxvisit_init=knobs.c_visit,
                    rescale_values=search.rescale_values,
                ),
                max_num_considered_actions=search.considered,
                gumbel_scale=knobs.gumbel_scale,
            )

    return jax.jit(run)


@pytest.mark.parametrize(
    ("search", "game", "knobs"),
    [
        # With illegal moves mctx rescales Q by values of moves that are none, so only without.
        (Gumbel(32, 6, rescale_values=True), hash_game(8), SearchKnobs(c_scale=0.1)),
        (Gumbel(32, 6), hash_game(8, legal=0.6), SearchKnobs(discount=0.95, gumbel_scale=2.0)),
        pytest.param(
            Gumbel(200, 16), hash_game(30, legal=0.6), SearchKnobs(), marks=pytest.mark.slow
        ),
    ],
    ids=["rescaled", "as in the paper", "200 simulations"],
)
def test_visits_and_policy_equal_mctx_on_games_without_end(search, game, knobs, monkeypatch):
    keys = jax.random.split(jax.random.key(3), BATCH)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(4), BATCH))
    ours = compiled(search, game)(1.0, keys, positions, knobs)
    theirs = mctx_gumbel(game, search, knobs, monkeypatch)(keys, positions)
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

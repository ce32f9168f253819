"""MuZero's PUCT against mctx and against a plain search in float64."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.search.knobs import SearchKnobs
from azchess.search.muzero import MuZeroPuct
from search.lines import BATCH, check_lines
from search.mctx_policies import muzero_policy
from search.reference import best, compiled


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    ("search", "game", "knobs", "batch"),
    [
        (MuZeroPuct(40), hash_game(20, legal=0.6), SearchKnobs(), 8),
        slow(MuZeroPuct(200), hash_game(60), SearchKnobs(c_init=2.5, c_base=100.0), 16),
        slow(MuZeroPuct(64), hash_game(224, legal=0.3), SearchKnobs(discount=0.9), 16),
        slow(MuZeroPuct(128, max_depth=3), hash_game(30), SearchKnobs(c_init=0.5), 1),
    ],
    ids=["40", "200", "224 moves", "three plies"],
)
def test_visits_and_values_equal_mctx_on_games_without_end(search, game, knobs, batch, monkeypatch):
    keys = jax.random.split(jax.random.key(3), batch)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(4), batch))
    ours = compiled(search, game)(1.0, keys, positions, knobs.greedy())
    theirs = muzero_policy(game, search, knobs, monkeypatch)(keys, positions)
    summary = theirs.search_tree.summary()
    np.testing.assert_array_equal(ours.visits, summary.visit_counts)
    np.testing.assert_allclose(ours.policy, theirs.action_weights, atol=1e-6)
    np.testing.assert_allclose(ours.value, summary.value, atol=1e-5)
    legal = ours.labels >= 0
    np.testing.assert_allclose(ours.q, jnp.where(legal, summary.qvalues, 0.0), atol=1e-5)


def choose(node, knobs, ranks):
    """MuZero's score, with Q between the least and the greatest of the siblings and the node."""
    count = 1 + sum(node.visits)
    mean = (node.value + sum(node.total)) / count
    c = knobs.c_init + knobs.c_factor * math.log((1 + count + knobs.c_base) / knobs.c_base)
    seen = [t / n for t, n in zip(node.total, node.visits, strict=True) if n]
    low, high = min([mean, *seen]), max([mean, *seen])

    def score(slot):
        visits = node.visits[slot]
        q = (node.total[slot] / visits - low) / max(high - low, 1e-8) if visits else 0.0
        return q + c * node.prior[slot] * math.sqrt(count) / (1 + visits)

    return best([score(slot) for slot in range(len(node.labels))], node, ranks)


def swept():
    return SearchKnobs(
        discount=jnp.linspace(0.9, 1.0, BATCH),
        c_init=jnp.linspace(0.5, 3.0, BATCH),
        c_base=jnp.linspace(20.0, 19652.0, BATCH),
    )


def test_visits_equal_those_of_a_plain_search_in_float64():
    game = hash_game(6, legal=0.7, ends=0.15)
    check_lines(MuZeroPuct(64), game, choose, swept(), count=24, most_moves=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "most_moves"),
    [
        (hash_game(20, legal=0.5, ends=0.05), 5),
        (pgx_game("connect_four"), 25),
        (ChessGame(), 60),
    ],
    ids=["toy", "connect four", "chess"],
)
def test_visits_equal_those_of_a_plain_search_in_float64_up_to_200_simulations(game, most_moves):
    check_lines(MuZeroPuct(200), game, choose, swept(), count=40, most_moves=most_moves)

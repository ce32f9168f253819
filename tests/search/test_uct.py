"""UCT and RAVE against plain searches in float64."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.dice import dice_game
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game, subtraction
from azchess.search.knobs import SearchKnobs
from azchess.search.rave import Rave
from azchess.search.uct import Uct
from search import uct_reference as plain
from search.test_puct import wander

BATCH = 8
# The dice are spread and valued in full, so that the plain search knows how they fall.
RULES = {
    "uct": (Uct(64), plain.uct, "hashed"),
    "tuned": (Uct(64, tuned=True), plain.ucb1_tuned, "hashed"),
    "deep": (Uct(64, bias="depth"), plain.uct_deep, "hashed"),
    "uct on rollouts": (Uct(64), plain.uct, "rollouts"),
    "rave on rollouts": (Rave(64), plain.rave_hand, "rollouts"),
    "rave": (Rave(64), plain.rave_hand, "hashed with moves"),
    "rave mse": (Rave(64, schedule="mse"), plain.rave_mse, "hashed with moves"),
    "uct-rave": (Rave(64, explore=True), plain.uct_rave, "hashed with moves"),
    "solver": (Uct(64, solver=True), plain.uct, "hashed"),
    "tuned solver": (Uct(64, tuned=True, solver=True), plain.ucb1_tuned, "hashed"),
}


def some_knobs(evaluator):
    """Other numbers in each game of a batch.

    Discounts are for values of which no two are alike: those of random games are +1 and -1, and
    moves of equal worth would be told apart by the rounding of powers alone.
    """
    discount = jnp.ones(BATCH) if evaluator == "rollouts" else jnp.linspace(0.9, 1.0, BATCH)
    return SearchKnobs(
        discount=discount,
        c_uct=jnp.linspace(3.0, 0.3, BATCH),
        c_prior=jnp.linspace(0.0, 2.0, BATCH),
        rave_visits=jnp.linspace(1.0, 500.0, BATCH),
        rave_bias=jnp.linspace(0.0, 1.0, BATCH)[::-1],
    )


def rows(tree, index):
    return jax.tree.map(lambda leaf: leaf[index] if np.ndim(leaf) else leaf, tree)


def check(game, positions, rule, simulations):
    """Lines and sums are those of the plain search, but for choices that float32 cannot make."""
    search, score, evaluator = RULES[rule]
    search = dataclasses.replace(search, simulations=simulations, chance="exact")
    count = jax.tree.leaves(positions)[0].shape[0]
    knobs, margins = some_knobs(evaluator), []
    for start in range(0, count, BATCH):
        batch = rows(positions, jnp.arange(start, start + BATCH) % count)
        keys = jax.random.split(jax.random.key(start), BATCH)
        tree = jax.device_get(plain.think(game, search, evaluator)(keys, batch, knobs)[1])
        for row in range(min(BATCH, count - start)):
            own = jax.tree.map(float, rows(knobs, row))
            reference = plain.PlainSearch(
                game, evaluator, tree, row, score, own, solver=search.solver
            )
            margin = reference.run(simulations)
            if margin is None:
                agrees(tree, row, reference.nodes)
            else:
                margins.append(margin)
    assert len(margins) <= max(1, count // 25)
    assert all(margin < 1e-5 for margin in margins), margins


def agrees(tree, row, nodes):
    for index, node in nodes.items():
        width = len(node.labels)
        closed = node.finished and index > 0
        assert bool(tree.finished[row, index]) == node.finished
        np.testing.assert_allclose(tree.value[row, index], node.value, atol=1e-5)
        if tree.lower is not None:
            bounds = tree.lower[row, index], tree.upper[row, index]
            assert bounds == (node.lower, node.upper)
            if closed:
                continue
        assert tree.visits[row, index, :width].tolist() == node.visits
        sums = {"total": node.total}
        if tree.squares is not None:
            sums["squares"] = node.squares
        if tree.amaf_visits is not None:
            assert tree.amaf_visits[row, index, :width].tolist() == node.amaf_visits
            sums["amaf_total"] = node.amaf_total
        for name, total in sums.items():
            found = getattr(tree, name)[row, index, :width]
            np.testing.assert_allclose(found, total, rtol=1e-5, atol=3e-4, err_msg=name)


@pytest.mark.parametrize("rule", RULES)
def test_lines_and_sums_are_those_of_a_plain_search(rule):
    game = hash_game(6, legal=0.7, ends=0.15, plies=12)
    check(game, wander(game, 16, 3), rule, 64)


@pytest.mark.parametrize(("rule", "moves"), [("tuned solver", 4), ("rave", 9)])
def test_lines_and_sums_are_those_of_a_plain_search_with_dice_and_moves_in_a_row(rule, moves):
    # Moves of equal worth tie in a tree that is searched to its ends, unless that is proven.
    game = dice_game(2, moves, rolls=(0.531, 0.287, 0.182), turns=(0, 0, 1))
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(1), 16))
    check(game, positions, rule, 150)


GAMES = {
    "toy": (hash_game(10, legal=0.5, ends=0.05, plies=30), 40, 5),
    "heap": (subtraction(21, 4), 16, 4),
    "connect four": (pgx_game("connect_four"), 32, 25),
    "chess": (ChessGame(), 16, 60),
}
CHESS_RULES = ("uct", "tuned", "rave", "solver")  # as compiling takes its time


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "rule"),
    [(game, rule) for game in GAMES for rule in RULES if game != "chess" or rule in CHESS_RULES],
)
def test_lines_and_sums_are_those_of_a_plain_search_up_to_400_simulations(game, rule):
    game, count, most_moves = GAMES[game]
    check(game, wander(game, count, most_moves), rule, 400)

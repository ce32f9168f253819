"""PUCT against a plain search in float64, and on positions whose best move is plain to see."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess.game import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game, subtraction
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct
from search.reference import compiled, grown, puct, wander

BATCH = 8


def divergences(game, positions, simulations, max_depth=None):
    """The margins at which the search first left the reference's lines, one per such position."""
    count = jax.tree.leaves(positions)[0].shape[0]
    knobs = SearchKnobs(
        discount=jnp.linspace(0.9, 1.0, BATCH),
        c_init=jnp.linspace(0.5, 3.0, BATCH),
        c_base=jnp.linspace(20.0, 19652.0, BATCH),
        fpu=jnp.linspace(-1.0, 1.0, BATCH)[::-1],
    )
    margins = []
    for start in range(0, count, BATCH):
        batch = _rows(positions, jnp.arange(start, start + BATCH) % count)
        keys = jax.random.split(jax.random.key(start), BATCH)
        tree = jax.device_get(grown(game, simulations, max_depth)(1.0, keys, batch, knobs))
        for row in range(min(BATCH, count - start)):
            own = _rows(batch, row)
            nodes, lines = puct(game, 1.0, own, _scalars(knobs, row), simulations, max_depth)
            parents, slots = tree.parent[row, 1:], tree.slot[row, 1:]
            same = [
                (parents[i], slots[i]) == (line.parent, line.slot) for i, line in enumerate(lines)
            ]
            if all(same):
                root = nodes[0]
                width = len(root.labels)
                assert tree.visits[row, 0, :width].tolist() == root.visits
                np.testing.assert_allclose(
                    tree.total[row, 0, :width], root.total, rtol=1e-5, atol=2e-4
                )
            else:
                margins.append(lines[same.index(False)].margin)
    return margins


def _rows(tree, rows):
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def _scalars(knobs, row):
    return jax.tree.map(lambda leaf: float(leaf[row]) if np.ndim(leaf) else leaf, knobs)


def _check(game, count, most_moves, simulations, max_depth=None):
    margins = divergences(game, wander(game, count, most_moves), simulations, max_depth)
    assert len(margins) <= max(1, count // 25)
    assert all(margin < 1e-5 for margin in margins)


@pytest.mark.parametrize(
    ("game", "most_moves", "max_depth"),
    [
        (hash_game(6, legal=0.7, ends=0.15), 5, None),
        (hash_game(6, legal=0.7, ends=0.15), 5, 2),
        (subtraction(17, 4), 3, None),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_visits_equal_those_of_a_plain_search_in_float64(game, most_moves, max_depth):
    _check(game, 16, most_moves, 64, max_depth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "most_moves"),
    [
        (hash_game(20, legal=0.5, ends=0.05), 5),
        (pgx_game("tic_tac_toe"), 5),
        (pgx_game("connect_four"), 25),
        (pgx_game("gardner_chess"), 40),
        (ChessGame(), 60),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_visits_equal_those_of_a_plain_search_in_float64_up_to_400_simulations(game, most_moves):
    _check(game, 50, most_moves, 400)


def tic_tac_toe(moves):
    """The position after moves given as squares, 0 to 8 row by row, as a batch of one."""
    init, step = _tic_tac_toe()
    position = init(jax.random.key(0))
    for square in moves:
        position = step(position, jnp.int32(square))
    return jax.tree.map(lambda leaf: leaf[None], position)


@functools.cache
def _tic_tac_toe():
    game = pgx_game("tic_tac_toe")
    return jax.jit(game.init), jax.jit(game.step)


# Moves so far, and the only square to play: 0 1 2 / 3 4 5 / 6 7 8.
WINS = [((0, 3, 1, 4), 2), ((0, 1, 4, 2), 8), ((1, 0, 2, 3, 7), 6), ((4, 2, 0, 8, 1), 5)]
BLOCKS = [((0, 4, 1), 2), ((2, 4, 5), 8), ((4, 0, 6), 2), ((8, 4, 3, 1), 7)]


def plain_positions():
    """Wins in one and forced blocks as one batch, with the squares to play."""
    cases = WINS + BLOCKS
    batch = [tic_tac_toe(moves) for moves, _ in cases]
    positions = jax.tree.map(lambda *leaves: np.concatenate(leaves), *jax.device_get(batch))
    return jax.device_put(positions), np.array([square for _, square in cases])


@pytest.mark.fast
def test_wins_in_one_and_forced_blocks_are_found_without_a_network():
    positions, squares = plain_positions()
    keys = jax.random.split(jax.random.key(0), BATCH)
    search = compiled(Puct(simulations=64), pgx_game("tic_tac_toe"))
    decision = search(0.0, keys, positions, SearchKnobs().greedy())
    assert decision.label.tolist() == squares.tolist()
    assert (decision.q[:4].max(axis=-1) == 1.0).all()
    assert decision.value[:4].min() > 0.5

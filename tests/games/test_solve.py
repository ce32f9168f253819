"""The solver knows the games whose truth is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.pgx_games import pgx_game
from azchess.games.solve import solve
from azchess.games.toy import Heap, hash_game, subtraction
from games import plain


@pytest.mark.fast
@pytest.mark.parametrize("ply", [0, 1])
def test_a_heap_is_lost_where_it_is_a_multiple(ply):
    game = subtraction(9, 3)
    heaps = Heap(stones=jnp.arange(10), ply=jnp.full(10, ply))
    found = solve(game, heaps)
    np.testing.assert_array_equal(found.worth, game.worth(heaps.stones))
    for stones in range(1, 10):
        if stones % 4:
            assert found.best[stones].nonzero()[0].tolist() == [stones % 4 - 1]
    np.testing.assert_array_equal(np.isnan(found.moves[2]), [False, False, True])
    assert np.isnan(found.moves[0]).all()
    assert not found.best[0].any()


def test_noughts_and_crosses_is_a_draw_and_a_wrong_answer_to_a_corner_loses():
    game = pgx_game("tic_tac_toe")
    start = game.init(jax.random.key(0))
    corner = game.step(start, jnp.int32(0))
    positions = jax.tree.map(lambda *leaves: jnp.stack(leaves), start, corner)
    found = solve(game, positions)
    assert found.worth.tolist() == [0, 0]
    assert found.moves[0].tolist() == [0] * 9
    # Only the centre holds against a corner.
    np.testing.assert_array_equal(found.moves[1], [np.nan, -1, -1, -1, 0, -1, -1, -1, -1])


def test_games_that_end_early_on_some_lines_are_solved():
    game = hash_game(3, legal=0.7, ends=0.2, plies=4)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(1), 12))
    found = solve(game, positions)
    for row in range(12):
        position = jax.tree.map(lambda leaf, at=row: leaf[at], positions)
        assert found.worth[row] == plain.worth(game, position)
    assert set(found.worth.tolist()) == {-1, 0, 1}


def test_a_game_without_end_is_refused():
    game = hash_game(4)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(1), 2))
    with pytest.raises(ValueError, match="512 positions after 4 plies are more than most = 500"):
        solve(game, positions, most=500)

"""P-games are drawn as their paper says, and the player who is ahead at the end has won."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.pgames import p_game
from azchess.games.solve import solve
from games import plain


def trees(game, count, seed=0):
    return jax.vmap(game.init)(jax.random.split(jax.random.key(seed), count))


def steps(game):
    """A compiled step of positions [B] by labels [B]."""
    return jax.jit(jax.vmap(game.step))


@pytest.mark.fast
def test_moves_score_0_to_127_alike_for_the_side_that_makes_them():
    game = p_game(4, 6)
    step, positions = steps(game), trees(game, 5000)
    for ply in range(6):
        assert (jax.vmap(game.mover)(positions) == ply % 2).all()
        after = step(positions, jnp.full(5000, ply % 4))
        points = np.asarray(after.total - positions.total) * (-1) ** ply
        assert points.min() == 0
        assert points.max() == 127
        # Uniform on 128 numbers: mean 63.5, deviation 36.95; five standard errors.
        assert abs(points.mean() - 63.5) < 5 * 36.95 / 5000**0.5
        assert abs(points.std() - 36.95) < 2.0
        positions = after
    status = jax.vmap(lambda position: game.status(position, game.moves(position)))(positions)
    assert status.terminated.all()
    np.testing.assert_array_equal(status.outcome, np.sign(positions.total))


def test_a_game_is_over_after_its_plies_and_the_mover_then_sees_the_result_as_its_own():
    game = p_game(2, 3)
    step, positions = steps(game), trees(game, 200)
    for _ in range(3):
        status = jax.vmap(lambda position: game.status(position, game.moves(position)))(positions)
        assert not status.terminated.any()
        assert not status.outcome.any()
        positions = step(positions, jnp.ones(200, jnp.int32))
    moves = jax.vmap(game.moves)(positions)
    status = jax.vmap(game.status)(positions, moves)
    assert status.terminated.all()
    assert not moves.legal.any()
    assert not moves.count.any()
    # After three moves MIN (seat 1) is to move, and MAX has mostly won.
    np.testing.assert_array_equal(status.outcome, -np.sign(positions.total))
    assert (status.outcome == -1).sum() > 150


def test_the_moves_of_a_batch_lead_through_different_trees():
    game = p_game(8, 4)
    step, positions = steps(game), trees(game, 300)
    for _ in range(3):
        positions = jax.tree.map(lambda leaf: jnp.repeat(leaf, 8), positions)
        positions = step(positions, jnp.arange(len(positions.code)) % 8)
    # 153,600 draws of 32 bits hold three equal pairs or so.
    assert len(np.unique(positions.code)) > 153_600 - 15


@pytest.mark.parametrize("ply", [0, 1, 2])
def test_the_solver_says_what_minimax_in_plain_python_says(ply):
    game = p_game(3, 4)
    step, positions = steps(game), trees(game, 8, seed=1)
    for _ in range(ply):
        positions = step(positions, jnp.arange(8) % 3)
    found = solve(game, positions)
    for row in range(8):
        position = jax.tree.map(lambda leaf, at=row: leaf[at], positions)
        assert found.worth[row] == plain.seen(game, position, plain.worth(game, position))
        for label, _, child in plain.children(game, position)[3]:
            value = plain.seen(game, position, plain.worth(game, child))
            assert found.moves[row, label] == value
            assert found.best[row, label] == (value == found.worth[row])
    assert len(set(found.worth.tolist())) > 1


@pytest.mark.parametrize(("breadth", "depth", "count"), [(2, 10, 1000), (4, 6, 1000)])
def test_hashed_trees_are_as_hard_as_trees_of_random_numbers(breadth, depth, count):
    random = np.random.default_rng(0)
    sums = np.zeros((count, 1), int)
    for ply in range(depth):
        points = random.integers(0, 128, (count, breadth ** (ply + 1)))
        sums = np.repeat(sums, breadth, axis=1) + points * (-1) ** ply
    values = np.sign(sums)
    for ply in reversed(range(1, depth)):
        values = values.reshape(count, -1, breadth)
        values = values.min(axis=2) if ply % 2 else values.max(axis=2)
    found = solve(p_game(breadth, depth), trees(p_game(breadth, depth), count, seed=2))
    for ours, theirs in (
        ((found.loss > 0).any(axis=1), values.max(axis=1) > values.min(axis=1)),
        (found.worth, values.max(axis=1)),
    ):
        error = ((ours.var() + theirs.var()) / count) ** 0.5
        assert abs(ours.mean() - theirs.mean()) < 3 * error
        assert error < 0.05


@pytest.mark.fast
def test_tokens_show_the_lead_of_the_mover():
    game = p_game(2, 5)
    position = game.step(game.init(jax.random.key(3)), jnp.int32(1))
    tokens = game.tokens(game.history(position))
    assert tokens.shape == (1, 34)
    assert float(tokens[0, 0]) == pytest.approx(-int(position.total) / (127 * 3))
    assert float(tokens[0, 1]) == pytest.approx(1 / 5)
    assert sum(int(bit) << at for at, bit in enumerate(tokens[0, 2:])) == int(position.code)


def test_a_tree_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        p_game(2, 0)

"""The toy games are games, and their truth is what minimax says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.toy import hash_game, subtraction


def look(game):
    """Status, mover, labels and the positions after each label, compiled."""

    def run(position):
        moves = game.moves(position)
        after = jax.vmap(game.step, (None, 0))(position, jnp.arange(game.num_labels))
        return game.status(position, moves), game.mover(position), moves, after

    return jax.jit(run)


def status_of(game, position):
    return game.status(position, game.moves(position))


def minimax(facts, position):
    """The worth of a position to its mover."""
    status, _, moves, after = jax.device_get(facts(position))
    if status.terminated:
        return int(status.outcome)
    labels = moves.labels[: moves.count].tolist()
    children = (jax.tree.map(lambda leaf, at=label: leaf[at], after) for label in labels)
    return max(-minimax(facts, child) for child in children)


@pytest.mark.fast
def test_the_mover_loses_a_multiple_of_the_largest_take_and_one():
    game = subtraction(9, 3)
    facts = look(game)
    position = game.init(jax.random.key(0))
    worth = game.worth(jnp.arange(10))
    for taken in range(9):
        assert minimax(facts, position) == worth[9 - taken]
        position = game.step(position, jnp.int32(0))
    assert game.status(position, game.moves(position)).terminated
    assert worth.tolist() == [-1, 1, 1, 1, -1, 1, 1, 1, -1, 1]


def test_a_varied_game_starts_from_any_heap():
    game = subtraction(5, 2, varied=True)
    heaps = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 100))
    assert set(heaps.stones.tolist()) == {1, 2, 3, 4, 5}
    tokens = jax.vmap(lambda heap: game.tokens(game.history(heap)))(heaps)
    assert (tokens.sum(axis=(1, 2)) == heaps.stones).all()


@pytest.mark.fast
def test_a_hash_game_has_the_shape_asked_for():
    game = hash_game(10, legal=0.4, ends=0.25, plies=3)
    starts = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4))
    step = jax.jit(jax.vmap(jax.vmap(game.step, (None, 0)), (0, None)))
    seen = jax.jit(jax.vmap(lambda position: (game.moves(position), status_of(game, position))))
    positions, sizes = starts, []
    for _ in range(3):
        positions = step(positions, jnp.arange(10))
        positions = jax.tree.map(lambda leaf: leaf.reshape(-1), positions)
        moves, status = seen(positions)
        assert (moves.count == moves.legal.sum(axis=-1)).all()
        assert ((moves.count == 0) == status.terminated).all()
        sizes.append(positions.code.size)
        distinct = len(np.unique(positions.code))
        assert distinct >= positions.code.size - 1
        assert (jnp.diff(moves.labels, axis=-1)[(moves.labels[:, 1:] >= 0)] > 0).all()
    assert sizes == [40, 400, 4000]
    assert status.terminated.all()
    outcomes = jnp.bincount(status.outcome + 1, length=3) / 4000
    np.testing.assert_allclose(outcomes, 1 / 3, atol=0.03)
    going = jax.jit(jax.vmap(hash_game(10, legal=0.4, ends=0.25).moves))(positions)
    assert float((going.count == 0).mean()) == pytest.approx(0.25, abs=0.03)
    count = float(going.count.sum() / (going.count > 0).sum())
    assert count == pytest.approx(0.4 * 9 + 1, abs=0.2)


def test_a_hash_game_has_won_drawn_and_lost_starts():
    game = hash_game(3, legal=0.7, ends=0.2, plies=4)
    facts = look(game)
    keys = jax.random.split(jax.random.key(1), 20)
    worths = [minimax(facts, game.init(key)) for key in keys]
    assert set(worths) == {-1, 0, 1}


@pytest.mark.parametrize("build", [subtraction, functools.partial(hash_game, 5)])
def test_sides_alternate(build):
    game = build()
    position = game.init(jax.random.key(0))
    movers = []
    for _ in range(3):
        movers.append(int(game.mover(position)))
        position = game.step(position, game.moves(position).labels[0].astype(jnp.int32))
    assert movers == [0, 1, 0]
    assert game.geometry.shape == (game.num_labels, 3)
    tokens = game.tokens(game.history(position))
    assert tokens.shape == (game.board[0] * game.board[1], game.num_features)


def test_a_heap_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        subtraction(0)

"""An arm of a bandit is worth what it pays, to the player who pulls it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.bandits import AUER, bandit, left_or_right
from azchess.games.solve import solve
from games import plain


def batch(position):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], position)


@pytest.mark.fast
def test_left_is_worth_0_4_and_right_minus_0_4():
    game = left_or_right()
    start = game.init(jax.random.key(0))
    found = solve(game, batch(start))
    np.testing.assert_allclose(found.moves[0, :2], [0.4, -0.4], atol=1e-6)
    assert found.worth[0] == pytest.approx(0.4, abs=1e-6)
    assert found.best[0].tolist() == [True, False, False, False]
    # The other player sees the same machine from the other side once the arm is pulled.
    behind = solve(game, batch(game.step(start, jnp.int32(0))))
    assert behind.worth[0] == pytest.approx(-0.4, abs=1e-6)
    np.testing.assert_allclose(behind.moves[0], [np.nan, np.nan, 1.0, -1.0])


@pytest.mark.parametrize("problem", AUER)
def test_every_arm_of_the_seven_problems_is_worth_twice_its_mean_less_one(problem):
    game = bandit(AUER[problem])
    start = game.init(jax.random.key(0))
    assert game.arms == len(AUER[problem]) == (2 if problem < 10 else 10)
    found = solve(game, batch(start))
    wanted = 2 * np.array(AUER[problem]) - 1
    np.testing.assert_allclose(found.moves[0, :-2], wanted, atol=1e-6)
    assert plain.worth(game, start) == pytest.approx(wanted.max(), abs=1e-6)
    assert plain.worth(game, start, mean=True) == pytest.approx(wanted.mean(), abs=1e-6)


@pytest.mark.fast
def test_a_game_is_a_pull_and_a_roll():
    game = bandit((0.25, 1.0, 0.0))
    start = game.init(jax.random.key(0))
    assert game.moves(start).labels.tolist() == [0, 1, 2]
    assert not game.chance(start, game.moves(start)).any()
    assert int(game.mover(start)) == 0
    for arm, mean in enumerate((0.25, 1.0, 0.0)):
        rolling = game.step(start, jnp.int32(arm))
        moves = game.moves(rolling)
        assert moves.labels.tolist() == [3, 4, -1]
        assert int(moves.count) == 2
        assert game.chance(rolling, moves).tolist() == [1 - mean, mean, 0]
        assert not game.status(rolling, moves).terminated
        for label, result in ((3, 1), (4, -1)):
            end = game.step(rolling, jnp.int32(label))
            status = game.status(end, game.moves(end))
            assert status.terminated
            assert int(game.mover(end)) == 1
            assert int(status.outcome) == result  # a loss of seat 0 is a win of seat 1, the mover
            assert int(game.moves(end).count) == 0
            assert not game.chance(end, game.moves(end)).any()
        tokens = game.tokens(game.history(rolling))
        assert tokens.shape == (1, 8)
        assert tokens[0, 3:6].tolist() == np.eye(3)[arm].tolist()


def test_machines_of_a_batch_differ_and_may_be_given():
    game = bandit(arms=4)
    drawn = jax.vmap(game.init)(jax.random.split(jax.random.key(1), 50))
    assert drawn.means.shape == (50, 4)
    assert len(np.unique(drawn.means)) == 200
    given = jax.vmap(game.start)(drawn.means)
    found = solve(game, given)
    np.testing.assert_allclose(found.worth, 2 * drawn.means.max(axis=1) - 1, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "one of the two"),
        ({"means": (0.5,), "arms": 1}, "one of the two"),
        ({"means": (0.5, 1.5)}, "from 0 to 1"),
        ({"means": ()}, "at least 1 arm"),
        ({"arms": 0}, "at least 1 arm"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        bandit(**given)

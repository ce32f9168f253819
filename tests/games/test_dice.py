"""Rolls stand between moves, happen as often as dice do, and turns need not alternate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.dice import TWO_DICE, dice_game
from azchess.games.solve import solve
from games import plain

ROLLS = (0.5, 0.3, 0.2)


@pytest.mark.fast
def test_the_rolls_of_two_dice_are_21_and_doubles_are_half_as_likely():
    counts = {}
    for one in range(6):
        for other in range(6):
            roll = (max(one, other), min(one, other))
            counts[roll] = counts.get(roll, 0) + 1
    wanted = [counts[roll] / 36 for roll in sorted(counts)]
    np.testing.assert_allclose(TWO_DICE, wanted)
    assert len(TWO_DICE) == 21
    assert sum(TWO_DICE) == pytest.approx(1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("turns", "seats"),
    [((0, 1), "0 1 1 0 0 1 1"), ((0, 0, 1, 1), "0 0 0 1 1 1 1"), ((0, 0, 1), "0 0 0 1 1 0 0")],
)
def test_the_mover_at_a_roll_is_the_player_who_will_move_after_it(turns, seats):
    # Moves and rolls in turn: move, roll, move, roll, ...
    game = dice_game(2, 4, ROLLS, turns)
    position, seen = game.init(jax.random.key(0)), []
    for ply in range(7):
        moves = game.moves(position)
        chance = game.chance(position, moves)
        assert not game.status(position, moves).terminated
        if ply % 2:
            assert moves.labels.tolist() == [2, 3, 4]
            np.testing.assert_allclose(chance, ROLLS)
        else:
            assert moves.labels.tolist() == [0, 1, -1]
            assert not chance.any()
        assert int(moves.count) == moves.legal.sum()
        seen.append(str(game.mover(position)))
        position = game.step(position, moves.labels[1].astype(jnp.int32))
    assert " ".join(seen) == seats
    moves = game.moves(position)
    assert game.status(position, moves).terminated
    assert not moves.legal.any()
    assert not game.chance(position, moves).any()


@pytest.mark.parametrize("turns", [(0, 1), (0, 0, 1, 1), (0, 0, 1), (0,)])
@pytest.mark.parametrize("line", [(), (1,), (1, 3), (1, 3, 0)])
def test_the_solver_says_what_expectimax_in_plain_python_says(turns, line):
    game = dice_game(2, 3, ROLLS, turns)
    for seed in range(3):
        position = game.init(jax.random.key(seed))
        for label in line:
            position = game.step(position, jnp.int32(label))
        found = solve(game, jax.tree.map(lambda leaf: leaf[None], position))
        value = plain.seen(game, position, plain.worth(game, position))
        assert found.worth[0] == pytest.approx(value, abs=1e-6)
        for label, _, child in plain.children(game, position)[3]:
            value = plain.seen(game, position, plain.worth(game, child))
            assert found.moves[0, label] == pytest.approx(value, abs=1e-6)


def test_who_moves_twice_in_a_row_gains_by_it_and_the_ends_of_lines_stay_the_same():
    positions = jax.vmap(dice_game().init)(jax.random.split(jax.random.key(0), 30))
    twice, once, twice_then_other = (
        solve(dice_game(3, 2, ROLLS, turns), positions).worth
        for turns in ((0, 0), (0, 1), (0, 0, 1))
    )
    assert (twice >= once).all()
    assert twice.mean() > once.mean() + 0.5
    # Two moves are played, and only then would it be the other player's turn.
    np.testing.assert_array_equal(twice, twice_then_other)


def test_a_game_of_two_dice_has_the_size_it_should():
    game = dice_game()
    assert (game.num_labels, game.num_slots, game.plies) == (24, 21, 5)
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
    # The widest ply is 3 * 21 * 3 * 21 * 3 positions for each start.
    assert solve(game, positions, most=2 * 3**3 * 21**2).worth.shape == (2,)
    with pytest.raises(ValueError, match="are more than most"):
        solve(game, positions, most=2 * 3**3 * 21**2 - 1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"choices": 0}, "at least 1"),
        ({"rolls": (0.5, 0.4)}, "add up to 1"),
        ({"rolls": (1.5, -0.5)}, "add up to 1"),
        ({"rolls": ()}, "add up to 1"),
        ({"turns": (1, 0)}, "beginning with 0"),
        ({"turns": (0, 2)}, "seats 0 and 1"),
    ],
)
def test_a_game_that_cannot_be_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        dice_game(**given)

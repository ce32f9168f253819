"""Play-outs are uniformly random games, counted for the player who was to move."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.bandits import bandit
from azchess.games.dice import dice_game
from azchess.games.game import Moves
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import Heap, hash_game, subtraction
from azchess.networks.evaluator import prior
from azchess.networks.rollouts import _random_slot, playout, rollout_evaluator
from games import plain

TIC_TAC_TOE = pgx_game("tic_tac_toe")
EARLY = hash_game(3, legal=0.7, ends=0.2, plies=4)
DICE = dice_game(2, 3, (0.5, 0.3, 0.2), (0, 0, 1))


@functools.cache
def player(game, max_plies=None):
    """`(keys, positions) -> Playout`, compiled once."""
    return jax.jit(lambda keys, positions: playout(game, keys, positions, max_plies))


@functools.cache
def judge(game, rollouts=1, max_plies=None):
    """`(keys, positions) -> Evaluation`, compiled once."""
    evaluate = rollout_evaluator(game, rollouts, max_plies)
    return jax.jit(lambda keys, at: evaluate(None, keys, at, jax.vmap(game.moves)(at)))


def keys_of(seed, count):
    return jax.random.split(jax.random.key(seed), count)


def repeated(position, count):
    return jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[None], count, 0), position)


def after(game, position, *labels):
    for label in labels:
        position = game.step(position, jnp.int32(label))
    return position


def close(draws, mean):
    """The mean of independent draws is within four standard errors of what it should be."""
    draws = np.asarray(draws, np.float64)
    return abs(draws.mean() - mean) < 4 * draws.std() / len(draws) ** 0.5 + 1e-6


def test_random_noughts_and_crosses_is_won_drawn_and_lost_as_often_as_known():
    # X .5849, draw .1270, O .2881: exact, by counting all lines.
    end = player(TIC_TAC_TOE)(
        keys_of(0, 20000), repeated(TIC_TAC_TOE.init(keys_of(0, 1)[0]), 20000)
    )
    outcome = np.asarray(end.outcome)
    for result, share in ((1, 0.5849), (0, 0.1270), (-1, 0.2881)):
        assert close(outcome == result, share)
    assert end.finished.all()
    assert end.plies.min() == 5
    assert end.plies.max() == 9
    # A player who has won has played every second ply, and the labels are those of both seats.
    played = np.asarray(end.played)
    np.testing.assert_array_equal(played.sum(axis=(1, 2)), end.plies)
    np.testing.assert_array_equal(played[:, 0].sum(axis=1), (end.plies + 1) // 2)
    assert not (played[:, 0] & played[:, 1]).any()


@pytest.mark.fast
@pytest.mark.parametrize("line", [(), (1,), (0, 1)])
def test_the_mean_result_is_that_of_random_play_seen_from_the_mover(line):
    # Over trees with won and lost starts, from positions of both seats.
    found, wanted = [], []
    for seed in range(40):
        position = EARLY.init(jax.random.key(seed))
        for at in line:
            labels = EARLY.moves(position).labels
            if int(labels[0]) >= 0:
                position = after(EARLY, position, labels[at] if labels[at] >= 0 else labels[0])
        found.append(player(EARLY)(keys_of(seed, 400), repeated(position, 400)).outcome)
        wanted.append(plain.seen(EARLY, position, plain.worth(EARLY, position, mean=True)))
    assert len(set(wanted)) > 10
    assert max(wanted) > 0.3
    assert min(wanted) < -0.3
    deviations = [
        (np.mean(draws) - mean) / max(np.std(draws) / 20, 1e-3)
        for draws, mean in zip(found, wanted, strict=True)
    ]
    # Forty standard normal numbers.
    assert np.abs(deviations).max() < 4
    assert 0.5 < np.std(deviations) < 1.3


@pytest.mark.parametrize("line", [(), (1,), (1, 3), (1, 3, 0), (1, 3, 0, 4)])
def test_the_dice_roll_with_their_own_probabilities(line):
    for seed in range(4):
        position = after(DICE, DICE.init(jax.random.key(seed)), *line)
        end = player(DICE)(keys_of(seed, 4000), repeated(position, 4000))
        wanted = plain.seen(DICE, position, plain.worth(DICE, position, mean=True))
        assert close(end.outcome, wanted)
        assert (end.plies == 5 - len(line)).all()


@pytest.mark.fast
def test_every_move_and_every_roll_is_as_likely_as_it_should_be():
    # The label of the first ply is seen in a play-out that is cut behind it.
    game = subtraction(9, 3)
    end = player(game, 1)(keys_of(1, 9000), repeated(game.init(jax.random.key(0)), 9000))
    np.testing.assert_allclose(end.played[:, 0].mean(axis=0), 1 / 3, atol=4 * 0.5 / 9000**0.5)
    for mean in (0.0, 0.1, 1.0):
        game = bandit((mean, 0.5))
        rolling = after(game, game.init(jax.random.key(0)), 0)
        end = player(game)(keys_of(1, 9000), repeated(rolling, 9000))
        # The mover behind the pull is the player who did not pull.
        assert close(end.outcome == -1, mean)
        assert set(np.unique(end.outcome)) == ({-1, 1} if mean == 0.1 else {1 - 2 * mean})
        assert not end.played.any()  # a roll is not a move of either


@pytest.mark.fast
def test_the_impossible_is_never_drawn_at_either_end():
    moves = Moves(labels=jnp.array([[0, 1, 2, 3, -1]] * 4, jnp.int16), count=jnp.full(4, 4))
    share = jnp.array([0.0, 0.49, 0.51, np.nextafter(np.float32(1), np.float32(0))])
    chance = jnp.array([[0.0, 0.5, 0.5, 0.0, 0.0]] * 4)
    assert _random_slot(share, moves, chance).tolist() == [1, 1, 2, 2]
    assert _random_slot(share, moves, 0 * chance).tolist() == [0, 1, 2, 3]


@pytest.mark.fast
def test_played_holds_the_labels_of_each_seat_from_here_on():
    game = subtraction(7, 1)  # one stone a move: the line is known
    for ply, first in ((0, [True, True]), (1, [True, True]), (6, [False, True])):
        heap = Heap(stones=jnp.array([7 - ply]), ply=jnp.array([ply + 1]))
        end = player(game)(keys_of(0, 1), heap)
        assert end.played[0, :, 0].tolist() == first
        assert int(end.plies[0]) == 7 - ply
        # Who takes the last stone wins: the mover where an odd number is left.
        assert int(end.outcome[0]) == (1 if (7 - ply) % 2 else -1)


def test_a_game_plays_out_alike_whatever_stands_beside_it():
    starts = jax.vmap(EARLY.init)(keys_of(3, 16))
    keys = keys_of(4, 16)
    together = player(EARLY)(keys, starts)
    alone = jax.jit(lambda key, at: playout(EARLY, key, at))
    for row in (0, 5, 11):
        one = alone(keys[row : row + 1], jax.tree.map(lambda x, at=row: x[at : at + 1], starts))
        jax.tree.map(
            lambda a, b, at=row: np.testing.assert_array_equal(a[at : at + 1], b), together, one
        )
    order = jax.random.permutation(jax.random.key(0), 16)
    turned = player(EARLY)(keys[order], jax.tree.map(lambda x: x[order], starts))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[order], b), together, turned)
    assert len(set(together.plies.tolist())) > 1
    other = player(EARLY)(keys_of(5, 16), starts)
    assert (other.outcome != together.outcome).any()


def test_a_finished_game_is_worth_its_result_at_once():
    # X has three in a row and O is to move; then O has, and X is to move; then a full board.
    lines = [(0, 3, 1, 4, 2), (0, 3, 1, 4, 8, 5), (0, 1, 2, 4, 3, 5, 7, 6, 8)]
    ends = [after(TIC_TAC_TOE, TIC_TAC_TOE.init(jax.random.key(0)), *line) for line in lines]
    ends.append(TIC_TAC_TOE.init(jax.random.key(0)))
    positions = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
    evaluation = judge(TIC_TAC_TOE, 3)(keys_of(0, 4), positions)
    assert evaluation.wdl[:3].tolist() == [[0, 0, 1], [0, 0, 1], [0, 1, 0]]
    assert evaluation.moves_left[:3].tolist() == [0, 0, 0]
    assert evaluation.moves_left[3] >= 5


def test_the_evaluator_is_the_mean_of_its_play_outs():
    starts = jax.vmap(EARLY.init)(keys_of(6, 5))
    keys = keys_of(7, 5)
    evaluation = judge(EARLY, 8)(keys, starts)
    assert evaluation.wdl.shape == (5, 3)
    for row in range(5):
        each = player(EARLY)(
            jax.random.split(keys[row], 8),
            repeated(jax.tree.map(lambda leaf, at=row: leaf[at], starts), 8),
        )
        assert float(evaluation.value[row]) == pytest.approx(float(each.outcome.mean()))
        assert float(evaluation.wdl[row, 1]) == pytest.approx(float((each.outcome == 0).mean()))
        assert float(evaluation.moves_left[row]) == pytest.approx(float(each.plies.mean()))
    moves = jax.vmap(EARLY.moves)(starts)
    np.testing.assert_allclose(prior(evaluation, moves).max(axis=-1), 1 / moves.count, rtol=1e-6)
    assert len(np.unique(evaluation.value)) > 1


@pytest.mark.fast
def test_a_play_out_that_is_cut_counts_as_a_draw():
    game = subtraction(9, 3)
    heaps = Heap(stones=jnp.array([1, 9, 9, 0]), ply=jnp.array([0, 0, 1, 1]))
    end = player(game, 2)(keys_of(0, 4), heaps)
    assert end.outcome.tolist() == [1, 0, 0, -1]
    assert end.finished.tolist() == [True, False, False, True]
    assert end.plies.tolist() == [1, 2, 2, 0]
    evaluation = judge(game, 4, 2)(keys_of(0, 4), heaps)
    assert evaluation.wdl.tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]


@pytest.mark.fast
def test_no_play_outs_are_refused():
    with pytest.raises(ValueError, match="must be at least 1"):
        rollout_evaluator(EARLY, 0)

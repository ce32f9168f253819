"""A game that breaks a promise of the boundary is told which one; the games that ship keep all."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.bandits import bandit, left_or_right
from azchess.games.check import check_game
from azchess.games.chess import ChessGame
from azchess.games.dice import dice_game
from azchess.games.game import Moves, Status, Symmetries
from azchess.games.pgames import p_game
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import HashGame, Subtraction, subtraction


@pytest.mark.fast
@pytest.mark.parametrize(
    "game",
    [
        ChessGame(num_slots=40),
        ChessGame(num_boards=8, memory=128),
        ChessGame(num_slots=40, chess960=True, repetition=5, quiet_plies=150),
        pgx_game("connect_four"),
        pgx_game("tic_tac_toe"),
        pgx_game("gardner_chess"),
        subtraction(9, 3),
        HashGame(num_labels=4, num_slots=4, plies=3),
        p_game(3, 4),
        bandit((0.9, 0.6)),
        bandit(arms=5),
        left_or_right(),
        dice_game(),
        dice_game(2, 4, (0.5, 0.3, 0.2), (0, 0, 1)),
    ],
    ids=lambda game: game.name,
)
def test_the_games_that_ship_keep_their_promises(game):
    check_game(game)


class LongLabels(Subtraction):
    def moves(self, position):
        moves = super().moves(position)
        return Moves(labels=moves.labels.astype(jnp.int32), count=moves.count)


class FewSlots(Subtraction):
    def moves(self, position):
        moves = super().moves(position)
        return Moves(labels=moves.labels[:-1], count=moves.count)


class FlatTokens(Subtraction):
    def tokens(self, history):
        return super().tokens(history).ravel()


class NumberStatus(Subtraction):
    def status(self, position, moves):
        status = super().status(position, moves)
        return Status(
            terminated=status.terminated.astype(jnp.int32),
            truncated=status.truncated,
            outcome=status.outcome,
        )


class FloatingStep(Subtraction):
    def step(self, position, label):
        return jax.tree.map(lambda leaf: leaf + 0.5, super().step(position, label))


class FarSquares(Subtraction):
    @property
    def geometry(self):
        return super().geometry + np.int16(100)


class WrongGroup(Subtraction):
    @property
    def symmetries(self):
        symmetries = super().symmetries
        return Symmetries(squares=symmetries.squares, labels=symmetries.labels[:, :-1])


class TwiceTheSame(Subtraction):
    def moves(self, position):
        moves = super().moves(position)
        return Moves(labels=jnp.minimum(moves.labels, 0), count=moves.count)


class NoSign(Subtraction):
    def status(self, position, moves):
        status = super().status(position, moves)
        return Status(
            terminated=status.terminated, truncated=status.truncated, outcome=jnp.uint8(0)
        )


class Scrambled(Subtraction):
    @property
    def symmetries(self):
        symmetries = super().symmetries
        return Symmetries(squares=0 * symmetries.squares, labels=symmetries.labels)


class ThirdSeat(Subtraction):
    def mover(self, position):
        return jnp.int32(2)


class ListOfRanks(Subtraction):
    @property
    def ranks(self):
        return [0, 1, 2]


class Broken(Subtraction):
    def mover(self, position):
        raise KeyError("seat")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (LongLabels, "labels"),
        (FewSlots, r"labels is int16\[2\]; must be int16\[3\]"),
        (FlatTokens, r"tokens\(history\) is float32\[9\]; must be numbers\[9, 1\]"),
        (NumberStatus, "terminated"),
        (FloatingStep, r"step\(position, label\) must be a position like that of init"),
        (FarSquares, "geometry must lie between 0 and 8"),
        (WrongGroup, r"symmetries.labels has shape \[1, 2\]; must be \[1, 3\]"),
        (TwiceTheSame, r"labels of moves must differ .* not \[0, 0, 0\]"),
        (NoSign, "outcome"),
        (Scrambled, "symmetries.squares must be permutations"),
        (ThirdSeat, "mover must be 0 or 1, not 2"),
        (ListOfRanks, "ranks"),
        (Broken, "game subtraction: KeyError: 'seat'"),
    ],
)
def test_a_broken_promise_is_named(kind, says):
    sizes = {f.name: getattr(subtraction(9, 3), f.name) for f in dataclasses.fields(Subtraction)}
    with pytest.raises(ValueError, match=says):
        check_game(kind(**sizes))

"""What search asks of chess beside its rules: when positions come back, and the order of UCI."""

import random

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, labels, position_from_fen
from azchess.games.chess.notation import move_to_label, position_from_board

GAME = ChessGame(num_slots=128)
PLIES = 120
STARTS = [
    "8/8/8/4k3/8/8/4K3/R7 w - - 0 1",
    "8/8/3k4/8/8/3QK3/8/8 b - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
    "4k3/8/8/8/1p6/8/P7/4K3 w - - 0 1",
]


def shuffled(fen, seed):
    """A game of random moves that likes to go back, its labels, and the recurrences by hand."""
    chance, board = random.Random(seed), chess.Board(fen)
    found, seen, recurrences = [], {}, []
    for ply in range(PLIES):
        seen[board.fen(en_passant="legal").rsplit(" ", 2)[0]] = ply
        back = [m for m in board.legal_moves if ply > 1 and m == reverse(board.move_stack[-2])]
        moves = back if back and chance.random() < 0.5 else list(board.legal_moves)
        if not moves:
            break
        move = chance.choice(moves)
        found.append(move_to_label(position_from_board(board, GAME), move))
        board.push(move)
        before = seen.get(board.fen(en_passant="legal").rsplit(" ", 2)[0])
        recurrences.append(0 if before is None else ply + 1 - before)
    return found, recurrences


def reverse(move):
    return chess.Move(move.to_square, move.from_square)


def recurrences_of(game):
    @jax.jit
    def play(position, found):
        def step(position, label):
            position = game.step(position, label)
            return position, game.recurrence(position)

        return jax.lax.scan(step, position, found)[1]

    return play


def test_a_position_comes_back_when_python_chess_says_so():
    play, returns = recurrences_of(GAME), []
    for seed, fen in enumerate(STARTS):
        found, wanted = shuffled(fen, seed)
        padded = jnp.array(found + [found[-1]] * (PLIES - len(found)), jnp.int32)
        own = play(position_from_fen(fen, GAME), padded)[: len(found)]
        assert own.tolist() == wanted
        returns += [plies for plies in wanted if plies]
    assert len(returns) > 60
    assert max(returns) > 4


def test_a_short_memory_only_misses_what_is_long_ago():
    short = ChessGame(num_slots=128, memory=6)
    found, wanted = shuffled(STARTS[0], 0)
    own = recurrences_of(short)(position_from_fen(STARTS[0], short), jnp.array(found, jnp.int32))
    assert own.tolist() == [plies if plies <= 6 else 0 for plies in wanted]


@pytest.mark.fast
@pytest.mark.parametrize("chess960", [False, True])
def test_notation_ranks_order_the_legal_moves_like_their_uci(chess960):
    game = ChessGame(num_slots=128, chess960=chess960)
    assert (np.sort(game.notation_ranks) == np.arange(labels.NUM_LABELS)).all()
    chance, promotions = random.Random(0), 0
    board = chess.Board("r3k2r/pP4P1/8/8/8/8/1p4Pp/R3K2R w KQkq - 0 1", chess960=chess960)
    for _ in range(40):
        moves = sorted(board.legal_moves, key=lambda move: board.uci(move))
        if not moves:
            break
        position = position_from_board(board, game)
        found = [move_to_label(position, move, game) for move in moves]
        ranks = game.notation_ranks[int(board.turn == chess.BLACK)][found]
        assert (np.diff(ranks) > 0).all()
        promotions += sum(move.promotion is not None for move in moves)
        board.push(chance.choice(moves))
    assert promotions > 10

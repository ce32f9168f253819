"""Laws of chess that hold along any line of play, whichever moves hypothesis makes up."""

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from azchess.games.chess import ChessGame, label_to_move, position_from_board, to_board

GAMES = [ChessGame(num_boards=3), ChessGame(num_boards=3, chess960=True)]
STARTS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
]


@pytest.fixture(scope="module", params=GAMES, ids=["chess", "chess960"])
def rules(request):
    game = request.param
    return game, jax.jit(game.step), jax.jit(game.moves)


def start(game, fen, mirrored=False):
    board = chess.Board(fen, chess960=game.chess960)
    return position_from_board(board.mirror() if mirrored else board, game)


lines = st.tuples(st.sampled_from(STARTS), st.lists(st.integers(0, 217), max_size=24))
some = settings(max_examples=20, deadline=None, derandomize=True)


def chosen(moves, number):
    """A legal label, or None where there is none."""
    count = int(moves.count)
    return int(moves.labels[number % count]) if count else None


@some
@given(lines)
def test_a_line_with_colours_exchanged_is_the_same_line_seen_by_the_mover(rules, line):
    game, step, moves = rules
    fen, numbers = line
    one, other = start(game, fen), start(game, fen, mirrored=True)
    for number in numbers:
        label = chosen(moves(one), number)
        if label is None:
            break
        one, other = (step(position, jnp.int32(label)) for position in (one, other))
        assert to_board(one, game).mirror().epd() == to_board(other, game).epd()
    np.testing.assert_array_equal(moves(one).labels, moves(other).labels)
    np.testing.assert_array_equal(one.now.board, other.now.board)
    assert one.now.repetitions == other.now.repetitions
    assert one.black != other.black


@some
@given(lines)
def test_a_line_played_here_and_on_python_chess_gives_the_same_position(rules, line):
    game, step, moves = rules
    fen, numbers = line
    position = start(game, fen)
    board = chess.Board(fen, chess960=game.chess960)
    for number in numbers:
        label = chosen(moves(position), number)
        if label is None:
            break
        board.push(label_to_move(position, label))
        position = step(position, jnp.int32(label))
    built = position_from_board(board, game)
    for name in ("now", "past", "hash"):
        jax.tree.map(np.testing.assert_array_equal, getattr(position, name), getattr(built, name))


@some
@given(lines)
def test_slots_hold_every_legal_move_once(rules, line):
    game, step, moves = rules
    fen, numbers = line
    position = start(game, fen)
    for number in [*numbers, 0]:
        found = moves(position)
        labels = found.labels[: int(found.count)].tolist()
        legal = {move.uci() for move in to_board(position, game).legal_moves}
        assert len(set(labels)) == len(labels)
        assert {label_to_move(position, label).uci() for label in labels} == legal
        if not labels:
            break
        position = step(position, jnp.int32(labels[number % len(labels)]))

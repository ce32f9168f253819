"""Moves are read as players write them, and what is wrong with a move is said."""

import random

import chess
import pytest

from azchess.games.chess import (
    ChessGame,
    move_to_label,
    position_from_board,
    position_from_fen,
    to_board,
)
from azchess.games.chess.rules import Ending
from azchess.games.chess.san import ending_words, in_check, parse_move, san, unicode_board

pytestmark = pytest.mark.fast

PROMOTION = "8/4P1k1/8/8/8/8/8/4K3 w - - 0 1"
CASTLING = "r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1"


def uci(fen: str, text: str) -> str:
    """What a text means in a position."""
    position = position_from_fen(fen)
    label = parse_move(position, text)
    moves = {move_to_label(position, move): move.uci() for move in to_board(position).legal_moves}
    return moves[label]


def test_every_legal_move_is_read_back_from_san_and_from_uci():
    board, draw = chess.Board(), random.Random(3)
    for _ in range(12):
        position = position_from_board(board)
        for move in draw.sample(list(board.legal_moves), 4):
            label = move_to_label(position, move)
            assert san(position, label) == board.san(move)
            assert parse_move(position, board.san(move)) == label
            assert parse_move(position, move.uci()) == label
        for _ in range(7):
            board.push(draw.choice(list(board.legal_moves)))


@pytest.mark.parametrize(
    ("fen", "text", "meant"),
    [
        (PROMOTION, "e8=N+", "e7e8n"),
        (PROMOTION, "e8R", "e7e8r"),
        (PROMOTION, "e7e8q", "e7e8q"),
        (PROMOTION, "e7e8B", "e7e8b"),
        (CASTLING, "O-O", "e8g8"),
        (CASTLING, "0-0-0", "e8c8"),
        (CASTLING, "o-o", "e8g8"),
        (CASTLING, "e8c8", "e8c8"),
        (chess.STARTING_FEN, " Nf3!? ", "g1f3"),
    ],
)
def test_a_move_may_be_written_in_many_ways(fen, text, meant):
    assert uci(fen, text) == meant


@pytest.mark.parametrize(
    ("fen", "text", "reason"),
    [
        (chess.STARTING_FEN, "nf3", "'nf3' is not a move, as Nf3 or g1f3 are; perhaps Nf3"),
        (chess.STARTING_FEN, "hello", "'hello' is not a move, as Nf3 or g1f3 are$"),
        (chess.STARTING_FEN, "[/red]", "is not a move, as Nf3 or g1f3 are$"),
        (chess.STARTING_FEN, "Ng4", "no knight can go to g4; perhaps .*Nf3"),
        (chess.STARTING_FEN, "e5", "no pawn can go to e5; perhaps"),
        (chess.STARTING_FEN, "g1g3", "the knight on g1 cannot go to g3; perhaps .*Nf3"),
        (chess.STARTING_FEN, "e4e5", "e4 is empty"),
        (chess.STARTING_FEN, "e7e5", "the pawn on e7 is not yours"),
        (chess.STARTING_FEN, "O-O", "castling is not possible here"),
        (chess.STARTING_FEN, "0000", "may not pass"),
        (chess.STARTING_FEN, "--", "may not pass"),
        (PROMOTION, "e8", "say what the pawn becomes, as in e8=Q or e7e8q"),
        (PROMOTION, "e7e8", "say what the pawn becomes"),
        (PROMOTION, "e8=K", "no pawn can go to e8; perhaps e8="),
        ("4k3/8/8/8/8/8/8/RN2K2R w - - 0 1", "Rf2", "no rook can go to f2"),
        ("4k3/8/8/8/8/4r3/8/4K2R w - - 0 1", "Rh2", "your king is in check; perhaps"),
        ("4k3/4r3/8/8/8/8/4N3/4K3 w - - 0 1", "Nd4", "your king would be in check"),
        ("4k3/4r3/8/8/8/8/4N3/4K3 w - - 0 1", "e2d4", "your king would be in check"),
        ("4k3/8/8/8/8/2N5/8/4K1N1 w - - 0 1", "Ne2", "Ne2 may be Nce2 or Nge2: say which"),
        ("4k3/8/8/3p4/4P3/8/8/4K3 w - - 0 1", "d5", "a pawn captures, so say from .* exd5"),
    ],
)
def test_a_wrong_move_is_explained(fen, text, reason):
    position = position_from_fen(fen)
    with pytest.raises(ValueError, match=reason):
        parse_move(position, text)


def test_the_board_is_drawn_from_either_side_with_the_last_move_marked():
    board = chess.Board()
    label = move_to_label(position_from_board(board), board.parse_san("e4"))
    board.push_san("e4")
    position = position_from_board(board)
    white = unicode_board(position, white_below=True, last=label).splitlines()
    black = unicode_board(position, white_below=False, last=label).splitlines()
    assert white[0] == "8  ♜  ♞  ♝  ♛  ♚  ♝  ♞  ♜"
    assert white[4] == "4  ·  ·  ·  · [♙] ·  ·  ·"
    assert white[6] == "2  ♙  ♙  ♙  ♙ (·) ♙  ♙  ♙"
    assert white[8] == "   a  b  c  d  e  f  g  h"
    assert black[0] == "1  ♖  ♘  ♗  ♔  ♕  ♗  ♘  ♖"
    assert black[3] == "4  ·  ·  · [♙] ·  ·  ·  ·"
    assert black[8] == "   h  g  f  e  d  c  b  a"
    letters = unicode_board(position, white_below=True, letters=True)
    assert letters.isascii()
    assert letters.splitlines()[0] == "8  r  n  b  q  k  b  n  r"


def test_black_s_last_move_is_marked_where_it_was_made():
    board = chess.Board()
    board.push_san("e4")
    label = move_to_label(position_from_board(board), board.parse_san("Nf6"))
    board.push_san("Nf6")
    lines = unicode_board(position_from_board(board), white_below=True, last=label).splitlines()
    assert lines[0] == "8  ♜  ♞  ♝  ♛  ♚  ♝ (·) ♜"
    assert lines[2] == "6  ·  ·  ·  ·  · [♞] ·  ·"


def test_chess960_castles_in_san_and_in_uci():
    game = ChessGame(chess960=True)
    position = position_from_fen("4k3/8/8/8/8/8/8/1R1K2R1 w GB - 0 1", game)
    for text, name in (("O-O", "O-O"), ("d1g1", "O-O"), ("0-0-0", "O-O-O"), ("d1b1", "O-O-O")):
        assert san(position, parse_move(position, text, game), game) == name


def test_endings_have_words():
    mated = position_from_fen("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3")
    assert in_check(mated)
    assert ending_words(Ending.CHECKMATE, mated) == "Checkmate: black wins, 0-1"
    assert "200 plies" in ending_words(Ending.PLY_CAP, mated, 200)
    for ending in list(Ending)[2:]:
        assert ("1/2-1/2" in ending_words(ending, mated)) == (ending != Ending.PLY_CAP)

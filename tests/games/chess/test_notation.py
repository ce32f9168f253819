"""FENs and python-chess's boards and moves go in and out unchanged."""

import chess
import jax
import numpy as np
import pytest

from azchess.games.chess import (
    ChessGame,
    label_to_move,
    move_to_label,
    position_from_board,
    position_from_fen,
    records_from_fens,
    to_board,
    to_fen,
)

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    "fen",
    [
        chess.STARTING_FEN,
        "r3k2r/8/8/8/8/8/8/R3K2R b Kq - 12 57",
        "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
        "rnbqkbnr/pppp1ppp/8/8/3Pp3/8/PPP1PPPP/RNBQKBNR b KQkq d3 0 3",
        "8/8/3k4/8/2b5/n7/3K3R/8 b - - 149 5900",
    ],
)
def test_a_fen_comes_back_as_it_went_in(fen):
    assert to_fen(position_from_fen(fen)) == fen
    assert to_board(position_from_fen(fen)).fen() == fen
    record = jax.tree.map(lambda leaf: leaf[0], records_from_fens([fen]))
    assert to_fen(ChessGame().position(record)) == fen


def test_an_en_passant_square_is_named_only_where_a_capture_is_legal():
    fen = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
    assert to_fen(position_from_fen(fen)) == fen.replace("e3", "-") == chess.Board(fen).fen()


@pytest.mark.parametrize(
    ("fen", "wrong"),
    [
        ("not a fen", "not a FEN"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "no white king, no black king"),
        ("4k3/8/8/8/8/8/8/4K2r b - - 0 1", "opposite check"),
        ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "bad castling rights"),
        ("4k2P/8/8/8/8/8/8/4K3 w - - 0 1", "pawns on backrank"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 20000", "32767 plies"),
    ],
)
def test_impossible_positions_are_refused_in_words(fen, wrong):
    with pytest.raises(ValueError, match=wrong):
        position_from_fen(fen)
    with pytest.raises(ValueError, match=wrong):
        records_from_fens([chess.STARTING_FEN, fen])


def test_chess960_is_refused():
    with pytest.raises(ValueError, match="Chess960"):
        position_from_board(chess.Board.from_chess960_pos(0))


def test_a_boards_moves_become_history_and_repetitions():
    game, board = ChessGame(num_boards=8), chess.Board()
    for uci in ["g1f3", "g8f6", "f3g1", "f6g8", "g1f3"]:
        board.push_uci(uci)
    history = game.history(position_from_board(board, game))
    assert history.repetitions.tolist() == [2, 2, 1, 1, 1, 1, 0, 0]
    assert history.ply.tolist() == [5, 4, 3, 2, 1, 0, 0, 0]
    assert not np.asarray(history.board[6:]).any()


@pytest.mark.parametrize("uci", ["e2e4", "e1g1", "e1c1", "g7g8q", "g7h8n", "g7f8r", "g7g8b"])
@pytest.mark.parametrize("mirrored", [False, True])
def test_moves_come_back_from_their_labels(uci, mirrored):
    board, move = chess.Board("5r1r/6P1/4k3/8/8/8/4P3/R3K2R w KQ - 0 1"), chess.Move.from_uci(uci)
    board.remove_piece_at(chess.G8)
    if mirrored:
        board = board.mirror()
        move = chess.Move(move.from_square ^ 56, move.to_square ^ 56, move.promotion)
    position = position_from_board(board)
    assert label_to_move(position, move_to_label(position, move)) == move


@pytest.mark.parametrize("uci", ["0000", "a1b4", "e2e5n", "a7a8k", "N@f3"])
def test_moves_that_no_piece_can_make_are_refused(uci):
    position = position_from_fen(chess.STARTING_FEN)
    with pytest.raises(ValueError, match="can make"):
        move_to_label(position, chess.Move.from_uci(uci))

"""FENs and python-chess's boards and moves go in and out unchanged."""

import chess
import chess.variant
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import (
    ChessGame,
    label_to_move,
    move_to_label,
    position_from_board,
    position_from_fen,
    records_from_fens,
    start,
    to_board,
    to_fen,
)

pytestmark = pytest.mark.fast

CHESS960 = ChessGame(chess960=True)
CASTLING = "rk2r2b/pppp1ppp/8/8/8/8/PPPP1PPP/RK2R2B w KQkq - 0 1"


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
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 20000", "20000 plies"),
    ],
)
def test_impossible_positions_are_refused_in_words(fen, wrong):
    with pytest.raises(ValueError, match=wrong):
        position_from_fen(fen)
    with pytest.raises(ValueError, match=wrong):
        records_from_fens([chess.STARTING_FEN, fen])


@pytest.mark.parametrize(
    ("fen", "xfen", "shredder"),
    [
        (chess.STARTING_FEN, "KQkq", "HAha"),
        (CASTLING, "KQkq", "EAea"),
        (CASTLING.replace("KQkq", "EAea"), "KQkq", "EAea"),
        (CASTLING.replace("KQkq", "Eq"), "Kq", "Ea"),
        ("1rk1r1r1/8/8/8/8/8/8/RR1K2RR b GBb - 3 9", "GBq", "GBb"),
        ("2k3r1/8/8/8/8/8/8/RR1K2RR w KBk - 3 9", "KBk", "HBg"),
    ],
)
def test_a_chess960_fen_may_be_an_x_fen_or_a_shredder_fen(fen, xfen, shredder):
    position = position_from_fen(fen, CHESS960)
    board, rights, moves = fen.split(maxsplit=2)[0], fen.split()[2], fen.split()[3:]
    assert to_fen(position).split()[2] == xfen
    assert to_fen(position, shredder=True).split()[2] == shredder
    assert to_fen(position).split()[0] == board
    assert to_fen(position).split()[3:] == moves, rights
    assert to_board(position, CHESS960) == chess.Board(fen, chess960=True)
    for text in (to_fen(position), to_fen(position, shredder=True)):
        again = position_from_fen(text, CHESS960)
        jax.tree.map(np.testing.assert_array_equal, again, position)
        record = jax.tree.map(lambda leaf: leaf[0], records_from_fens([text], CHESS960))
        jax.tree.map(np.testing.assert_array_equal, record, position.now)


def test_standard_chess_refuses_chess960_and_says_what_plays_it():
    for wrong in (lambda: position_from_fen(CASTLING), lambda: records_from_fens([CASTLING])):
        with pytest.raises(ValueError, match=r"bad castling rights .*those of Chess960"):
            wrong()
    with pytest.raises(ValueError, match=r"Chess960 board needs ChessGame\(chess960=True\)"):
        position_from_board(chess.Board.from_chess960_pos(0))
    with pytest.raises(ValueError, match="not atomic"):
        position_from_board(chess.variant.AtomicBoard())
    with pytest.raises(ValueError, match=r"bad castling rights$"):
        position_from_fen("4k3/8/8/8/8/8/8/R3K3 w K - 0 1", CHESS960)


def test_the_960_starts_have_the_numbers_of_scharnagl():
    starts = jax.jit(jax.vmap(start))(np.arange(960))
    fens = [chess.Board.from_chess960_pos(number).fen() for number in range(960)]
    jax.tree.map(np.testing.assert_array_equal, starts, records_from_fens(fens, CHESS960))
    assert to_fen(CHESS960.position(start(0))) == fens[0]
    assert to_fen(ChessGame().position(start())) == fens[518] == chess.STARTING_FEN
    for number in (-1, 960):
        with pytest.raises(ValueError, match=f"start position {number}: .* 0 to 959"):
            start(number)


def test_a_new_game_of_chess960_begins_at_any_of_its_starts():
    first = jax.jit(jax.vmap(CHESS960.init))(jax.random.split(jax.random.key(0), 2000))
    boards = {tuple(np.ravel(board)) for board in np.asarray(first.now.board)}
    assert 800 < len(boards) < 900  # 960 (1 - exp(-2000 / 960)) = 840


@pytest.mark.parametrize("black", [False, True])
def test_castling_is_read_in_both_notations_and_written_in_the_game_s_own(black):
    for fen, game, own, other in [
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", ChessGame(), "e1g1 e1c1", "e1h1 e1a1"),
        ("r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1", CHESS960, "e1h1 e1a1", "e1g1 e1c1"),
        ("rr1k2r1/pp4pp/8/8/8/8/PP4PP/RR1K2R1 w GBgb - 0 1", CHESS960, "d1g1 d1b1", "d1g1 d1b1"),
        ("r4k1r/8/8/8/8/8/8/R4K1R w HAha - 0 1", CHESS960, "f1h1 f1a1", "f1h1 f1c1"),
    ]:
        position = position_from_fen(fen.replace(" w ", " b ") if black else fen, game)
        for one, two in zip(own.split(), other.split(), strict=True):
            one, two = (text.replace("1", "8") if black else text for text in (one, two))
            label = move_to_label(position, chess.Move.from_uci(one), game)
            assert move_to_label(position, chess.Move.from_uci(two), game) == label
            assert label in game.moves(position).labels
            assert label_to_move(position, label) == chess.Move.from_uci(one)
    # A king's step to its castling square is a step, with or without the right to castle there.
    position = position_from_fen("4k3/8/8/8/8/8/8/R4K1R w HA - 0 1", CHESS960)
    step = chess.Move.from_uci("f1g1")
    assert label_to_move(position, move_to_label(position, step, CHESS960)) == step


def test_a_chess960_boards_moves_become_repetitions_by_castling_rights_too():
    board = chess.Board(CASTLING, chess960=True)
    for uci in ["b1c1", "b8c8", "c1b1", "c8b8"] * 2:
        board.push_uci(uci)
    assert (
        position_from_board(board, CHESS960).now.repetitions
        == 2
        == 3 - (not board.is_repetition(3))
    )


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


@pytest.mark.parametrize("label", [-1, 0, 4672])
def test_numbers_that_are_no_labels_are_refused(label):
    with pytest.raises(ValueError, match=f"{label} is not the label of a move"):
        label_to_move(position_from_fen(chess.STARTING_FEN), label)


def test_no_fens_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        records_from_fens([])


def test_a_short_memory_misses_the_same_repetitions_however_a_position_is_made():
    game = ChessGame(num_slots=40, memory=4)
    board = chess.Board("4k3/8/8/8/8/8/8/R3K3 w - - 0 1")
    position, step = position_from_board(board, game), jax.jit(game.step)
    for uci in ["a1b1", "e8d8", "b1c1", "d8e8", "c1b1", "e8d8", "b1a1", "d8e8", "a1b1", "e8d8"]:
        move = chess.Move.from_uci(uci)
        position = step(position, jnp.int32(move_to_label(position, move)))
        board.push(move)
        built = position_from_board(board, game)
        assert position.now.repetitions == built.now.repetitions
        np.testing.assert_array_equal(position.seen, built.seen)


@pytest.mark.parametrize("uci", ["0000", "a1b4", "e2e5n", "a7a8k", "N@f3"])
def test_moves_that_no_piece_can_make_are_refused(uci):
    position = position_from_fen(chess.STARTING_FEN)
    with pytest.raises(ValueError, match="can make"):
        move_to_label(position, chess.Move.from_uci(uci))

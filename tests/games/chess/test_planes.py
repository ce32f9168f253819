"""The planes say what stands and stood on the board, and the mask which labels are legal."""

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, position_from_board, records_from_fens
from azchess.games.chess.movement import targets
from azchess.games.chess.planes import legal_mask, planes

GAME = ChessGame(num_boards=8)
KINDS = [chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN, chess.KING]
FENS = [
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 3 9",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 31",
    "rnbqkbnr/ppp1p1pp/8/3pPp2/8/8/PPPP1PPP/RNBQKBNR w KQkq f6 0 3",
    "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1",
    "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3",
]

look = jax.jit(lambda position, black: planes(GAME.history(position), black))


def seen(board: chess.Board) -> tuple[np.ndarray, np.ndarray]:
    """The planes of the mover and those of the opponent."""
    position = position_from_board(board, GAME)
    black = jnp.bool_(not board.turn)
    return np.asarray(look(position, black)), np.asarray(look(position, ~black))


def expected(board: chess.Board, viewer: chess.Color) -> np.ndarray:
    """The same from python-chess, square by square, as AlphaZero's table S1 has it."""
    answer, board = np.zeros((8, 8, 119), np.float32), board.copy()
    answer[:, :, 112] = viewer == chess.BLACK
    answer[:, :, 113] = np.float32(board.ply()) / np.float32(512)
    for plane, (colour, queenside) in enumerate(
        [(viewer, True), (viewer, False), (not viewer, True), (not viewer, False)], start=114
    ):
        may = (
            board.has_queenside_castling_rights if queenside else board.has_kingside_castling_rights
        )
        answer[:, :, plane] = may(colour)
    answer[:, :, 118] = np.float32(board.halfmove_clock) / np.float32(100)
    for age in range(8):
        for square, piece in board.piece_map().items():
            row = square // 8 if viewer == chess.BLACK else 7 - square // 8
            plane = KINDS.index(piece.piece_type) + (0 if piece.color == viewer else 6)
            answer[row, square % 8, 14 * age + plane] = 1
        answer[:, :, 14 * age + 12] = board.is_repetition(2)
        answer[:, :, 14 * age + 13] = board.is_repetition(3)
        if not board.move_stack:
            break
        board.pop()
    return answer


def assert_equal(ours: np.ndarray, theirs: np.ndarray):
    """To the last bit of a float, since XLA multiplies by 1 / 100."""
    np.testing.assert_allclose(ours, theirs, rtol=2e-7, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_planes_are_those_of_python_chess_in_games_that_shuffle(seed):
    rng, board = np.random.default_rng(seed), chess.Board()
    for _ in range(60):
        mover, opponent = seen(board)
        assert_equal(mover, expected(board, board.turn))
        assert_equal(opponent, expected(board, not board.turn))
        moves = list(board.legal_moves)
        back = [
            move
            for move in moves
            if board.move_stack[1:]
            and (move.to_square, move.from_square)
            == (board.move_stack[-2].from_square, board.move_stack[-2].to_square)
        ]
        moves = back if back and rng.random() < 0.7 else moves
        board.push(moves[rng.integers(len(moves))])


@pytest.mark.fast
@pytest.mark.parametrize("fen", FENS)
def test_planes_of_a_fen_have_one_board_its_rights_and_its_numbers(fen):
    board = chess.Board(fen)
    mover, opponent = seen(board)
    assert_equal(mover, expected(board, board.turn))
    assert_equal(opponent, expected(board, not board.turn))


@pytest.mark.fast
def test_the_mover_looks_at_the_board_unless_another_viewer_is_named():
    by_default = jax.jit(lambda position: planes(GAME.history(position)))
    for fen in FENS[:3]:
        position = position_from_board(chess.Board(fen), GAME)
        np.testing.assert_array_equal(by_default(position), look(position, position.black))


@pytest.mark.fast
def test_the_mask_is_true_for_the_labels_in_the_slots_alone():
    @jax.jit
    @jax.vmap
    def both(record):
        return GAME.moves(GAME.position(record)), legal_mask(targets(record))

    found, masks = both(records_from_fens(FENS))
    for labels, count, mask in zip(found.labels, found.count, np.asarray(masks), strict=True):
        assert sorted(labels[:count].tolist()) == np.flatnonzero(mask).tolist()
    assert np.asarray(masks).sum(axis=1).tolist() == [
        chess.Board(fen).legal_moves.count() for fen in FENS
    ]


@pytest.mark.fast
def test_the_mask_of_everything_is_all_true():
    @jax.jit
    def everything(record):
        return legal_mask(targets(record), jnp.bool_(True))

    assert everything(jax.tree.map(lambda leaf: leaf[0], records_from_fens(FENS))).all()

"""Whole games in lockstep with python-chess: moves, rights, repetitions and how games end."""

import functools
from collections import Counter
from collections.abc import Callable

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import (
    ChessGame,
    label_to_move,
    move_to_label,
    position_from_board,
    to_board,
    to_fen,
)
from azchess.games.chess.rules import Ending

GAME = ChessGame(num_slots=128)
CHESS960 = ChessGame(num_slots=128, chess960=True)
ARBITER = ChessGame(num_slots=128, repetition=5, quiet_plies=150)
ENDLESS = ChessGame(num_slots=128, repetition=None, quiet_plies=None)
Choice = Callable[[chess.Board, np.random.Generator], chess.Move]


@functools.partial(jax.jit, static_argnums=0)
def look(game: ChessGame, positions):
    def one(position):
        moves = game.moves(position)
        return moves, game.ending(position, moves), game.status(position, moves)

    return jax.vmap(one)(positions)


@functools.partial(jax.jit, static_argnums=0)
def step(game: ChessGame, positions, labels):
    return jax.vmap(game.step)(positions, labels)


def row(tree, index: int):
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def ending(board: chess.Board, game: ChessGame) -> Ending:
    """How python-chess sees the end of a game."""
    if board.is_checkmate():
        return Ending.CHECKMATE
    if board.is_stalemate():
        return Ending.STALEMATE
    if board.is_insufficient_material():
        return Ending.INSUFFICIENT_MATERIAL
    if game.quiet_plies is not None and board.halfmove_clock >= game.quiet_plies:
        return Ending.FIFTY_MOVES
    repeated = game.repetition is not None and board.is_repetition(game.repetition)
    return Ending.REPETITION if repeated else Ending.NONE


def repetitions(board: chess.Board) -> int:
    count = 1
    while board.is_repetition(count + 1):
        count += 1
    return count


def random_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    moves = list(board.legal_moves)
    return moves[rng.integers(len(moves))]


def capturing_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    moves = [move for move in board.legal_moves if board.is_capture(move) or move.promotion]
    return (
        moves[rng.integers(len(moves))] if moves and rng.random() < 0.8 else random_move(board, rng)
    )


def shuffling_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    """Goes back and forth mostly, and starts with pawns' double steps."""
    if board.move_stack[1:] and rng.random() < 0.85:
        last = board.move_stack[-2]
        back = chess.Move(last.to_square, last.from_square)
        if board.is_legal(back):
            return back
    doubles = [
        move
        for move in board.legal_moves
        if abs(move.from_square - move.to_square) == 16
        and board.piece_type_at(move.from_square) == chess.PAWN
    ]
    if doubles and rng.random() < 0.3:
        return doubles[rng.integers(len(doubles))]
    quiet = [move for move in board.legal_moves if not board.is_zeroing(move)]
    return quiet[rng.integers(len(quiet))] if quiet else random_move(board, rng)


def compare(
    boards: list[chess.Board], choose: Choice, plies: int, seed: int, game: ChessGame = GAME
) -> Counter[Ending]:
    """Plays games on both sides, compares everything at every ply, and counts how they ended."""
    rng = np.random.default_rng(seed)
    positions = stack([position_from_board(board, game) for board in boards])
    ends: dict[int, Ending] = {}
    for _ in range(plies):
        moves, endings, status = jax.tree.map(np.asarray, look(game, positions))
        rows = jax.tree.map(np.asarray, positions)
        played = np.maximum(moves.labels[:, 0], 0).astype(np.int32)
        for index in sorted(set(range(len(boards))) - set(ends)):
            board, position = boards[index], row(rows, index)
            expected = [move_to_label(position, move, game) for move in board.legal_moves]
            assert sorted(moves.labels[index, : moves.count[index]]) == sorted(expected), board
            assert (moves.labels[index, moves.count[index] :] == -1).all()
            end = ending(board, game)
            assert endings[index] == end, board.fen()
            assert status.terminated[index] == (end != Ending.NONE)
            assert status.outcome[index] == (-1 if end == Ending.CHECKMATE else 0)
            assert not status.truncated[index]
            assert position.now.repetitions == repetitions(board), board.fen()
            assert to_fen(position) == board.fen()
            assert to_board(position, game).castling_rights == board.clean_castling_rights()
            if end != Ending.NONE:
                ends[index] = end
                continue
            move = choose(board, rng)
            played[index] = move_to_label(position, move, game)
            assert label_to_move(position, played[index]) == move
            board.push(move)
        if len(ends) == len(boards):
            break
        positions = step(game, positions, jnp.asarray(played))
    return Counter(ends.values())


def opening(count: int, game: ChessGame = GAME) -> list[chess.Board]:
    """Starts; those of Chess960 all differ."""
    if not game.chess960:
        return [chess.Board() for _ in range(count)]
    return [chess.Board.from_chess960_pos(index * 960 // count) for index in range(count)]


@pytest.mark.fast
@pytest.mark.parametrize("game", [GAME, CHESS960], ids=["chess", "chess960"])
@pytest.mark.parametrize("choose", [random_move, capturing_move, shuffling_move])
def test_games_go_as_python_chess_says(choose, game):
    compare(opening(8, game), choose, plies=60, seed=1, game=game)


def test_shuffling_games_end_by_repetition_when_python_chess_says_so():
    assert compare(opening(16), shuffling_move, plies=150, seed=2)[Ending.REPETITION] >= 12


@pytest.mark.slow
@pytest.mark.parametrize("game", [GAME, CHESS960], ids=["chess", "chess960"])
@pytest.mark.parametrize("choose", [random_move, capturing_move, shuffling_move])
def test_many_games_go_as_python_chess_says_to_their_end(choose, game):
    ends = compare(opening(256, game), choose, plies=600, seed=3, game=game)
    assert sum(ends.values()) >= 250
    print(choose.__name__, dict(ends))


def castling_move(board: chess.Board, rng: np.random.Generator) -> chess.Move:
    """Castles where it can, and moves kings and rooks least."""
    moves = list(board.legal_moves)
    castles = [move for move in moves if board.is_castling(move)]
    others = [
        move
        for move in moves
        if board.piece_type_at(move.from_square) not in (chess.KING, chess.ROOK)
    ]
    choice = castles or (others if others and rng.random() < 0.9 else moves)
    return choice[rng.integers(len(choice))]


@pytest.mark.slow
def test_games_from_many_starts_of_chess960_castle_as_python_chess_says():
    boards = opening(240, CHESS960)
    compare(boards, castling_move, plies=40, seed=6, game=CHESS960)
    castled = [sum(map(is_castling, replay(board))) for board in boards]
    assert sum(count > 0 for count in castled) > 200


def replay(board: chess.Board):
    """The positions of a game before each of its moves, with the move."""
    line, board = list(board.move_stack), board.root()
    for move in line:
        yield board, move
        board.push(move)


def is_castling(played: tuple[chess.Board, chess.Move]) -> bool:
    return played[0].is_castling(played[1])


@pytest.mark.parametrize("game", [ARBITER, ENDLESS], ids=["arbiter", "endless"])
def test_other_draw_rules_count_as_python_chess_does(game):
    ends = compare(opening(8), shuffling_move, plies=60, seed=2, game=game)
    assert set(ends) <= {Ending.REPETITION}
    assert bool(ends) == (game == ARBITER)


@pytest.mark.parametrize(
    "fen",
    [
        "4k3/8/8/8/8/8/8/R3K2R w KQ - 97 80",
        "8/8/3k4/8/2n5/8/3K4/8 w - - 0 1",
        "8/8/3k4/8/2b1B3/8/3K4/8 w - - 96 70",
        "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 94 1",
        "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    ],
)
def test_endings_and_clocks_go_as_python_chess_says(fen):
    compare([chess.Board(fen) for _ in range(8)], random_move, plies=24, seed=4)


def test_the_seventy_five_move_rule_ends_games_where_python_chess_says_so():
    boards = [chess.Board("8/p5k1/8/8/1r6/8/P2K3R/8 w - - 144 90") for _ in range(8)]
    ends = compare(boards, random_move, plies=24, seed=4, game=ARBITER)
    assert ends[Ending.FIFTY_MOVES] > 0


@pytest.mark.slow
def test_games_with_the_hash_memory_of_eight_and_eight_boards_step_as_from_board_builds():
    rng = np.random.default_rng(5)
    game = ChessGame(num_slots=128, num_boards=8)
    boards = opening(32)
    positions = stack([position_from_board(board, game) for board in boards])
    for _ in range(80):
        moves = [shuffling_move(board, rng) for board in boards]
        rows = jax.tree.map(np.asarray, positions)
        labels = [move_to_label(row(rows, i), move) for i, move in enumerate(moves)]
        for board, move in zip(boards, moves, strict=True):
            board.push(move)
        positions = step(game, positions, jnp.asarray(labels, jnp.int32))
        built = stack([position_from_board(board, game) for board in boards])
        for name in ("now", "past", "hash"):
            jax.tree.map(
                np.testing.assert_array_equal, getattr(positions, name), getattr(built, name)
            )

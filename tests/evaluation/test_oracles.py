"""The endgame tables against Syzygy, python-chess and the laws of best play."""

import chess
import chess.syzygy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.evaluation.oracles import (
    DRAWN,
    ILLEGAL,
    dtm_table,
    optimal_moves,
    perfect_defence,
    probe,
    tablebase,
)
from shared_data import shared_path

PIECES = {"KQvK": chess.QUEEN, "KRvK": chess.ROOK, "KBvK": chess.BISHOP, "KNvK": chess.KNIGHT}
SLOTS = 36  # a queen has 27 moves at most, its king 8
GONE = (-1, -1, -1)  # stands for a position without the piece
compiled_probe, compiled_defence, compiled_attack = map(
    jax.jit, (probe, perfect_defence, optimal_moves)
)
both_tables = pytest.mark.parametrize("material", ["KQvK", "KRvK"])
both_sides = pytest.mark.parametrize("strong_to_move", [True, False])


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory, monkeypatch):
    """Keeps the tests out of the user's own cache folder; they share one among them."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))


def board_of(material, squares, strong_to_move):
    """The python-chess board of a position, with White as the strong side."""
    king, piece, bare = (chess.square(*divmod(int(square), 8)) for square in squares)
    board = chess.Board(None)
    board.set_piece_at(king, chess.Piece(chess.KING, chess.WHITE))
    board.set_piece_at(piece, chess.Piece(PIECES[material], chess.WHITE))
    board.set_piece_at(bare, chess.Piece(chess.KING, chess.BLACK))
    board.turn = strong_to_move
    return board


def child_of(board, move):
    """The squares after a move, or GONE if it takes the piece."""
    if board.is_capture(move):
        return GONE
    board.push(move)
    king, bare = board.king(chess.WHITE), board.king(chess.BLACK)
    (piece,) = chess.SquareSet(board.occupied_co[chess.WHITE] & ~board.kings)
    board.pop()
    squares = (king, piece, bare)
    return tuple(chess.square_file(square) * 8 + chess.square_rank(square) for square in squares)


def children_of(material, squares, strong_to_move):
    """Slots of python-chess's moves for a batch: children, legal and captured."""
    children = np.full((len(squares), SLOTS, 3), -1, np.int16)
    legal = np.zeros((len(squares), SLOTS), bool)
    for row, position in enumerate(squares):
        board = board_of(material, position, strong_to_move)
        for slot, move in enumerate(board.legal_moves):
            children[row, slot] = child_of(board, move)
            legal[row, slot] = True
    return children, legal, legal & (children[..., 1] < 0)


def legal_positions(table, strong_to_move):
    """All legal positions, won and drawn."""
    won, _ = table.positions(strong_to_move)
    drawn, _ = table.positions(strong_to_move, DRAWN, DRAWN)
    return np.concatenate([won, drawn])


def sample(table, strong_to_move, size, seed):
    """Random legal positions, won and drawn."""
    squares = legal_positions(table, strong_to_move)
    return np.random.default_rng(seed).permutation(squares)[:size]


def symmetric_squares():
    """Where each square goes under the eight symmetries of the board, `[8, 64]`."""
    board = np.arange(64).reshape(8, 8)
    turned = [np.rot90(board, quarter) for quarter in range(4)]
    return np.stack([image.reshape(-1) for image in turned + [image.T for image in turned]])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("material", "won", "longest"), [("KQvK", 144_508, 19), ("KRvK", 175_168, 31)]
)
def test_the_strong_side_wins_every_position_it_moves_in(material, won, longest):
    table = tablebase(material)
    squares, dtm = table.positions(strong_to_move=True)
    assert len(squares) == won
    assert dtm.max() == longest
    assert len(table.positions(True, DRAWN, DRAWN)[0]) == 0
    assert table.positions(strong_to_move=False)[1].max() == longest + 1
    # 3,612 ways to put down two kings that do not touch, 62 squares left for the piece.
    assert len(legal_positions(table, strong_to_move=False)) == 3612 * 62


@pytest.mark.parametrize("material", ["KBvK", "KNvK"])
def test_a_single_minor_piece_never_wins(material):
    table = tablebase(material)
    for strong_to_move in (True, False):
        assert len(table.positions(strong_to_move)[0]) == 0
        assert len(table.positions(strong_to_move, DRAWN, DRAWN)[0]) > 0


@pytest.mark.parametrize("material", PIECES)
@both_sides
def test_positions_are_legal_exactly_where_python_chess_says_so(material, strong_to_move):
    squares = np.random.default_rng(0).integers(64, size=(1000, 3))
    squares[:50, 1] = squares[:50, 0]
    squares[50:100, 2] = squares[50:100, 0]
    squares[100:150, 2] = squares[100:150, 1]
    distinct = [len(set(position)) == 3 for position in squares.tolist()]
    legal = [board_of(material, position, strong_to_move).is_valid() for position in squares]
    dtm = tablebase(material).probe(squares, strong_to_move)
    np.testing.assert_array_equal(dtm != ILLEGAL, np.logical_and(distinct, legal))


@pytest.mark.parametrize("material", PIECES)
def test_the_eight_symmetries_of_the_board_leave_the_table_unchanged(material):
    dtm = tablebase(material).dtm
    images = symmetric_squares()
    assert len(np.unique(images, axis=0)) == 8
    for image in images:
        np.testing.assert_array_equal(dtm[np.ix_(image, image, image)], dtm)


@pytest.mark.fast
@both_tables
@both_sides
def test_distances_follow_from_the_children(material, strong_to_move):
    # With the right wins and draws, this law and mate at 0 leave only one table.
    table = tablebase(material)
    squares = sample(table, strong_to_move, 750, seed=1)
    dtm = table.probe(squares, strong_to_move)
    for position, distance in zip(squares, dtm, strict=True):
        board = board_of(material, position, strong_to_move)
        children = [child_of(board, move) for move in board.legal_moves]
        after = [
            DRAWN if child == GONE else int(table.probe(np.array(child), not strong_to_move))
            for child in children
        ]
        if strong_to_move:
            assert distance == 1 + min(child for child in after if child != DRAWN)
        elif not after:
            assert distance == (0 if board.is_checkmate() else DRAWN)
        else:
            assert distance == (DRAWN if DRAWN in after else 1 + max(after))


def assert_agrees_with_syzygy(tables, material, squares, strong_to_move, distances):
    """Syzygy knows who wins, and the distance to the next capture, pawn move or mate (DTZ).

    A win in these endings holds no capture and no pawn move, so that DTZ is the distance to mate,
    except that Syzygy counts a mated king as 1.
    """
    dtm = tablebase(material).probe(squares, strong_to_move)
    for position, distance in zip(squares, dtm.tolist(), strict=True):
        board = board_of(material, position, strong_to_move)
        expected = 0 if distance == DRAWN else 2 if strong_to_move else -2
        assert tables.probe_wdl(board) == expected, board.fen()
        if distances and distance != DRAWN:
            assert abs(tables.probe_dtz(board)) == max(distance, 1), board.fen()


@pytest.fixture(scope="module")
def syzygy():
    with chess.syzygy.open_tablebase(str(shared_path("data", "syzygy"))) as tables:
        yield tables


@both_tables
@both_sides
def test_wins_and_distances_are_those_of_syzygy(syzygy, material, strong_to_move):
    squares = sample(tablebase(material), strong_to_move, 750, seed=2)
    assert_agrees_with_syzygy(syzygy, material, squares, strong_to_move, distances=True)


@pytest.mark.slow
@pytest.mark.parametrize("material", PIECES)
@both_sides
def test_every_win_and_draw_is_that_of_syzygy(syzygy, material, strong_to_move):
    squares = legal_positions(tablebase(material), strong_to_move)
    assert_agrees_with_syzygy(syzygy, material, squares, strong_to_move, distances=False)


@pytest.mark.slow
@both_tables
@both_sides
def test_every_distance_is_that_of_syzygy(syzygy, material, strong_to_move):
    # One of each eight symmetric positions: the strong king in the triangle a1, d1, d4.
    squares = legal_positions(tablebase(material), strong_to_move)
    files, ranks = np.divmod(squares[:, 0], 8)
    squares = squares[(files < 4) & (ranks <= files)]
    assert_agrees_with_syzygy(syzygy, material, squares, strong_to_move, distances=True)


@both_tables
def test_start_positions_come_with_the_nearest_mates_first(material):
    table = tablebase(material)
    squares, dtm = table.positions(True, shortest=3, longest=7)
    assert squares.dtype == np.int16
    assert (np.diff(dtm) >= 0).all()
    assert set(dtm.tolist()) == {3, 5, 7}
    np.testing.assert_array_equal(table.probe(squares, True), dtm)
    mated, _ = table.positions(False, longest=0)
    assert all(board_of(material, position, False).is_checkmate() for position in mated)


def test_drawn_positions_can_be_asked_for():
    squares, dtm = tablebase("KRvK").positions(False, DRAWN, DRAWN)
    assert (dtm == DRAWN).all()
    boards = [board_of("KRvK", position, False) for position in squares[::50]]
    assert all(
        board.is_stalemate() or any(map(board.is_capture, board.legal_moves)) for board in boards
    )


def test_a_compiled_probe_reads_the_same_table_as_the_host():
    squares = np.random.default_rng(3).integers(64, size=(5, 200, 3)).astype(np.int16)
    strong_to_move = np.random.default_rng(4).random((5, 200)) < 0.5
    found = compiled_probe(dtm_table("KQvK"), jnp.asarray(squares), jnp.asarray(strong_to_move))
    assert found.dtype == jnp.int8
    np.testing.assert_array_equal(found, tablebase("KQvK").probe(squares, strong_to_move))


def test_squares_off_the_board_are_illegal_under_jit_and_an_error_on_the_host():
    squares = np.array([[-1, 1, 2], [0, 64, 2], [9, 18, -1]])
    found = probe(dtm_table("KQvK"), jnp.asarray(squares), False)
    np.testing.assert_array_equal(found, [ILLEGAL] * 3)
    with pytest.raises(ValueError, match=r"squares holds -1; a square is 0 \(a1\) to 63"):
        tablebase("KQvK").probe(squares, False)


@pytest.mark.fast
@both_tables
def test_the_defender_takes_the_piece_or_holds_out_the_longest(material):
    table = tablebase(material)
    squares = sample(table, False, 300, seed=5)
    children, legal, captured = children_of(material, squares, strong_to_move=False)
    found = compiled_defence(dtm_table(material), children, legal, captured)
    for row, dtm in enumerate(table.probe(squares, False)):
        if not legal[row].any():
            best = set()
        elif dtm == DRAWN:
            best = set(np.flatnonzero(captured[row]))
        else:
            after = table.probe(children[row][legal[row]], True)
            best = set(np.flatnonzero(after == dtm - 1))
            assert best
        expected = [1 / len(best) if slot in best else 0 for slot in range(SLOTS)]
        np.testing.assert_allclose(found[row], expected, rtol=1e-6)


@both_tables
def test_the_attacker_mates_as_soon_as_it_can(material):
    table = tablebase(material)
    squares = sample(table, True, 300, seed=6)
    children, legal, _ = children_of(material, squares, strong_to_move=True)
    found = np.asarray(compiled_attack(dtm_table(material), children, legal))
    for row, dtm in enumerate(table.probe(squares, True)):
        after = table.probe(children[row][legal[row]], False)
        np.testing.assert_array_equal(found[row][legal[row]], after == dtm - 1)
    assert found.any(-1).all()
    assert not (found & ~legal).any()


def test_where_nothing_wins_every_move_is_as_good():
    squares = sample(tablebase("KBvK"), True, 20, seed=7)
    children, legal, _ = children_of("KBvK", squares, strong_to_move=True)
    np.testing.assert_array_equal(compiled_attack(dtm_table("KBvK"), children, legal), legal)


def test_wrong_squares_give_no_move_instead_of_a_wrong_one():
    squares = tablebase("KQvK").positions(False, 4, 4)[0][:2]
    children, legal, captured = children_of("KQvK", squares, strong_to_move=False)
    children[1, 0] = (0, 1, 1)
    table = dtm_table("KQvK")
    defence = np.asarray(compiled_defence(table, children, legal, captured))
    np.testing.assert_allclose(defence[0].sum(), 1, rtol=1e-6)
    assert np.isnan(defence[1]).all()
    squares = tablebase("KQvK").positions(True, 3, 3)[0][:2]
    children, legal, _ = children_of("KQvK", squares, strong_to_move=True)
    children[1, 0] = (0, 1, 1)
    marked = np.asarray(compiled_attack(table, children, legal))
    np.testing.assert_array_equal(marked.any(-1), [True, False])


@both_tables
def test_best_play_from_the_hardest_start_mates_on_time(material):
    rng = np.random.default_rng(8)
    squares, dtm = tablebase(material).positions(True)
    board = board_of(material, squares[-1], True)
    for ply in range(int(dtm[-1])):
        moves = list(board.legal_moves)
        children = np.full((1, SLOTS, 3), -1, np.int16)
        children[0, : len(moves)] = [child_of(board, move) for move in moves]
        legal = np.arange(SLOTS)[None] < len(moves)
        if ply % 2:
            captured = legal & (children[..., 1] < 0)
            best = compiled_defence(dtm_table(material), children, legal, captured) > 0
        else:
            best = compiled_attack(dtm_table(material), children, legal)
        board.push(moves[rng.choice(np.flatnonzero(best[0]))])
        assert board.is_checkmate() == (ply + 1 == dtm[-1])


def test_an_unknown_endgame_is_an_error_that_names_the_known_ones():
    with pytest.raises(ValueError, match="material is 'KPvK'; accepted are KQvK, KRvK"):
        tablebase("KPvK")

"""Random positions are legal, unfinished, and each as likely as any other."""

from collections import Counter

import chess
import jax
import numpy as np
import pytest

from azchess.evaluation.endings import locate
from azchess.evaluation.oracles import DRAWN, tablebase
from azchess.games.chess import ChessGame, to_board
from azchess.games.chess.sampling import (
    Material,
    is_legal,
    parse_material,
    place,
    sample_positions,
)
from azchess.runs.starts import takes_the_piece

GAME = ChessGame()

_legal = jax.jit(jax.vmap(is_legal))


def boards(records, count: int) -> list[chess.Board]:
    """The first positions as python-chess boards."""
    first = jax.tree.map(lambda leaf: leaf[:count], records)
    rows = jax.tree.map(np.asarray, jax.vmap(GAME.position)(first))
    return [to_board(jax.tree.map(lambda leaf, row=row: leaf[row], rows)) for row in range(count)]


def record_of(board: chess.Board):
    """The record of any position, legal or not."""
    men = {color: [] for color in chess.COLORS}
    for square, piece in board.piece_map().items():
        ours = 8 * chess.square_file(square) + chess.square_rank(square)
        men[piece.color].append((piece.symbol().upper(), ours))
    white, black = men[chess.WHITE], men[chess.BLACK]
    letters, squares = zip(*white, *black, strict=True)
    material = Material("".join(letters[: len(white)]), "".join(letters[len(white) :]))
    return place(material, np.array([squares]), np.array([not board.turn]))


def men(board: chess.Board) -> str:
    sides = board.board_fen()
    white, black = (
        "".join(sorted(filter(test, sides), key=lambda x: "kqrbnp".index(x.lower())))
        for test in (str.isupper, str.islower)
    )
    return f"{white}v{black.upper()}"


@pytest.mark.fast
@pytest.mark.parametrize(
    "material", ["KQvK", "KRvKP", "KBBvKN", "KQRBNPvKQRBNP", "KQRRBBNNPPPPPPPPvKQRRBBNNPPPPPPPP"]
)
def test_sampled_positions_are_legal_and_unfinished_by_python_chess_too(material):
    sampled = sample_positions(GAME, material, 1000, seed=3)
    for board in boards(sampled, 400):
        assert men(board) == material
        assert board.is_valid(), board.fen()
        assert not board.is_game_over(claim_draw=True), board.fen()
        assert (board.castling_rights, board.ep_square, board.halfmove_clock) == (0, None, 0)
    assert 0.2 < float(sampled.ply.mean()) < 0.8
    assert sampled.ply.shape == (1000,)


@pytest.mark.fast
def test_the_same_seed_draws_the_same_positions():
    one, same, other = (sample_positions(GAME, "KRvKP", 50, seed) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert (np.asarray(one.board) != np.asarray(other.board)).any()
    longer = sample_positions(GAME, "KRvKP", 60, 1)
    np.testing.assert_array_equal(longer.board[:50], one.board)


@pytest.mark.fast
def test_white_is_to_move_where_asked():
    sampled = sample_positions(GAME, "KBNvK", 500, either_side=False)
    assert not np.asarray(sampled.ply).any()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("material", "says"),
    [
        ("KXvK", "material 'KXvK': must be two sides with a v between them, as in KRvKP"),
        ("KQ", "must be two sides"),
        ("QvK", "must be two sides"),
        ("KRKvK", "must be two sides"),
        ("kqvk", "must be two sides"),
        ("KRvKPPPPPPPPP", "KPPPPPPPPP is impossible: a side has 16 men at most"),
        ("KQQPPPPPPPPvK", "KQQPPPPPPPP is impossible"),
        ("KvKRRBBNNQPPPPPPPPB", "impossible"),
    ],
)
def test_material_that_cannot_be_is_refused(material, says):
    with pytest.raises(ValueError, match=says):
        sample_positions(GAME, material, 10)


@pytest.mark.fast
@pytest.mark.parametrize("material", ["KQQQQQQQQQvK", "KvKQRRBBNNPPPPPPPP", "KRvKP"])
def test_material_with_promoted_pieces_is_read(material):
    sides = parse_material(material)
    assert f"{sides.white}v{sides.black}" == material


def test_material_that_nobody_can_win_with_is_refused():
    with pytest.raises(ValueError, match="material 'KNvK': only 0 of 10 positions found"):
        sample_positions(GAME, "KNvK", 10)


@pytest.mark.parametrize("fen", [
    "8/8/8/8/8/8/1k6/K6Q w - - 0 1",  # kings side by side
    "k7/8/8/8/8/8/8/K6q b - - 0 1",  # white is in check, black to move
    "k7/8/8/8/8/8/8/K6q w - - 0 1",  # a fair check
    "4k3/8/5N2/1B6/8/8/4Q3/K7 b - - 0 1",  # three checks
    "4k3/8/8/1B6/8/8/4Q3/K7 b - - 0 1",  # two of them
    "R3k2R/8/8/8/8/8/8/K7 b - - 0 1",  # two along one line
    "8/8/8/3k4/4P3/8/6B1/K7 b - - 0 1",  # from one side, the nearer alone
    "8/8/2B5/3k4/4P3/8/8/K7 b - - 0 1",  # a pawn and a bishop along one line
    "8/8/8/3k4/2P1P3/8/8/K7 b - - 0 1",  # two pawns
    "8/2P5/3k4/8/8/8/8/K7 b - - 0 1",  # a pawn attacks ahead only
    "7k/8/8/8/3p4/4K3/8/8 w - - 0 1",  # and black's the other way
    "7k/8/8/8/3p4/4K3/8/8 b - - 0 1",
])  # fmt: skip
def test_a_position_is_legal_where_python_chess_says_so(fen):
    board = chess.Board(fen)
    assert bool(_legal(record_of(board))[0]) == board.is_valid()


@pytest.mark.slow
def test_random_placements_are_legal_where_python_chess_says_so():
    rng, seen = np.random.default_rng(0), Counter()
    material = parse_material("KQRBNPvKQRBNP")
    squares = np.stack([rng.permutation(64)[:12] for _ in range(20_000)])
    pawns = np.isin(squares[:, [5, 11]] % 8, (0, 7)).any(axis=1)
    squares = squares[~pawns]
    records = place(material, squares, rng.random(len(squares)) < 0.5)
    legal = np.asarray(_legal(records))
    for board, ours in zip(boards(records, len(squares)), legal, strict=True):
        assert board.is_valid() == ours, board.fen()
        seen[str(board.status())] += 1
    assert len(seen) > 5


def test_every_position_is_as_likely_as_any_other():
    # All of K+Q v K in which a game goes on, from the tablebase.
    table = tablebase("KQvK")
    drawn, _ = table.positions(False, DRAWN, DRAWN)
    parts = {
        True: table.positions(True, 1, 127)[0],
        False: np.concatenate([table.positions(False, 1, 127)[0], drawn[takes_the_piece(drawn)]]),
    }
    known = {(side, *row) for side, rows in parts.items() for row in rows.tolist()}
    size = 400_000
    found = jax.jit(jax.vmap(locate))(sample_positions(GAME, "KQvK", size, seed=5))
    squares, strong = np.asarray(found.squares), np.asarray(found.strong_to_move)
    counts = Counter(zip(strong.tolist(), *squares.T.tolist(), strict=True))
    assert counts.keys() <= known
    # How often each is drawn follows Poisson's law: so many never, and a variance like the mean.
    mean = size / len(known)
    times = np.array([counts[position] for position in known])
    assert (times == 0).mean() == pytest.approx(np.exp(-mean), abs=0.003)
    assert times.var() == pytest.approx(mean, rel=0.01)
    for man in range(3):
        for side, rows in parts.items():
            expected = np.bincount(rows[:, man], minlength=64) * mean
            drawn_there = np.bincount(squares[strong == side][:, man], minlength=64)
            assert np.abs(drawn_there - expected).max() < 5 * np.sqrt(expected.max())

"""Runs begin where their configuration says: at positions of a book or of an ending."""

import gzip
import re
import zipfile

import jax
import numpy as np
import pytest

from azchess.cli import _parse
from azchess.evaluation.endings import locate
from azchess.games.chess import ChessGame, records_from_fens
from azchess.games.pgx_games import pgx_game
from azchess.runs.config import RunConfig, from_json, to_json
from azchess.runs.starts import FenStarts, MaterialStarts
from shared_data import shared_path

GAME = ChessGame(num_slots=64)
LINES = ("4k3/8/8/8/8/8/8/3QK3 w - - 0 1", "4k3/8/8/8/8/8/4P3/4K3 b - - 3 20")
AFTER_E4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"


@pytest.mark.fast
def test_starts_are_read_from_epd_fen_and_pgn_and_kept_in_the_config(tmp_path):
    fens = tmp_path / "fens.txt.gz"
    fens.write_bytes(gzip.compress("\n".join(LINES).encode()))
    (tmp_path / "suite.epd").write_text("4k3/8/8/8/8/8/8/3QK3 w - - id 1;\n")
    with zipfile.ZipFile(tmp_path / "book.pgn.zip", "w") as book:
        book.writestr("book.pgn", "1. e4 * 1. e4 *")
    for name, expected in (
        ("fens.txt.gz", LINES),
        ("suite.epd", LINES[:1]),
        ("book.pgn.zip", (AFTER_E4, AFTER_E4)),
    ):
        starts = FenStarts(fens=(AFTER_E4,), path=str(tmp_path / name)).read()
        assert starts == FenStarts(fens=(AFTER_E4, *expected))
        assert starts.read() is starts
        pool = starts.pool(GAME).records
        jax.tree.map(np.testing.assert_array_equal, pool, records_from_fens(starts.fens))


@pytest.mark.fast
def test_a_book_with_a_wrong_line_is_refused_by_its_line(tmp_path):
    path = tmp_path / "book.epd"
    path.write_text(f"{LINES[0]}\n4k3/8/8/8/8/8/8/3QKK2 w - - 0 1\n")
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}, line 2: .*too many kings"):
        FenStarts(path=str(path)).pool(GAME)


@pytest.mark.fast
def test_random_endings_are_mixed_and_shared_out_equally():
    starts = MaterialStarts(materials=("KQvK", "KPvK", "KRvK"), count=1000, seed=4)
    pool = starts.pool(GAME).records
    assert pool.ply.shape == (1000,)
    board = np.asarray(pool.board)
    men = np.stack(
        [
            np.bitwise_count(board[:, 0] & ~board[:, 2]).sum(-1),  # queens
            np.bitwise_count(board[:, 2] & ~board[:, 0]).sum(-1),  # pawns
            np.bitwise_count(board[:, 1]).sum(-1),  # queens and rooks
        ],
        axis=1,
    )
    queens, pawns, rooks = men[:, 0], men[:, 1], men[:, 2] - men[:, 0]
    assert (queens + pawns + rooks == 1).all()
    for kind in (queens, pawns, rooks):
        assert abs(int(kind.sum()) - 333) <= 1
        assert 30 <= int(kind[:150].sum()) <= 70
    assert 300 < int(pool.ply.sum()) < 700
    again = starts.pool(GAME).records
    jax.tree.map(np.testing.assert_array_equal, pool, again)
    other = MaterialStarts(materials=starts.materials, count=1000, seed=5).pool(GAME).records
    assert (board != np.asarray(other.board)).any()


@pytest.mark.fast
def test_white_is_the_strong_side_and_to_move_where_asked():
    pool = MaterialStarts(materials=("KRvK",), count=100, either_side=False).pool(GAME).records
    assert np.asarray(jax.vmap(locate)(pool).strong_to_move).all()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"materials": ()}, "starts.materials is empty"),
        ({"materials": ("KQvK", "KXvK")}, "material 'KXvK': must be two sides"),
        ({"count": 0}, "starts.count = 0: must be at least 1"),
        ({"materials": ("KQvK", "KRvK"), "count": 1}, "at least 1 for each of 2 materials"),
    ],
)
def test_endings_that_cannot_be_drawn_are_refused_at_once(fields, says):
    with pytest.raises(ValueError, match=says):
        MaterialStarts(**fields)


def test_endings_need_slots_enough_and_chess():
    starts = MaterialStarts(materials=("KQQvK",), count=200)
    with pytest.raises(ValueError, match=r"legal moves, more than game.num_slots = 24"):
        starts.pool(ChessGame(num_slots=24))
    with pytest.raises(ValueError, match="MaterialStarts: only for chess, not for tic_tac_toe"):
        starts.pool(pgx_game("tic_tac_toe"))


@pytest.mark.fast
def test_starts_are_options_and_are_kept_in_json():
    default = RunConfig(game=GAME, starts=MaterialStarts())
    words = "--starts.materials KBNvK KRvKP --starts.count 64 --starts.seed 2"
    config = _parse(RunConfig, [*words.split(), "--starts.no-either-side"], "x", default)
    assert config.starts == MaterialStarts(("KBNvK", "KRvKP"), 64, 2, False)
    assert from_json(to_json(config.starts)) == config.starts


def test_openings_of_a_real_book_can_be_played():
    starts = FenStarts(path=str(shared_path("data", "subsets", "openings_uho_8mvs_100.epd")))
    assert starts.pool(ChessGame()).records.ply.shape == (100,)

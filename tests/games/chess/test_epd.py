"""Lists of positions are read with what they say of each, and a wrong line is named."""

import gzip
import zipfile

import chess
import jax
import pytest

from azchess.games.chess import ChessGame, label_to_move, records_from_fens
from azchess.games.chess.books import book_fens
from azchess.games.chess.epd import EpdPosition, parse_position, read_positions
from shared_data import shared_path

START = chess.STARTING_FEN
EPD = "1k1r4/pp1b1R2/3q2pp/4p3/2B5/4Q3/PPP2B2/2K5 b - -"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("line", "fen", "operations"),
    [
        (START, START, {}),
        (f"  {START}\t\r", START, {}),
        (EPD, f"{EPD} 0 1", {}),
        (f'{EPD} bm Qd1+; id "BK; 01";', f"{EPD} 0 1", {"bm": ("Qd1+",), "id": ("BK; 01",)}),
        (f"{EPD} bm Kc8 Qd1+ ; c0 ", f"{EPD} 0 1", {"bm": ("Kc8", "Qd1+"), "c0": ()}),
        (f"{EPD} hmvc 7; fmvn 40;", f"{EPD} 7 40", {"hmvc": ("7",), "fmvn": ("40",)}),
        (f"{EPD} 3 9 ;D1 20 ;D2 400", f"{EPD} 3 9", {"D1": ("20",), "D2": ("400",)}),
        (f"{EPD} 1 0", f"{EPD} 1 0", {}),
        ("4k3/8/8/8/8/8/8/4K3 w - - acd 3; ce -12", "4k3/8/8/8/8/8/8/4K3 w - - 0 1", None),
        ("bqnbnrkr/pppppppp/8/8/8/8/PPPPPPPP/BQNBNRKR w HFhf - 0 1", None, {}),
    ],
)
def test_a_line_is_a_fen_or_an_epd_with_operations(line, fen, operations):
    position = parse_position(line)
    assert position.fen == (fen or line)
    if operations is not None:
        assert position.operations == operations


@pytest.mark.fast
def test_best_moves_have_labels():
    line = parse_position("4k3/P7/8/8/8/8/4P3/4K3 w - - bm a8=Q+ e4; am a8=N e2e3;")
    record = jax.tree.map(lambda leaf: leaf[0], records_from_fens([line.fen]))
    position = ChessGame().position(record)
    best, avoid = ([label_to_move(position, x) for x in line.labels(op)] for op in ("bm", "am"))
    assert [move.uci() for move in best] == ["a7a8q", "e2e4"]
    assert [move.uci() for move in avoid] == ["a7a8n", "e2e3"]
    assert line.labels("pv") == ()
    with pytest.raises(ValueError, match="Ke3: no king can go to e3"):
        EpdPosition(line.fen, {"bm": ("Ke3",)}).labels("bm")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("hello", "'hello' is not a position: a FEN or EPD has four fields or more"),
        ("8/8/8/8 w - -", "'8/8/8/8 w - - 0 1' is not a FEN"),
        ("4k3/8/8/8/8/8/8/4K2r b - -", "is not a legal chess position: opposite check"),
        ("4k3/8/8/8/8/8/8/4K3 w K - 0 1", "bad castling rights"),
        (f'{EPD} id "BK.01;', "the quotation mark in '\"BK.01;' is not closed"),
        (f"{EPD} bm Qd1; bm Kc8;", "'bm' occurs twice"),
        (f"{EPD} 4", "'4' is not an opcode, as bm or id"),
        (f"{EPD} hmvc; fmvn 50;", "hmvc must have one number, not ''"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, says):
    path = tmp_path / "suite.epd"
    path.write_text(f"# a suite\n{START}\n\n{line}\n")
    positions = read_positions(path)
    assert next(positions) == EpdPosition(START)
    with pytest.raises(ValueError, match=f"suite.epd, line 4: .*{says}"):
        next(positions)


@pytest.mark.fast
def test_books_of_any_kind_give_positions(tmp_path):
    (tmp_path / "a.epd.gz").write_bytes(gzip.compress(f"{EPD} id 1;\r\n{START}\r\n".encode()))
    assert book_fens(tmp_path / "a.epd.gz") == (f"{EPD} 0 1", START)
    with zipfile.ZipFile(tmp_path / "book.zip", "w") as archive:
        archive.writestr("book.PGN", '1. e4 e5 *\n[Event "Empty"]\n*')
    after = "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
    assert book_fens(tmp_path / "book.zip") == (after, START)
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(ValueError, match=r"empty.txt: holds no position"):
        book_fens(tmp_path / "empty.txt")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("arasan_iq4.epd", 183),
        ("python-chess_endgame.epd", 200),
        ("sts_STS1-STS15_LAN_v6.epd", 1188),
        ("sunfish_bratko_kopec_test.epd", 24),
        ("sunfish_win_at_chess_test.epd", 300),
    ],
)
def test_suites_are_read_as_python_chess_reads_them(name, count):
    path = shared_path("data", "epd", name)
    positions = list(read_positions(path))
    assert len(positions) == count
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for position, line in zip(positions, lines, strict=True):
        board, operations = chess.Board.from_epd(line)
        assert position.fen == board.fen(en_passant="fen")
        assert position.operations.keys() == operations.keys()
        for opcode in {"bm", "am"} & operations.keys():
            moves = [board.parse_san(move) for move in position.operations[opcode]]
            assert moves == operations[opcode]
        for opcode in operations.keys() - {"bm", "am"}:
            (operand,) = position.operations[opcode]
            assert operand == str(operations[opcode])


@pytest.mark.parametrize("number", range(5))
def test_files_of_fens_are_read(number):
    names = [f"sunfish_mate{depth}.fen" for depth in range(1, 5)] + ["sunfish_stalemate2.fen"]
    path = shared_path("data", "epd", names[number])
    fens = [position.fen for position in read_positions(path)]
    assert fens == [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(fens) == (8, 212, 14, 47, 130)[number]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("2moves_v1.epd.zip", 40_457),
        ("8moves_v3.pgn.zip", 34_700),
        ("8mvs_+90_+99.epd.zip", 8_533),
        ("Drawkiller_balanced_big.epd.zip", 15_962),
        ("FRC_openings.epd.zip", 960),
        ("noob_2moves.epd.zip", 7_314),
    ],
)
def test_opening_books_are_read(name, count):
    fens = book_fens(shared_path("data", "books", name))
    assert len(fens) == count
    assert all(" w " in fen for fen in fens)
    if not name.startswith("FRC"):
        assert records_from_fens(fens).ply.shape == (count,)

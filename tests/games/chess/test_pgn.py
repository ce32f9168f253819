"""Games come out of PGN as they were played and go back as they came; what is wrong is said."""

import functools
import gzip
import io
import re
import zipfile

import chess
import chess.pgn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, records_from_fens, to_fen
from azchess.games.chess.books import book_fens
from azchess.games.chess.labels import geometry
from azchess.games.chess.pgn import (
    GameRecord,
    games_to_pgn,
    parse_games,
    read_games,
    stack_labels,
)
from azchess.games.chess.rules import Ending
from shared_data import shared_path

GAME = ChessGame(num_slots=128)

TEXT = r"""% a file of two games
[Event "Club \"Rook\", \\ final"]
[Site "?"]
[Date "2026.11.30"]
[White "Ärö"]
[Result "1-0"]
[ECO "C20"]

{A short
one} 1. e4 e5 {[%eval 0.2]} (1... c5 {Sicilian} 2. Nf3 (2. c3 *) 2... d6) 2. Bc4 $1 Nc6?!
3.Qh5 {threat} ; mate
Nf6?? 4. Qxf7# 1-0
[FEN "8/1P5k/8/8/8/8/r7/4K2R b K - 3 60"]
[SetUp "1"]
[Black "B"]

60... Kg6 61. 0-0 Ra1 62. b8=N *
"""

SHARED = [
    "chessbase-empty-line.pgn",
    "kasparov-deep-blue-1997.pgn",
    "molinari-bordais-1979.pgn",
    "nepomniachtchi-liren-game1.pgn",
    "stockfish-learning.pgn",
    "uci-moves.pgn",
    "utf8-bom.pgn",
]
BULKY = ["pgn-extract_eco.pgn", "sunfish_3fold.pgn", "sunfish_gaviota-starters.pgn"]


@functools.partial(jax.jit, static_argnums=0)
def replay(game: ChessGame, records, labels):
    """Plays games in lockstep: whether every move was legal, how it ended, the last positions."""

    def ply(carry, label):
        position, legal = carry
        moves = game.moves(position)
        plays = label >= 0
        legal &= ~plays | (moves.labels == label).any()
        after = game.step(position, jnp.maximum(label, 0).astype(jnp.int32))
        return (jax.tree.map(lambda a, b: jnp.where(plays, a, b), after, position), legal), None

    def one(record, labels):
        start = (game.position(record), jnp.bool_(True))
        (position, legal), _ = jax.lax.scan(ply, start, labels)
        return position, legal, game.ending(position, game.moves(position))

    return jax.vmap(one, (0, 1))(records, labels)


def oracle(path) -> list[chess.pgn.Game]:
    """The games as python-chess reads them."""
    text, games = io.StringIO(path.read_text(encoding="utf-8-sig")), []
    while (game := chess.pgn.read_game(text)) is not None:
        assert not game.errors
        games.append(game)
    return games


def san(game: chess.pgn.Game) -> str:
    """The moves alone, as python-chess writes them."""
    return game.accept(chess.pgn.StringExporter(headers=False, variations=False, comments=False))


def check_replay(games: list[GameRecord], expected: list[chess.pgn.Game]) -> np.ndarray:
    """Holds games against python-chess's, move by move; returns how they ended."""
    assert len(games) == len(expected)
    records = records_from_fens([game.start for game in games])
    labels = stack_labels(games)
    padded = np.full((-(-len(labels) // 64) * 64, len(games)), -1, np.int16)
    padded[: len(labels)] = labels
    positions, legal, endings = jax.tree.map(np.asarray, replay(GAME, records, padded))
    assert legal.all()
    for index, (game, theirs) in enumerate(zip(games, expected, strict=True)):
        assert game.result == theirs.headers["Result"]
        end = theirs.end().board()
        assert to_fen(jax.tree.map(lambda leaf, row=index: leaf[row], positions)) == end.fen()
        ours = chess.pgn.read_game(io.StringIO(games_to_pgn([game])))
        assert ours is not None
        assert san(ours) == san(theirs)
        known = {name: text for name, text in theirs.headers.items() if set(text) - set("?.")}
        assert known.items() <= dict(ours.headers).items()
        if endings[index] == Ending.CHECKMATE:
            assert game.result in ("0-1" if end.turn else "1-0", "*")
        elif endings[index] != Ending.NONE:
            assert game.result in ("1/2-1/2", "*")
    return endings


def zipped(path, **members: str):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("_", "."), text)
    return path


@pytest.mark.fast
def test_moves_results_headers_and_comments_are_read():
    first, second = parse_games(TEXT)
    assert first.result == "1-0"
    assert first.start == chess.STARTING_FEN
    assert dict(first.headers) == {
        "Event": 'Club "Rook", \\ final',
        "Date": "2026.11.30",
        "White": "Ärö",
        "ECO": "C20",
    }
    assert first.comments == ("A short one", "", "[%eval 0.2]", "", "", "threat mate", "", "")
    assert len(first.labels) == 7
    assert second.start == "8/1P5k/8/8/8/8/r7/4K2R b K - 3 60"
    assert second.result == "*"
    assert second.comments == ()
    origin, target, kind = geometry()[list(second.labels)].T
    assert origin.tolist() == [57, 32, 6, 14]  # black's squares are seen from black
    assert target.tolist() == [50, 48, 7, 15]
    assert kind.tolist() == [0, 0, 0, 3]


@pytest.mark.fast
def test_games_are_the_same_after_writing_and_reading():
    games = list(parse_games(TEXT))
    text = games_to_pgn(games)
    assert list(parse_games(text)) == games
    assert games_to_pgn(parse_games(text)) == text
    assert max(map(len, text.splitlines())) <= 79
    assert '[FEN "8/1P5k/8/8/8/8/r7/4K2R b K - 3 60"]\n' in text
    assert "\n60... Kg6 61. O-O Ra1 62. b8=N *\n" in text
    moves = "{A short one} 1. e4 e5 {[%eval 0.2]} 2. Bc4 Nc6 3. Qh5 {threat mate} 3... Nf6"
    assert f"\n{moves}\n4. Qxf7# 1-0\n" in text


@pytest.mark.fast
def test_python_chess_reads_what_is_written():
    text = io.StringIO(games_to_pgn(parse_games(TEXT)))
    game = chess.pgn.read_game(text)
    assert game is not None
    assert not game.errors
    assert game.end().board().is_checkmate()
    assert game.comment == "A short one"
    assert [node.comment for node in game.mainline()][4] == "threat mate"
    game = chess.pgn.read_game(text)
    assert game is not None
    assert game.headers["SetUp"] == "1"
    assert game.end().board().fen() == "1N6/8/6k1/8/8/8/8/r4RK1 b - - 0 62"
    assert chess.pgn.read_game(text) is None


def test_random_games_are_the_same_after_writing_and_reading():
    rng, games = np.random.default_rng(0), []
    for _ in range(20):
        board = chess.Board()
        while not board.is_game_over(claim_draw=True) and board.ply() < 200:
            moves = list(board.legal_moves)
            board.push(moves[rng.integers(len(moves))])
        game = next(parse_games(str(chess.pgn.Game.from_board(board))))
        games.append(game)
    assert list(parse_games(games_to_pgn(games))) == games
    assert sum(len(game.labels) for game in games) > 2000


@pytest.mark.fast
def test_castling_in_chess960_is_the_king_s_way_to_its_rook():
    head = '[Variant "Chess960"]\n[FEN "nbbrknrq/pppppppp/8/8/8/8/PPPPPPPP/NBBRKNRQ w KQkq - 0 1"]'
    (game,) = parse_games(f"{head}\n\n1. Ne3 Ne6 2. O-O O-O *")
    assert game.chess960
    assert geometry()[list(game.labels[2:])].tolist() == [[32, 48, 0]] * 2
    text = games_to_pgn([game])
    assert '[Variant "Chess960"]' in text
    assert "2. O-O O-O *" in text
    assert list(parse_games(text)) == [game]


@pytest.mark.fast
def test_games_without_headers_are_told_apart_by_their_results():
    games = list(parse_games("1. e4 e5 1/2-1/2 1. d4 0-1\n\n1. c4 *\n"))
    assert [len(game.labels) for game in games] == [2, 1, 1]
    assert [game.result for game in games] == ["1/2-1/2", "0-1", "*"]


@pytest.mark.fast
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1. e4 e5 2. Ke3 *", r"\(line 3\): 2. Ke3 is not legal in rnbqkbnr/pppp1ppp/"),
        ("1. Nf3 d5 2. d3 d4 3. Nd2 *", r"3. Nd2 is unclear in"),
        ("1. e4 e5 2. Nf9 *", "2. Nf9 is not a move in"),
        ("1. e4 Z0 *", r"1... Z0: a player may not pass"),
        ("1. e4 ~ e5 *", r"\(line 3\): '~' is no part of a game"),
        ("1. e4\n{ no end", r"\(line 4\): a comment is not closed"),
        ("1. e4 (1. d4 *", "a variation is not closed"),
        ("1. e4 e5) *", "a variation is closed that was not opened"),
        ("1. e4 e5", r"\(line 3\): the file ends before the game has a result"),
        ("{ nothing } 1-0", "1-0 stands alone, without headers or moves"),
        ('[Event "A"]', "the file ends before the game has a result"),
        ('[Event "A"]\n\n[Event "B"]\n\n1. e4 *', "this one has no result at its end"),
        ('[Event "A"]\n\n1. e4\n\n[Event "B"]\n\n1. e4 *', "this one has no result at its end"),
        ('[Result "1-0"]\n\n1. e4 0-1', "header says 1-0, but the moves end with 0-1"),
        ("1. f3 e5 2. g4 Qh4# 1-0", "the moves end with mate, 0-1, but the result is 1-0"),
        ('[Result "won"]\n\n1. e4 *', "result 'won' must be one of 1-0, 0-1, 1/2-1/2, "),
        ('[Event "a "quoted" word"]\n\n1. e4 *', "this is no header"),
        ('[FEN "8/8/8/8"]\n\n1. e4 *', "'8/8/8/8' is not a FEN"),
        ('[FEN "4k3/8/8/8/8/8/4P3/8 w - - 0 1"]\n\n1. e4 *', "is not a legal position of chess"),
        ('[Variant "Crazyhouse"]\n\n1. e4 *', "variant Crazyhouse is not played here"),
    ],
)
def test_a_broken_game_is_an_error_that_says_where_and_what(tmp_path, text, says):
    path = tmp_path / "games.pgn"
    path.write_text(f"1. d4 *\n\n{text}")
    games = read_games(path)
    assert next(games).result == "*"
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}, game 2 .*?{says}"):
        list(games)


@pytest.mark.fast
def test_zipped_and_gzipped_files_are_unpacked(tmp_path):
    expected = list(parse_games(TEXT))
    (tmp_path / "a.pgn.gz").write_bytes(gzip.compress(TEXT.replace("\n", "\r\n").encode()))
    zipped(tmp_path / "a.zip", a_pgn="\ufeff" + TEXT)
    assert list(read_games(tmp_path / "a.pgn.gz")) == expected
    assert list(read_games(tmp_path / "a.zip")) == expected
    assert book_fens(tmp_path / "a.zip")[1] == "1N6/8/6k1/8/8/8/8/r4RK1 b - - 0 62"
    (tmp_path / "a.pgn").write_bytes(TEXT.encode("latin-1"))
    assert list(read_games(tmp_path / "a.pgn", encoding="latin-1")) == expected


@pytest.mark.fast
def test_files_that_cannot_be_unpacked_are_named(tmp_path):
    (tmp_path / "a.pgn").write_bytes(TEXT.encode("latin-1"))
    (tmp_path / "a.zip").write_bytes(b"no archive")
    (tmp_path / "a.pgn.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    zipped(tmp_path / "two.zip", a_pgn=TEXT, b_pgn=TEXT)
    for name, says in (
        ("a.pgn", "a.pgn: byte 95 is not text in utf-8"),
        ("a.zip", "a.zip: cannot be unpacked"),
        ("a.pgn.gz", "a.pgn.gz: cannot be unpacked"),
        ("two.zip", "two.zip: must hold one file, but holds 2"),
    ):
        with pytest.raises(ValueError, match=says):
            list(read_games(tmp_path / name))
    with pytest.raises(FileNotFoundError, match=r"b\.pgn"):
        list(read_games(tmp_path / "b.pgn"))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"labels": (0,), "result": "1:0"}, "result '1:0' must be one of"),
        ({"labels": (0,), "comments": ("a",)}, "1 comments for 1 moves"),
        ({"labels": (), "headers": {"FEN": chess.STARTING_FEN}}, "header FEN: is not given"),
        ({"labels": (), "headers": {"Event": "a\nb"}}, "header 'Event'"),
        ({"labels": (), "headers": {"my event": "a"}}, "header 'my event'"),
        ({"labels": (0,)}, "label 0 at ply 0 is not a legal move in rnbqkbnr"),
        ({"labels": (), "comments": ("a}",)}, "closing brace"),
        ({"labels": (), "start": "8/8"}, "'8/8' is not a FEN"),
    ],
)
def test_a_record_that_is_no_game_is_refused(fields, says):
    with pytest.raises(ValueError, match=says):
        games_to_pgn([GameRecord(**fields)])


@pytest.mark.fast
def test_games_of_any_length_are_stacked():
    assert stack_labels([GameRecord(()), GameRecord((3, 4))]).tolist() == [[-1, 3], [-1, 4]]
    assert stack_labels([]).shape == (0, 0)


def test_annotated_games_are_replayed_to_their_ends_as_python_chess_reads_them():
    paths = [shared_path("data", "pgn", name) for name in SHARED]
    games = [game for path in paths for game in read_games(path)]
    check_replay(games, [game for path in paths for game in oracle(path)])
    assert list(parse_games(games_to_pgn(games))) == games
    assert sum(len(game.labels) for game in games) == 1027


def test_chess960_games_come_out_as_python_chess_reads_them():
    path = shared_path("data", "pgn", "cutechess-fischerrandom.pgn")
    games = list(read_games(path))
    assert list(parse_games(games_to_pgn(games))) == games
    assert all(game.chess960 for game in games)
    for game, theirs in zip(games, oracle(path), strict=True):
        written = chess.pgn.read_game(io.StringIO(games_to_pgn([game])))
        assert written is not None
        assert list(written.mainline_moves()) == list(theirs.mainline_moves())
        for ours, node in zip(written.mainline(), theirs.mainline(), strict=True):
            assert ours.comment.split() == node.comment.split()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("anastasian-lewis.pgn", r"41\.\.\. Z0: a player may not pass"),
        ("antichess-programfox.pgn", "variant Antichess"),
        ("saturs-jannlee-zh-lichess.pgn", "variant Crazyhouse"),
    ],
)
def test_games_that_are_not_chess_are_refused(name, says):
    with pytest.raises(ValueError, match=says):
        list(read_games(shared_path("data", "pgn", name)))


@pytest.mark.slow
@pytest.mark.parametrize("name", BULKY)
def test_all_games_are_replayed_to_their_ends_as_python_chess_reads_them(name):
    path = shared_path("data", "pgn", name)
    games, expected = list(read_games(path)), oracle(path)
    # The list of openings begins with a comment, which python-chess takes for a game.
    expected = [game for game in expected if game.variations or game.headers["Event"] != "?"]
    endings = check_replay(games, expected)
    assert list(parse_games(games_to_pgn(games))) == games
    if name == "sunfish_3fold.pgn":
        assert (endings == Ending.REPETITION).sum() == 712
        assert (endings == Ending.FIFTY_MOVES).sum() == 1


@pytest.mark.slow
def test_games_without_headers_are_read_line_by_line():
    path = shared_path("data", "pgn", "sunfish_pgns.pgn")
    games = list(read_games(path))
    lines = path.read_text().splitlines()
    assert len(games) == len(lines) == 278
    for game, line in zip(games, lines, strict=True):
        theirs = chess.pgn.read_game(io.StringIO(line))
        assert theirs is not None
        written = chess.pgn.read_game(io.StringIO(games_to_pgn([game])))
        assert written is not None
        assert list(written.mainline_moves()) == list(theirs.mainline_moves())
        assert game.result == theirs.headers["Result"]

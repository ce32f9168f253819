"""At the terminal moves, commands and slips of the player are answered as on a real board."""

import dataclasses
import io
import math
import pathlib
import re

import jax.numpy as jnp
import pytest
from rich.console import Console

from azchess.games.chess import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.networks.transformer import TransformerConfig
from azchess.runs import folder
from azchess.runs import play as playing
from azchess.runs.config import RunConfig
from azchess.runs.folder import Loaded
from azchess.runs.play import play, seat_of
from azchess.runs.session import Session, look, think
from azchess.runs.starts import FenStarts
from azchess.search.gumbel import Gumbel
from azchess.search.presets import NN_CHESS
from azchess.search.puct import Puct

SIMULATIONS = 2
CONFIG = RunConfig(
    game=ChessGame(num_slots=40, memory=8, max_plies=40),
    network=TransformerConfig(layers=1, width=8, heads=1, hidden=1, summary=1),
    search=Puct(simulations=SIMULATIONS),
)
MATE_IN_ONE = "7k/5Q2/6K1/8/8/8/8/8 w - - 0 1"


def loaded(config: RunConfig) -> Loaded:
    """An untrained network."""
    return Loaded(network=folder.first_network(config), config=config)


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> pathlib.Path:
    """The folder of a run of chess that has not learned anything."""
    path = tmp_path_factory.mktemp("run")
    folder.write_config(path, CONFIG)
    with folder.checkpoints(path, CONFIG) as saved:
        arrays = folder.network_arrays(folder.first_network(CONFIG))
        saved.save(1, network=arrays, run={"iteration": jnp.int32(1)})
    return path


@pytest.fixture(scope="module")
def chess_run(run_dir) -> Loaded:
    return folder.load(run_dir)


@pytest.fixture
def dialogue(monkeypatch, chess_run):
    """Plays a script, one line of input after the other, and returns what was printed."""

    def run(*lines: str, run: Loaded = chess_run, **options) -> str:
        monkeypatch.setattr(folder, "load", lambda run_dir: run)
        script = iter(lines)

        def ask(prompt: str) -> str:
            for line in script:
                return line
            raise EOFError

        console = Console(file=io.StringIO(), width=100, color_system=None)
        play("run", input=ask, console=console, **options)
        return console.file.getvalue()

    return run


def fen(text: str) -> list[str]:
    """The boards of all FENs that were printed."""
    return re.findall(r"^((?:[\w]+/){7}\w+ [wb] \S+)", text, re.MULTILINE)


@pytest.mark.parametrize("text", ["Nf3", "g1f3"])
def test_a_move_in_san_or_uci_is_made_and_answered(dialogue, text):
    shown = dialogue(text, "fen", "quit")
    (after,) = fen(shown)
    assert after.split("/")[7].startswith("RNBQKB1R w")
    assert re.search(r"azchess plays \S+ \(its value [+-]\d\.\d\d, \d of 2 visits\)", shown)
    assert len(re.findall(r"a  b  c  d  e  f  g  h", shown)) == 2
    assert "Goodbye." in shown


def test_pawns_are_promoted_and_kings_castle(dialogue):
    start = "8/P5k1/8/8/8/8/8/4K2R w K - 0 1"
    (knight,) = fen(dialogue("a8=N", "undo", "O-O", "undo", "a7a8n", "fen", fen=start))
    assert knight.startswith("N")
    (castled,) = fen(dialogue("O-O", "fen", fen=start))
    assert castled.split("/")[7].startswith("5RK1 w")


def test_illegal_moves_and_nonsense_are_explained_and_change_nothing(dialogue):
    shown = dialogue("e5", "Ke2", "e7e5", "xyzzy", "[bold]", "", "fen")
    assert "e5: no pawn can go to e5" in shown
    assert "the pawn on e7 is not yours" in shown
    assert "'xyzzy' is not a move" in shown
    assert "'[bold]' is not a move" in shown
    assert fen(shown)[0].startswith("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w")
    assert "azchess plays" not in shown


def test_undo_takes_back_the_move_and_the_reply(dialogue):
    shown = dialogue("undo", "fen", "d4", "Nf3", "undo", "fen", "undo", "fen")
    before, once, twice = fen(shown)
    assert "there is no move of yours to take back" in shown
    assert "PPP1PPPP/RNBQKBNR" in once
    assert twice == before


def test_the_numbers_of_a_hint_agree_with_each_other(chess_run):
    advice = Session(chess_run).advice()
    assert advice.visits == SIMULATIONS
    assert len(advice.candidates) == 20
    assert advice.best in advice.candidates
    assert sum(advice.wdl) == pytest.approx(1.0)
    for move in advice.candidates[:SIMULATIONS]:
        assert move.visits == 1
        assert sum(move.wdl) == pytest.approx(1.0)
        assert move.wdl[0] - move.wdl[2] == pytest.approx(move.q, abs=1e-5)
    assert sum(move.prior for move in advice.candidates) == pytest.approx(1.0)
    assert advice.plies_left > 0
    c = 1.25 + math.log((1 + SIMULATIONS + 19652) / 19652)
    for move in advice.candidates:
        bonus = c * move.prior * math.sqrt(SIMULATIONS) / (1 + move.visits)
        assert move.bonus == pytest.approx(bonus, rel=1e-5)


def test_gumbel_s_hints_show_the_improved_policy(dialogue):
    game, search = pgx_game("tic_tac_toe"), Gumbel(simulations=4, considered=4)
    run = loaded(dataclasses.replace(CONFIG, game=game, search=search))
    advice = Session(run).advice()
    assert advice.visits == 4
    assert sum(move.policy for move in advice.candidates) == pytest.approx(1.0)
    assert re.search(r"move.*N.*Q.*P.*U.*policy", dialogue("hint", run=run))


def test_a_hint_shows_a_row_per_candidate(dialogue):
    shown = dialogue("hint")
    rows = re.findall(r"│\s*(\S+)\s(?:\*)?\s*│\s*(\d+)\s*│", shown)
    assert sum(int(visits) for _, visits in rows) == SIMULATIONS
    assert len(rows) == 8
    assert re.search(r"win \d+\.\d %   draw \d+\.\d %   loss \d+\.\d %   \d+ plies left", shown)
    best, line = re.search(r"(\S+) \*", shown), re.search(r"^line: (.*)$", shown, re.MULTILINE)
    assert line[1].split()[0] == best[1]


def test_simulations_of_the_session_replace_those_of_the_run(chess_run):
    assert Session(chess_run, simulations=3).search == Puct(simulations=3)
    with pytest.raises(ValueError, match="simulations = 0"):
        Session(chess_run, simulations=0)


def test_a_preset_replaces_the_run_s_search(dialogue, monkeypatch):
    searched = []

    class Watched(Session):
        def __init__(self, loaded, **options):
            super().__init__(loaded, **options)
            searched.append((self.search, self.knobs))

    monkeypatch.setattr(playing, "Session", Watched)
    dialogue("quit", preset="nn_chess")
    search = Puct(simulations=SIMULATIONS, ties="notation")
    assert searched == [(search, NN_CHESS.knobs)]
    with pytest.raises(ValueError, match="preset = 'alphago': must be one of"):
        dialogue("quit", preset="alphago")


def test_mate_ends_the_game_until_it_is_taken_back(dialogue):
    shown = dialogue("Qg7#", "Kh6", "hint", "undo", "fen", fen=MATE_IN_ONE)
    assert "Checkmate: white wins, 1-0." in shown
    assert shown.count("the game is over") == 2
    assert fen(shown) == [MATE_IN_ONE.removesuffix(" - 0 1")]


def test_fool_s_mate_is_announced(chess_run):
    session = Session(chess_run)
    for move in ("f3", "e5", "g4", "Qh4"):
        assert not session.over
        name = session.push(move)
    assert name == "Qh4#"
    assert session.over
    assert session.result() == "Checkmate: black wins, 0-1"
    with pytest.raises(ValueError, match="over"):
        session.push("a3")


@pytest.mark.parametrize(
    ("start", "moves", "words"),
    [
        ("k7/8/1K6/8/8/8/8/2Q5 w - - 0 1", ["Qc7"], "Stalemate"),
        ("k7/8/8/8/8/8/1p6/1K6 w - - 0 1", ["Kxb2"], "Neither side can mate"),
        ("k7/8/8/8/8/8/8/1K5R w - - 99 10", ["Rh2"], "50 moves"),
        ("k7/8/8/8/8/8/8/1K5R w - - 0 1", ["Rh2", "Kb8", "Rh1", "Ka8"] * 2, "3 times"),
        ("k7/8/8/8/8/8/8/1K5R w - - 0 20", ["Rh2", "Kb8"], "cut after 40 plies"),
    ],
)
def test_every_other_end_of_a_game_has_its_words(chess_run, start, moves, words):
    session = Session(chess_run, fen=start)
    for move in moves:
        assert session.result() == ""
        session.push(move)
    assert words in session.result()


def test_check_is_announced(dialogue):
    assert "Check!" in dialogue(fen="4k3/8/8/8/8/8/4r3/4K3 w - - 0 1")
    assert "Check!" not in dialogue()


def test_a_player_of_the_black_pieces_sees_them_below_and_moves_second(dialogue):
    shown = dialogue("e5", "flip", colour="black")
    assert "You play black" in shown
    boards = re.findall(r"(?:[a-h]  ){7}[a-h]", shown)
    assert boards == ["h  g  f  e  d  c  b  a"] * 3 + ["a  b  c  d  e  f  g  h"]
    assert shown.count("azchess plays") == 2


def test_a_game_begins_at_a_fen_and_another_can_be_set_up(dialogue):
    shown = dialogue(
        "fen", "fen 7k/8/8/8/8/8/8/K5R1 w - - 0 1", "fen", "new", "fen", fen=MATE_IN_ONE
    )
    first, second, third = fen(shown)
    assert first == third
    assert second.startswith("7k/8/8/8/8/8/8/K5R1 w")


@pytest.mark.parametrize(
    ("text", "reason"),
    [("nonsense", "is not a FEN"), ("8/8/8/8/8/8/8/K7 w - - 0 1", "is not a legal chess position")],
)
def test_a_position_that_cannot_be_is_refused(dialogue, text, reason):
    with pytest.raises(ValueError, match=reason):
        dialogue(fen=text)
    assert reason in dialogue(f"fen {text}")


def test_a_run_s_own_starts_are_played_and_slots_are_never_too_few(chess_run):
    start = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"
    run = chess_run._replace(config=dataclasses.replace(CONFIG, starts=FenStarts(fens=(start,))))
    session = Session(run)
    assert session.notation.fen(session.position) == start
    assert len(session.legal) == 218
    with pytest.raises(ValueError, match="229 legal moves, more than num_slots = 218"):
        session.new("Q6Q/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KQ1 w - - 0 1")
    assert session.notation.fen(session.position) == start


def test_resigning_a_new_game_and_help(dialogue):
    shown = dialogue("resign", "resign", "new black", "moves", "new green", "help", "quit", "e4")
    assert "white resigns: black wins." in shown
    assert "the game is over" in shown
    assert shown.count("azchess plays") == 1
    assert "colour = 'green': must be one of white, black, random" in shown
    assert "take back your last move" in shown
    assert shown.endswith("Goodbye.\n")


def test_ctrl_c_and_the_end_of_the_input_leave_politely(dialogue, monkeypatch, chess_run):
    assert dialogue().endswith("Goodbye.\n")
    monkeypatch.setattr(folder, "load", lambda run_dir: chess_run)
    console = Console(file=io.StringIO())

    def interrupted(prompt: str) -> str:
        raise KeyboardInterrupt

    play("run", input=interrupted, console=console)
    assert console.file.getvalue().endswith("Goodbye.\n")


@pytest.mark.fast
def test_a_random_colour_is_either():
    assert {seat_of("random") for _ in range(64)} == {0, 1}


def test_a_session_compiles_its_search_once(chess_run):
    session = Session(chess_run, fen="k7/8/8/8/8/8/8/1K5R w - - 0 1")
    session.push(session.advice().best.label)
    traced = think._cache_size(), look._cache_size()
    for _ in range(2):
        session.push(session.advice().best.label)
    session.new()
    session.advice()
    Session(chess_run).advice()
    assert (think._cache_size(), look._cache_size()) == traced


def test_a_session_keeps_its_tree_and_thinks_as_if_it_had_not():
    """What is kept counts, so that each search is worth what a new one is and costs less."""
    config = dataclasses.replace(CONFIG, game=pgx_game("tic_tac_toe"), search=Puct(simulations=20))
    run = loaded(config)
    session, kept = Session(run), []
    while not session.over:
        advice = session.advice()
        afresh = Session(run)
        for label in session.labels:
            afresh.push(label)
        wanted = afresh.advice()
        assert advice.visits == wanted.visits == 20
        assert wanted.kept == 0
        for move, other in zip(advice.candidates, wanted.candidates, strict=True):
            assert (move.label, move.visits) == (other.label, other.visits)
            assert (move.q, move.bonus) == pytest.approx((other.q, other.bonus), abs=1e-6)
        assert session.advice().candidates == advice.candidates  # a hint, and then the move
        kept.append(advice.kept)
        session.push(advice.best.label)
        if len(kept) == 2:
            through = advice.best.visits
        if len(kept) == 3:
            assert advice.kept == through - 1
    assert kept[0] == 0
    assert max(kept) > 2
    session.undo(0)
    assert session.advice().kept == 0
    session.new()
    assert session.advice().kept == 0


def test_a_run_is_played_from_its_folder(run_dir):
    console = Console(file=io.StringIO())
    lines = iter(["e4", "quit"])
    play(run_dir, input=lambda prompt: next(lines), console=console)
    assert "azchess plays" in console.file.getvalue()
    with pytest.raises(ValueError, match="not the folder of a run"):
        play(run_dir / "nowhere", console=console)


def test_connect_four_is_played_by_numbers(dialogue):
    game = pgx_game("connect_four")
    run = loaded(dataclasses.replace(CONFIG, game=game))
    shown = dialogue("moves", "3", "9", "e4", "hint", "fen", "undo", run=run)
    assert "0 (a)  1 (b)  2 (c)  3 (d)" in shown
    assert re.search(r"^ 1 .*X", shown, re.MULTILINE)
    assert re.search(r"azchess plays \d \([a-g]\)", shown)
    assert "9 is not legal: 0, 1, 2, 3, 4, 5, 6 are" in shown
    assert "'e4' is not a move" in shown
    assert "2 simulations" in shown
    assert "only chess positions have a FEN" in shown
    with pytest.raises(ValueError, match="only chess positions have a FEN, not connect_four"):
        dialogue(run=run, fen=MATE_IN_ONE)
    session = Session(run)
    for label in (3, 0, 3, 0, 3, 0, 3):
        session.push(label)
    assert session.result() == "X wins"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("tic_tac_toe", ["3 X 1 2", "2 3 4 5", "1 6 7 8", "a b c"]),
        pytest.param(
            "gardner_chess",
            [
                "5 R N B Q K",
                "4 · P P P P",
                "3 P · · · ·",
                "2 p p p p p",
                "1 r n b q k",
                "a b c d e",
            ],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_board_of_a_small_game_is_drawn_as_its_mover_sees_it(name, rows):
    session = Session(loaded(dataclasses.replace(CONFIG, game=pgx_game(name))))
    session.push(session.legal[0])
    lines = session.picture(first_below=True).splitlines()
    assert [" ".join(line.split()) for line in lines] == rows

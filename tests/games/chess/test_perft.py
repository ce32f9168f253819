"""The number of move sequences of a given length, against published and Stockfish's counts."""

import functools
import pathlib

import chess
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame, Record, position_from_board
from shared_data import shared_path

GAME = ChessGame()
CHESS960 = ChessGame(chess960=True)
CHUNK = 1024
FIXTURES = pathlib.Path(__file__).parents[2] / "data"

PUBLISHED = [
    ("rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 4, 197281),
    ("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1", 3, 97862),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", 4, 43238),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", 3, 9467),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", 3, 62379),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", 3, 89890),
    ("n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1", 4, 182838),
]
MOST_MOVES = "R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1"


@functools.partial(jax.jit, static_argnums=0)
def legal(game: ChessGame, records: Record):
    return jax.vmap(lambda record: game.moves(game.position(record)))(records)


@functools.partial(jax.jit, static_argnums=0)
def play(game: ChessGame, records: Record, labels: jax.Array) -> Record:
    return jax.vmap(lambda record, label: game.step(game.position(record), label).now)(
        records, labels
    )


def in_chunks(function, tree):
    """Applies a function to the rows of arrays, always to CHUNK of them at once."""
    rows = len(jax.tree.leaves(tree)[0])
    results = []
    for first in range(0, rows, CHUNK):
        index = np.minimum(np.arange(first, first + CHUNK), rows - 1)
        result = function(jax.tree.map(lambda leaf, index=index: jnp.asarray(leaf[index]), tree))
        size = min(CHUNK, rows - first)
        results.append(jax.tree.map(lambda leaf, size=size: np.asarray(leaf)[:size], result))
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *results)


def perft(fen: str, depth: int, game: ChessGame = GAME) -> list[int]:
    """Counts for depths 1 to `depth`, breadth first."""
    start = position_from_board(chess.Board(fen, chess960=game.chess960), game).now
    frontier = jax.tree.map(lambda leaf: np.asarray(leaf)[None], start)
    counts = []
    while True:
        moves = in_chunks(functools.partial(legal, game), frontier)
        counts.append(int(moves.count.sum()))
        assert (moves.count == (moves.labels >= 0).sum(axis=1)).all()
        if len(counts) == depth or counts[-1] == 0:
            return counts
        rows, slots = np.nonzero(moves.labels >= 0)
        parents = jax.tree.map(lambda leaf, rows=rows: leaf[rows], frontier)
        labels = moves.labels[rows, slots].astype(np.int32)
        frontier = in_chunks(lambda pair: play(game, *pair), (parents, labels))


def read_epd(path: pathlib.Path, most: int) -> list[tuple[str, list[int]]]:
    """FEN and counts of each line, up to the first count above `most`."""
    lines = []
    for line in path.read_text().splitlines():
        fen, *operations = line.split(";")
        counts = [int(operation.split()[1]) for operation in operations]
        lines.append((fen.strip(), [count for count in counts if count <= most]))
    return lines


def read_perft(path: pathlib.Path) -> list[tuple[str, list[int]]]:
    """FEN and counts of each block of a .perft file."""
    blocks = []
    for line in path.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "epd":
            blocks.append((rest, []))
        elif word == "perft":
            blocks[-1][1].append(int(rest.split()[1]))
    return blocks


@pytest.mark.parametrize(("fen", "depth", "count"), PUBLISHED)
def test_published_counts_of_move_sequences_are_met(fen, depth, count):
    assert perft(fen, depth)[-1] == count


@pytest.mark.fast
def test_stockfishs_counts_of_a_hundred_positions_are_met_to_two_moves():
    for fen, counts in read_epd(FIXTURES / "perft_sf15.epd", 2_000):
        assert perft(fen, len(counts[:2])) == counts[:2], fen


@pytest.mark.slow
def test_stockfishs_counts_of_a_hundred_positions_are_met():
    for fen, counts in read_epd(FIXTURES / "perft_sf15.epd", 100_000):
        assert perft(fen, len(counts)) == counts, fen


@pytest.mark.slow
def test_the_classic_perft_suite_is_met():
    for fen, counts in read_epd(shared_path("data", "subsets", "perft_42.epd"), 200_000):
        assert perft(fen, len(counts)) == counts, fen


@pytest.mark.fast
def test_python_chesss_counts_of_chess960_positions_are_met_to_two_moves():
    for fen, counts in read_epd(FIXTURES / "perft_chess960.epd", 2_000):
        assert perft(fen, len(counts[:2]), CHESS960) == counts[:2], fen


@pytest.mark.slow
def test_python_chesss_counts_of_chess960_positions_are_met():
    for fen, counts in read_epd(FIXTURES / "perft_chess960.epd", 100_000):
        assert perft(fen, len(counts), CHESS960) == counts, fen


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perft_chess960_20.epd", "perft_tricky_19.epd"])
def test_published_counts_of_chess960_and_of_tricky_positions_are_met(name):
    for fen, counts in read_epd(shared_path("data", "subsets", name), 200_000):
        assert perft(fen, len(counts), CHESS960) == counts, fen


@pytest.mark.slow
def test_published_counts_of_960_positions_are_met_to_three_moves():
    blocks = read_perft(shared_path("data", "perft", "python-chess_chess960.perft"))
    assert len(blocks) == 960
    for fen, counts in blocks:
        assert perft(fen, 3, CHESS960) == counts[:3], fen


@pytest.mark.fast
@pytest.mark.parametrize("slots", [218, 40])
def test_the_position_with_most_moves_has_218_and_fewer_slots_keep_the_true_count(slots):
    record = jax.tree.map(lambda leaf: leaf[None], position_from_board(chess.Board(MOST_MOVES)).now)
    moves = legal(ChessGame(num_slots=slots), record)
    assert moves.count[0] == 218
    assert (moves.labels[0] >= 0).sum() == slots
    assert len(np.unique(moves.labels[0])) == slots

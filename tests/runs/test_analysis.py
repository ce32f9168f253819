"""What is shown of a search says what was found, on the screen and in pictures."""

import io

import jax
import numpy as np
import pytest
from rich.console import Console

from azchess.games.chess import ChessGame, label_to_move
from azchess.games.toy import hash_game
from azchess.networks.transformer import TransformerConfig
from azchess.runs.analysis import Advice, line_names, table
from azchess.runs.figures import board_figure, branch, tree_figure
from azchess.runs.notation import notation_of
from azchess.runs.session import think
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct

NETWORK = TransformerConfig(layers=1, width=8, heads=1, hidden=1, summary=1)
FEN = "r3k3/1P6/8/8/8/8/8/4K2R w K - 0 1"


def searched(game, position, simulations):
    """A search of a position by an untrained network: result, tree, names of the moves."""
    network = NETWORK.init(game, jax.random.key(0))
    # A new network has no opinion.
    network = jax.tree.map(
        lambda w: w + 0.1 * jax.random.normal(jax.random.key(1), w.shape), network
    )
    found, tree = think(game, Puct(simulations), network, position, SearchKnobs())
    result = jax.tree.map(lambda leaf: leaf[0], jax.device_get(found))
    labels = [int(label) for label in result.decision.labels if label >= 0]
    return result, tree, [notation_of(game).name(position, label) for label in labels]


@pytest.fixture(scope="module")
def chess_search():
    """White may castle, and promote in eight ways."""
    game = ChessGame(num_slots=40, memory=8)
    position = notation_of(game).read(FEN)
    return game, position, *searched(game, position, 60)


@pytest.fixture(scope="module")
def toy_search():
    game = hash_game(5, ends=0.1)
    position = game.init(jax.random.key(2))
    return game, position, *searched(game, position, 40)


def printed(shown):
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(shown)
    return console.file.getvalue()


def test_a_table_fits_a_screen_and_lists_the_most_visited_first(chess_search):
    _, _, result, _, names = chess_search
    rows = [line.split("│")[1:-1] for line in printed(table(result, names)).splitlines()]
    rows = [[cell.strip() for cell in row] for row in rows if row]
    visits = [int(row[1]) for row in rows]
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) == 60
    assert len(set(result.decision.q[result.decision.visits > 0].round(3).tolist())) > 3
    (marked,) = [row[0] for row in rows if row[0].endswith(" *")]
    assert marked == names[int(result.decision.slot)] + " *"
    for row in rows:
        slot = names.index(row[0].removesuffix(" *"))
        if visits[rows.index(row)]:
            assert float(row[2]) == pytest.approx(result.decision.q[slot], abs=5e-4)
            parts = [float(part) / 100 for part in row[6].split(" / ")]
            np.testing.assert_allclose(parts, result.wdl[slot], atol=6e-3)
            assert float(row[7]) == pytest.approx(result.moves_left[slot], abs=0.5)
        assert float(row[4]) == pytest.approx(result.bonus[slot], abs=5e-4)


def test_the_line_is_named_move_by_move(chess_search):
    game, position, result, _, names = chess_search
    labels = result.line.tolist()
    line = line_names(notation_of(game), position, labels)
    assert len(line) == sum(label >= 0 for label in labels) > 1
    assert line[0] == names[int(result.decision.slot)]
    advice = Advice(result=result, names=names, line=line)
    assert advice.best.name == line[0]
    assert advice.best.label == labels[0]
    assert advice.visits == 60


def test_a_picture_of_a_tree_has_its_most_visited_moves(toy_search):
    game, _, result, tree, _ = toy_search
    notation = notation_of(game)
    one = jax.device_get(jax.tree.map(lambda leaf: leaf[0] if leaf.ndim else leaf, tree))
    root = branch(one, notation.name, 2, 3)
    most = sorted(result.decision.visits.tolist(), reverse=True)[:2]
    assert [child.visits for child in root.children] == most
    best = root.children[0]
    slot = result.decision.visits.tolist().index(best.visits)
    assert best.q == pytest.approx(result.decision.q[slot], abs=1e-6)
    # Two plies down the mover is the root's again, one ply down it is not.
    child = int(one.child[0, slot])
    q = -one.total[child] / np.maximum(one.visits[child], 1)
    assert best.children[0].q == pytest.approx(q[one.visits[child].argmax()], abs=1e-6)

    figure = tree_figure(tree, notation.name, most=2, depth=3)
    texts = figure.axes[0].texts

    def count(branch):
        return 1 + sum(count(child) for child in branch.children)

    assert len(texts) == count(root)
    assert f"{best.visits}  {best.q:+.2f}" in "".join(text.get_text() for text in texts)
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize("white_below", [True, False])
def test_a_picture_of_a_board_has_its_men_and_arrows(chess_search, white_below):
    _, position, result, _, names = chess_search
    figure = board_figure(position, result, most=3, white_below=white_below)
    axes = figure.axes[0]
    men = {text.get_text(): text.get_position() for text in axes.texts}
    assert men == {"♜": (0, 7), "♚": (4, 7), "♙": (1, 6), "♔": (4, 0), "♖": (7, 0)}
    arrows = [patch for patch in axes.patches if type(patch).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 6
    # The most visited move is drawn last, above all others.
    first = Advice(result=result, names=names, line=()).candidates[0]
    move = label_to_move(position, first.label)
    (x, y), (left, top) = arrows[-1]._posA_posB
    assert (x + 8 * y, left + 8 * top) == (move.from_square, move.to_square)
    figure.savefig(io.BytesIO())

"""The presets are sound, and full chess trains."""

import dataclasses

import jax
import pytest

from azchess.games.pgx_games import pgx_game
from azchess.games.toy import hash_game
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.evaluator import uniform_evaluator
from azchess.runs.config import RunConfig, load_config
from azchess.runs.memory import node_bytes, size_of, tree_bytes
from azchess.runs.record import read_rows
from azchess.runs.train import train
from azchess.search.edges import Carries
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct
from shared_data import ROOT

PRESETS = sorted((ROOT / "configs").glob("*.py"))


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_a_preset_loads_and_says_what_it_asks(path):
    config = load_config(path)
    assert config.setup()
    assert "?" in path.read_text(encoding="utf-8").split("\n")[0]


def test_the_accelerator_preset_is_sized_as_promised():
    config = load_config(ROOT / "configs" / "chess_accelerator.py")
    assert config.game.num_boards == 8
    assert config.network.layers >= 8
    assert config.network.width >= 256
    position = size_of(jax.eval_shape(config.game.init, jax.random.key(0)))
    assert position <= 1200
    assert tree_bytes(config) < 4 * 2**30


def test_trees_that_are_reused_are_counted_twice_at_their_full_size():
    game, search = pgx_game("tic_tac_toe"), Puct(simulations=50)
    config = RunConfig(game=game, search=search, selfplay=SelfPlayConfig(games=4, reuse=True))
    positions = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4))
    trees = search.no_trees(game, uniform_evaluator(game), None, positions)
    assert tree_bytes(config) == pytest.approx(2 * size_of(trees), rel=0.15)
    new = dataclasses.replace(config, selfplay=SelfPlayConfig(games=4))
    assert tree_bytes(config) == pytest.approx(4 * tree_bytes(new), rel=0.05)


class Told(Puct):
    """A search whose trees hold more."""

    carries = Carries(draws=True, bounds=True)


@pytest.mark.parametrize("search", [Puct(6), Told(6, leaves=2)], ids=["plain", "with carries"])
def test_a_node_takes_the_bytes_that_are_counted(search):
    game = hash_game(5)
    keys = jax.random.split(jax.random.key(0), 3)

    def trees(keys):
        positions = jax.vmap(game.init)(keys)
        return search.think(game, uniform_evaluator(game), None, keys, positions, SearchKnobs())[1]

    tree = jax.eval_shape(trees, keys)
    counters = size_of((tree.depth, tree.lockstep))
    assert size_of(tree) - counters == 3 * 7 * node_bytes(game, search)


@pytest.mark.slow
def test_full_chess_trains_two_iterations(tmp_path):
    config = dataclasses.replace(load_config(ROOT / "configs" / "chess.py"), iterations=2)
    train(config, tmp_path / "run")
    rows = read_rows(tmp_path / "run")
    assert [row["iteration"] for row in rows] == [1, 2]
    assert rows[-1]["selfplay/slot_overflows"] == 0

"""A configuration survives being written down, and what is wrong with one is said by name."""

import dataclasses
import json
import sys

import jax.numpy as jnp
import optax
import pytest

from azchess.games.chess import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.config import RunConfig, from_json, load_config, read_config, to_json
from azchess.runs.folder import run_config, write_config
from azchess.runs.starts import FenStarts, StandardStart
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct
from shared_data import ROOT


@dataclasses.dataclass(frozen=True)
class Random(TreeSearch):
    """A search of somebody else's."""

    spread: float = 0.5
    """Its own number."""

    def rule(self, edges, knobs):
        return self.spread * edges.prior - edges.visits


# What this module is called where tests are collected; a config names classes by their module.
sys.modules.setdefault(Random.__module__, sys.modules[__name__])

CONFIGS = {
    "a search of one's own": RunConfig(search=Random(simulations=3, leaves=2, spread=0.25)),
    "defaults": RunConfig(),
    "connect four": RunConfig(
        game=pgx_game("connect_four"),
        network=TransformerConfig(layers=1, width=8, heads=2, dtype="bfloat16"),
        search=Puct(simulations=3, max_depth=4),
        selfplay=SelfPlayConfig(games=2, plies=4, max_plies=12, cut_is_draw=True),
        learn=LearnConfig(optimiser="sgd", average=0.99, decay=100, augment=False),
        knobs=Knobs(search=SearchKnobs(fpu=-1), learn=LearnKnobs(learning_rate=0.125)),
        capacity=8,
        keep_every=10,
    ),
    "chess from positions": RunConfig(
        game=ChessGame(num_slots=40, num_boards=2, max_plies=100, repetition=None, memory=8),
        search=Gumbel(simulations=4, considered=2, rescale_values=True),
        starts=FenStarts(fens=("4k3/8/8/8/8/8/8/3QK3 w - - 0 1",)),
        first_reach=0.5,
        reach_iterations=10,
    ),
}


@pytest.mark.fast
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_config_is_the_same_after_being_written_and_read(config, tmp_path):
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    write_config(tmp_path / "run", config)
    assert run_config(tmp_path / "run") == config
    assert load_config(tmp_path / "run" / "config.json") == config
    assert hash(config) == hash(run_config(tmp_path / "run"))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "configs").glob("*.py")), ids=lambda path: path.stem
)
def test_every_preset_can_be_read_and_written(path):
    config = load_config(path)
    assert from_json(to_json(config)) == config


# What is changed in the default configuration, and the words that say what is wrong with it.
BAD_VALUES = {
    "iterations": ({"iterations": 0}, r"iterations = 0.*at least 1"),
    "checkpoint_every": ({"checkpoint_every": 0}, r"checkpoint_every = 0.*at least 1"),
    "keep_latest": ({"keep_latest": 0}, r"keep_latest = 0.*at least 1"),
    "keep_every": ({"keep_every": 0}, r"keep_every = 0.*at least 1"),
    "reach_iterations": ({"reach_iterations": -1}, r"reach_iterations = -1.*at least 0"),
    "first_reach": ({"first_reach": 0.0}, r"first_reach = 0.0.*above 0"),
    "capacity": ({"capacity": 20}, r"capacity = 20.*multiple of selfplay.plies = 16"),
    "discount": ({"knobs": Knobs(search=SearchKnobs(discount=1.5))}, r"discount = 1.5.*0.0 and 1"),
}


@pytest.mark.fast
@pytest.mark.parametrize(("changes", "message"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_number_out_of_range_is_named_with_what_would_be_accepted(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(RunConfig(), **changes)


BAD_PARTS = {
    "selfplay.games": lambda: SelfPlayConfig(games=0),
    "selfplay.plies": lambda: SelfPlayConfig(plies=0),
    "selfplay.max_plies": lambda: SelfPlayConfig(max_plies=0),
    "learn.batch": lambda: LearnConfig(batch=0),
    "learn.updates": lambda: LearnConfig(updates=0),
    "learn.warmup": lambda: LearnConfig(warmup=-1),
    "learn.average": lambda: LearnConfig(average=1.0),
    "learn.fill": lambda: LearnConfig(fill=1.0),
    "learn.clip": lambda: LearnConfig(clip=0.0),
    "network.layers": lambda: TransformerConfig(layers=0),
    "network.heads": lambda: TransformerConfig(width=8, heads=3),
    "search.simulations": lambda: Puct(simulations=0),
    "search.considered": lambda: Gumbel(considered=0),
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_a_part_that_cannot_be_is_named(name):
    with pytest.raises(ValueError, match=rf"^{name} = .*: must "):
        BAD_PARTS[name]()


BAD_FILES = {
    "absent.json": (None, "no such file"),
    "broken.json": ("{", "not JSON"),
    "list.json": ("[1, 2]", "must hold a RunConfig"),
    "part.json": (
        '{"type": "azchess.search.puct:Puct", "simulations": 2, "max_depth": null}',
        "must hold a RunConfig",
    ),
    "typeless.json": ('{"games": 1}', "unknown"),
    "nowhere.json": ('{"type": "azchess.nowhere:Nothing"}', "azchess.nowhere:Nothing is unknown"),
    "relative.json": ('{"type": ".config:RunConfig"}', "unknown"),
    "function.json": ('{"type": "json:dumps"}', "json:dumps is not a configuration"),
    "empty.py": ("", "must define CONFIG"),
    "other.py": ("CONFIG = 3", "must define CONFIG"),
    "notes.txt": ("hello", "must be a Python file or a config.json"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_config_is_refused_by_name(name, tmp_path):
    text, message = BAD_FILES[name]
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_config(tmp_path / name)


def change(value, path, new):
    """JSON with one entry set, which may be new."""
    for name in path[:-1]:
        value = value[name]
    value[path[-1]] = new


@pytest.mark.parametrize(
    ("path", "new", "message"),
    [
        (("selfplay", "lanes"), 3, "SelfPlayConfig has no field lanes; it has games, plies"),
        (("speed",), 3, "RunConfig has no field speed"),
        (("selfplay", "games"), 0, "selfplay.games = 0"),
        (("selfplay", "games"), "many", "SelfPlayConfig.games = 'many': must be int"),
        (("selfplay", "games"), 8.5, "SelfPlayConfig.games = 8.5: must be int"),
        (("selfplay", "max_plies"), "8", "SelfPlayConfig.max_plies = '8': must be int or NoneType"),
        (("learn", "clip"), True, "LearnConfig.clip = True: must be float"),
        (("learn",), 3, "RunConfig.learn = 3: must be LearnConfig"),
        (("search", "chance"), "often", "chance = 'often': must be one of sampled, spread, exact"),
        (("search", "leaves"), 1.5, "Gumbel.leaves = 1.5: must be int"),
        (("search",), to_json(ChessGame()), r"RunConfig.search = ChessGame.*: must be TreeSearch"),
        (("search",), 3, "RunConfig.search = 3: must be TreeSearch"),
    ],
    ids=[
        "unknown field",
        "unknown top field",
        "out of range",
        "a word",
        "a fraction",
        "a digit in quotes",
        "a truth value",
        "no object",
        "no such choice",
        "a fraction of a leaf",
        "a game for a search",
        "a number for a search",
    ],
)
def test_what_is_wrong_inside_a_config_file_is_said(path, new, message, tmp_path):
    value = to_json(RunConfig())
    change(value, path, new)
    (tmp_path / "config.json").write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_config(tmp_path / "config.json")


def test_a_missing_field_is_said():
    value = to_json(CONFIGS["connect four"])
    del value["game"]["board"]
    with pytest.raises(ValueError, match=r"PgxGame cannot be made.*board"):
        from_json(value)


@pytest.mark.parametrize(
    "config",
    [
        RunConfig(learn=LearnConfig(optimiser=optax.adam(1e-3))),
        RunConfig(knobs=Knobs(search=SearchKnobs(fpu=jnp.zeros(64)))),
    ],
    ids=["optax transform", "array of knobs"],
)
def test_what_json_cannot_hold_is_refused(config):
    with pytest.raises(ValueError, match=r"cannot be written to config.json"):
        to_json(config)


def test_reach_grows_by_equal_factors_and_stays():
    config = dataclasses.replace(RunConfig(), first_reach=1 / 16, reach_iterations=4)
    expected = [1 / 16, 1 / 8, 1 / 4, 1.0, 1.0]
    assert [config.reach(i) for i in (0, 1, 2, 4, 9)] == pytest.approx(expected)
    assert RunConfig().reach(0) == 1.0


def test_starts_of_chess_are_refused_for_another_game():
    starts = FenStarts(fens=("4k3/8/8/8/8/8/8/3QK3 w - - 0 1",))
    with pytest.raises(ValueError, match="only for chess, not for tic_tac_toe"):
        starts.pool(pgx_game("tic_tac_toe"))
    with pytest.raises(ValueError, match="empty"):
        FenStarts().pool(ChessGame())
    assert StandardStart().pool(ChessGame()).records is None

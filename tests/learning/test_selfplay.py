"""Games are played as the search says, restarted at once, and the same wherever they are played."""

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from azchess.games.chess import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import subtraction
from azchess.learning.iterate import Setup
from azchess.learning.replay import gather, sampleable
from azchess.learning.selfplay import SelfPlayConfig, Starts, choose, new_games, play
from azchess.networks.evaluator import network_evaluator, uniform_evaluator
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.no_search import NoSearch
from azchess.search.puct import Puct
from learning.scripted import (
    FOOLS_MATE,
    NETWORK,
    REPETITION,
    Scripted,
    labels_of,
    played,
    remembered,
    script,
)
from shared_data import ROOT

GAME = pgx_game("tic_tac_toe")


@functools.cache
def self_played(game, search, config, seed=0):
    """Plies `[T, B]` of an untrained network, and the games after them."""

    @jax.jit
    def run(network, knobs, starts):
        games = new_games(game, starts, jax.random.key(seed), config.games)
        evaluate = network_evaluator(game)
        return play(game, evaluate, search, config, network, games, knobs, starts)

    return functools.partial(run, NETWORK.init(game, jax.random.key(1)))


def test_the_counters_of_games_lanes_and_plies_are_right():
    search = Scripted(ply=lambda position: position.ply)
    # Games of three, two and four plies, over and over.
    params = script([[0, 0, 2], [2, 1], [0, 0, 0, 1]], 6)
    games, plies = played(subtraction(5, 3), search, SelfPlayConfig(games=3, plies=7), params)
    assert plies.ply[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert plies.ply[:, 1].tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert plies.ply[:, 2].tolist() == [0, 1, 2, 3, 0, 1, 2]
    assert plies.game[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert games.time.tolist() == [7, 7, 7]
    assert games.ply.tolist() == [1, 1, 3]
    assert games.game.tolist() == [2, 3, 1]
    assert games.position.stones.tolist() == [4, 2, 2]
    assert plies.mover[:, 2].tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert (plies.played[:, 1] == jnp.array([2, 1, 2, 1, 2, 1, 2])).all()


def test_no_game_is_played_on_past_its_end_and_every_root_is_alive():
    config = SelfPlayConfig(games=8, plies=40)
    games, plies = self_played(GAME, Gumbel(simulations=4, considered=4), config)(
        SearchKnobs(), Starts()
    )
    plies = jax.device_get(plies)
    assert 8 * 40 / 9 - 8 <= plies.ended.sum() <= 8 * 40 / 5
    # Where a game ended, the next ply of the lane is the first of another game.
    np.testing.assert_array_equal(plies.ended[:-1], plies.ply[1:] == 0)
    assert (plies.ply[plies.ended] >= 4).all()
    # A root that is over, or a tree that still belongs to the last game, has no such moves.
    stones = (plies.record.state._x.board >= 0).sum(axis=-1)
    np.testing.assert_array_equal(stones, plies.ply)
    assert (plies.record.state.terminated == 0).all()
    visits = plies.decision.visits
    assert (visits.sum(axis=-1) == 4).all()
    assert ((plies.decision.labels >= 0).sum(axis=-1) == 9 - plies.ply).all()
    assert int(games.time[0]) == 40


def test_trees_of_restarted_lanes_hold_different_boards():
    # After a finished game pgx returns the same board for every move: a root that was not
    # restarted grows a tree of copies of itself.
    config = SelfPlayConfig(games=4, plies=24)
    search = Puct(simulations=6)
    games, _ = self_played(GAME, search, config)(SearchKnobs(), Starts())
    assert (games.game > 0).all()

    @jax.jit
    def tree(positions):
        keys = jax.random.split(jax.random.key(0), 4)
        knobs = SearchKnobs().greedy()
        return search.think(GAME, uniform_evaluator(GAME), None, keys, positions, knobs)[1]

    boards = np.asarray(tree(games.position).positions.state._x.board)
    for lane in range(4):
        assert len({tuple(board) for board in boards[lane]}) > 1


@pytest.mark.parametrize(
    "search", [Gumbel(simulations=4, considered=4), Puct(simulations=4)], ids=["gumbel", "puct"]
)
def test_a_lane_plays_the_same_games_among_four_and_among_eight(search):
    ends = [
        self_played(GAME, search, SelfPlayConfig(games=games, plies=12))(SearchKnobs(), Starts())[1]
        for games in (4, 8)
    ]
    for name in ("played", "ply", "game", "ended", "mover", "result"):
        few, many = (np.asarray(getattr(plies, name)) for plies in ends)
        np.testing.assert_array_equal(few, many[:, :4])
    np.testing.assert_allclose(ends[0].policy, ends[1].policy[:, :4], atol=2e-3)
    # Lanes are not copies of each other.
    assert len({tuple(lane) for lane in np.asarray(ends[1].played).T}) > 4


@pytest.mark.fast
@pytest.mark.parametrize(("reach", "within"), [(0.0, 1), (0.25, 1), (0.26, 2), (0.5, 2), (1.0, 4)])
def test_reach_limits_the_starts_to_the_first_of_the_pool(reach, within):
    game = subtraction(20, 3)
    pool = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4))
    pool = type(pool)(stones=jnp.array([3, 7, 11, 19], jnp.int32), ply=pool.ply)
    starts = Starts(records=pool, reach=jnp.float32(reach))
    games = new_games(game, starts, jax.random.key(2), 64)
    assert set(games.position.stones.tolist()) == {3, 7, 11, 19} - set([3, 7, 11, 19][within:])
    # The same holds for games that begin later.
    search = Scripted(ply=lambda position: position.ply)
    config = SelfPlayConfig(games=8, plies=12)
    _, plies = played(game, search, config, script([[2] * 20] * 8, 20), starts)
    begun = np.asarray(plies.record.stones)[np.asarray(plies.ply == 0)]
    assert set(begun) == set([3, 7, 11, 19][:within])


def test_moves_are_drawn_for_so_many_plies_and_the_searchs_choice_after():
    search = Gumbel(simulations=4, considered=4)
    run = self_played(GAME, search, SelfPlayConfig(games=8, plies=24))
    plies = run(SearchKnobs(temperature_plies=0.0), Starts())[1]
    assert (plies.played == plies.decision.slot).all()
    # All of the first two moves are drawn, none after them.
    plies = run(SearchKnobs(temperature_plies=2.0, temperature=3.0), Starts())[1]
    same, early = np.asarray(plies.played == plies.decision.slot), np.asarray(plies.ply < 2)
    assert same[~early].all()
    assert not same[early].all()
    per_ply = [same[np.asarray(plies.ply == ply)].mean() for ply in (0, 1)]
    assert max(per_ply) < 1


@pytest.mark.fast
def test_drawn_moves_follow_the_policy_and_its_temperature():
    number = 4000
    policy = jnp.tile(jnp.array([0.6, 0.3, 0.1, 0.0]), (number, 1))
    search = Scripted(ply=lambda position: position.ply)
    _, plies = played(
        subtraction(30, 4), search, SelfPlayConfig(games=1, plies=1), script([[0]], 1)
    )
    first = jax.tree.map(lambda leaf: jnp.repeat(leaf[0], number, axis=0), plies.decision)
    decision = type(first)(**(vars(first) | {"policy": policy}))
    keys = jax.random.split(jax.random.key(0), number)
    ply = jnp.zeros(number, jnp.int32)
    for temperature in (1.0, 0.5):
        knobs = SearchKnobs(temperature=temperature, temperature_plies=1.0)
        counts = np.bincount(choose(keys, decision, ply, knobs), minlength=4)
        expected = np.array([0.6, 0.3, 0.1, 0.0]) ** (1 / temperature)
        expected /= expected.sum()
        np.testing.assert_allclose(counts / number, expected, atol=0.03)
        assert counts[3] == 0
    later = choose(keys, decision, ply + 1, SearchKnobs(temperature_plies=1.0))
    assert (later == decision.slot).all()


def test_searches_go_on_in_the_trees_of_the_moves_before():
    search, config = Puct(simulations=8), SelfPlayConfig(games=8, plies=24, reuse=True)
    knobs = SearchKnobs(temperature_plies=3.0)
    plies = jax.device_get(self_played(GAME, search, config)(knobs, Starts())[1])
    visits = plies.decision.visits
    made, through = visits.sum(axis=-1), np.take_along_axis(visits, plies.played[..., None], -1)
    through = through[:-1, :, 0]
    # A new game, or a new call, begins with nothing.
    assert (made[plies.ply == 0] == 8).all()
    assert (made[0] == 8).all()
    assert plies.ended.sum() > 8
    # What went through the move, less its first evaluation, is there at the next ply. A tree keeps
    # as many nodes as a search makes, and a finished position is one node however often visited.
    on, whole = ~plies.ended[:-1], through <= 8
    np.testing.assert_array_equal(made[1:][on & whole], 8 + np.maximum(through[on & whole] - 1, 0))
    assert (made[1:][on & ~whole] <= 8 + through[on & ~whole] - 1).all()
    assert (made[1:][on] > 8).mean() > 0.5
    # The roots are those on the board: their legal moves are its empty places.
    board = plies.record.state._x.board.reshape(24, 8, 9)
    for at in np.ndindex(24, 8):
        labels = plies.decision.labels[at]
        assert sorted(labels[labels >= 0]) == np.flatnonzero(board[at] < 0).tolist()
    # Other lanes make no difference.
    few = self_played(GAME, search, SelfPlayConfig(games=4, plies=24, reuse=True))
    np.testing.assert_array_equal(few(knobs, Starts())[1].played, plies.played[:, :4])


@pytest.mark.fast
def test_reuse_without_trees_or_plies_to_use_them_is_refused():
    with pytest.raises(ValueError, match=r"selfplay\.plies must be at least 2"):
        SelfPlayConfig(plies=1, reuse=True)
    with pytest.raises(ValueError, match="Gumbel begins each search with a new tree"):
        Setup(game=GAME, search=Gumbel(), selfplay=SelfPlayConfig(reuse=True))
    with pytest.raises(ValueError, match="reuse = True: NoSearch has no trees"):
        Setup(game=GAME, search=NoSearch(), selfplay=SelfPlayConfig(reuse=True))


def test_tokens_from_replay_are_those_that_the_search_saw():
    game = ChessGame(num_slots=64, num_boards=3, memory=8)
    # A draw by repetition, a short mate, and a lane that makes its first legal move each time.
    lanes = [labels_of(REPETITION), labels_of(FOOLS_MATE), []]
    search = Scripted(ply=lambda position: position.now.ply)
    config = SelfPlayConfig(games=3, plies=1)
    evaluate = uniform_evaluator(game)
    params = script(lanes, 32)

    @jax.jit
    def ply(games):
        tokens = jax.vmap(lambda position: game.tokens(game.history(position)))(games.position)
        knobs = SearchKnobs(temperature_plies=0.0)
        games, row = play(game, evaluate, search, config, params, games, knobs, Starts())
        return games, row, tokens

    games, rows, live = new_games(game, Starts(), jax.random.key(0), 3), [], []
    for _ in range(18):
        games, row, tokens = ply(games)
        rows.append(row)
        live.append(np.asarray(tokens))
    plies = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *rows)
    assert plies.ended[:, 0].sum() == 2
    assert plies.ended[:, 1].sum() == 4
    replay = remembered(plies, 18)
    assert sampleable(replay, 3)[:2].sum() == 16 + 16
    lane, column = map(jnp.ravel, jnp.indices(replay.game.shape))
    samples = jax.jit(gather, static_argnums=3)(replay, lane, column, 3, jnp.float32(1))
    stored = np.asarray(jax.jit(jax.vmap(game.tokens))(samples.history))
    live = np.moveaxis(np.stack(live), 0, 1).reshape(stored.shape)
    np.testing.assert_array_equal(stored, live)
    # The history, and the repetitions in it, are there to be seen.
    repeated = live.reshape(3, 18, 64, 48)[0, :, 0]
    assert repeated[4:8, 12].tolist() == [1, 1, 1, 1]
    assert repeated[8, [12, 26, 40]].tolist() == [0, 0, 0]
    assert live.reshape(3, 18, 64, 48)[1, 4, :, 14:42].sum() == 0
    assert live.reshape(3, 18, 64, 48)[1, 3, :, 28:40].sum() == 32


FOUR_DEVICES = """
import dataclasses
import re
import jax
import jax.numpy as jnp
import numpy as np
from azchess.games.pgx_games import pgx_game
from azchess.learning.iterate import Knobs, iterate, new_run, self_play
from azchess.learning.selfplay import Starts
from azchess.search.gumbel import Gumbel
from azchess.search.puct import Puct
from learning.scripted import NETWORK, knob_arrays, tiny_setup

assert jax.device_count() == 4
game = pgx_game("tic_tac_toe")
mesh = jax.make_mesh((4,), ("games",), (jax.sharding.AxisType.Auto,))
network = NETWORK.init(game, jax.random.key(0))
for search in (Gumbel(simulations=2, considered=2), Puct(simulations=4)):
    ends, knobs = [], knob_arrays()
    for place in (None, mesh):
        setup = tiny_setup(game, search, games=8, plies=4, batch=8, mesh=place)
        if search.reuses:
            often = dataclasses.replace(knobs.search, full_share=jnp.float32(0.5))
            knobs = dataclasses.replace(knobs, search=often)
            setup = dataclasses.replace(
                setup, selfplay=dataclasses.replace(setup.selfplay, reuse=True)
            )
        run = new_run(setup, network, Starts(), jax.random.key(1))
        if place is not None:
            alone = jax.jit(self_play, static_argnums=0)
            player = run.learner.player
            text = alone.lower(setup, player, run.games, knobs, Starts()).compile().as_text()
            moved = re.findall(
                r"all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter", text
            )
            assert not moved, set(moved)
        history = []
        for _ in range(3):
            before = [(x.shape, x.dtype, x.sharding) for x in jax.tree.leaves(run)]
            run, metrics = iterate(setup, run, knobs, Starts())
            after = [(x.shape, x.dtype, x.sharding) for x in jax.tree.leaves(run)]
            assert before == after
            history.append(jax.device_get(metrics))
        if place is not None:
            assert run.replay.game.sharding.spec == jax.sharding.PartitionSpec("games")
            assert len(run.replay.game.addressable_shards) == 4
        ends.append((jax.device_get((run.games, run.replay)), history))
    (games, metrics), (spread, others) = ends
    for one, other in zip(jax.tree.leaves(games), jax.tree.leaves(spread), strict=True):
        if jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        np.testing.assert_array_equal(one, other)
    for one, other in zip(metrics, others, strict=True):
        for name in one:
            # Each device goes down its own trees, as deep as the deepest of them.
            if name != "selfplay/lockstep_depth":
                np.testing.assert_allclose(one[name], other[name], 1e-5, 1e-5, err_msg=name)
print("same games")
"""


@pytest.mark.slow
def test_four_devices_play_the_games_of_one_and_say_nothing_to_each_other():
    settings = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_COMPILATION_CACHE_DIR": str(jax.config.jax_compilation_cache_dir),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FOUR_DEVICES],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "same games" in done.stdout

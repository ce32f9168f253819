"""What cannot work is refused before it costs anything, and nothing is lost."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from azchess.evaluation.endings import locate
from azchess.evaluation.oracles import DRAWN, dtm_table, probe
from azchess.evaluation.suite import EndingSuite
from azchess.games.chess import ChessGame, position_from_fen
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import Heap, subtraction
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.evaluator import uniform_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.runs import folder
from azchess.runs.config import RunConfig, load_config, to_json
from azchess.runs.starts import EndingStarts, FenStarts
from azchess.runs.train import resume, train
from azchess.search.grow import grow
from azchess.search.growth import Growth
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs, per_game
from azchess.search.no_search import NoSearch
from azchess.search.node import evaluate_node
from azchess.search.puct import Puct
from azchess.search.tree import root_tree

TINY = RunConfig(
    game=subtraction(5, 3),
    network=TransformerConfig(layers=1, width=8, heads=1),
    search=Gumbel(simulations=2, considered=2),
    selfplay=SelfPlayConfig(games=4, plies=2),
    learn=LearnConfig(batch=8, updates=1),
    capacity=8,
    iterations=2,
    checkpoint_every=1,
)

PRESET = """
import dataclasses
from azchess.games.toy import Subtraction
from azchess.learning.learner import LearnConfig
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs.config import RunConfig
from azchess.search.gumbel import Gumbel

@dataclasses.dataclass(frozen=True)
class MyGame(Subtraction):
    name: str = "mine"

CONFIG = RunConfig(
    game=MyGame(board=(1, 5), num_labels=3, num_slots=3),
    network=TransformerConfig(layers=1, width=8, heads=1),
    search=Gumbel(simulations=2, considered=2),
    selfplay=SelfPlayConfig(games=4, plies=2),
    learn=LearnConfig(batch=8, updates=1),
    capacity=8,
    iterations=1,
)
"""


def quiet():
    return Console(quiet=True)


@pytest.mark.parametrize(
    ("fen", "says"),
    [
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "over already"),  # stalemate
        ("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "over already"),  # mate
        ("8/8/4k3/8/8/3K4/8/8 w - - 0 1", "over already"),  # two kings
        ("5k2/8/8/8/8/8/QQ6/K7 w - - 0 1", "more than game.num_slots = 8"),
    ],
)
def test_a_start_that_cannot_be_played_is_refused(fen, says):
    fine = "8/8/8/8/8/1k6/8/K6Q b - - 0 1"
    with pytest.raises(ValueError, match=says):
        FenStarts(fens=(fine, fen)).pool(ChessGame(num_slots=8))


def test_drawn_starts_are_the_share_asked_for_and_spread_evenly():
    config = EndingStarts(longest=9, either_side=True, drawn_share=0.25)
    pool = config.pool(ChessGame(num_slots=40)).records
    ending = jax.jit(jax.vmap(locate))(pool)
    dtm = probe(dtm_table("KQvK"), ending.squares, ending.strong_to_move)
    drawn = np.asarray(dtm) == DRAWN
    quarters = np.array_split(drawn, 4)
    assert drawn.mean() == pytest.approx(0.25, abs=1e-4)
    assert [quarter.mean() for quarter in quarters] == pytest.approx([0.25] * 4, abs=0.02)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"either_side": True, "drawn_share": 1.0}, "must be from 0 to 0.9"),
        ({"drawn_share": 0.1}, "only with either_side"),
    ],
)
def test_a_share_of_drawn_starts_that_cannot_be_is_refused(numbers, says):
    with pytest.raises(ValueError, match=rf"starts.drawn_share.*{says}"):
        EndingStarts(**numbers)


def test_starts_read_from_a_file_are_kept_in_the_config(tmp_path):
    file = tmp_path / "starts.txt"
    file.write_text("8/8/8/8/8/1k6/8/K6Q b - - 0 1\n\n8/8/8/8/8/1k6/8/K6Q w - - 0 1\n")
    starts = FenStarts(fens=("8/8/8/8/8/2k5/8/K6Q w - - 0 1",), path=str(file)).read()
    assert starts.path is None
    assert len(starts.fens) == 3
    file.unlink()
    assert starts.pool(ChessGame(num_slots=40)).records.ply.shape == (3,)


def test_starts_with_more_moves_than_slots_are_refused_for_endings_too():
    with pytest.raises(ValueError, match=r"more than game\.num_slots = 5"):
        EndingStarts(longest=1).pool(ChessGame(num_slots=5))


@pytest.mark.parametrize("field", ["max_plies", "quiet_plies", "repetition", "memory"])
@pytest.mark.parametrize("value", [40_000, 0])
def test_options_of_chess_that_records_cannot_count_are_refused(field, value):
    with pytest.raises(ValueError, match=f"ChessGame.{field} is {value}, but must be a whole"):
        ChessGame(**{field: value})


@pytest.mark.parametrize("starts", [EndingStarts(materials=()), EndingStarts(longest=0)])
def test_an_empty_pool_is_refused(starts):
    with pytest.raises(ValueError, match="starts"):
        starts.pool(ChessGame(num_slots=40))


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"distances": ()}, "distances"),
        ({"distances": (2,)}, "odd numbers from 1 to 19"),
        ({"distances": (1, 3), "positions": 1}, "between 2 and"),
        ({"positions": 10**7}, "between 1 and 144508"),
        ({"material": "KBvK"}, "nobody wins"),
    ],
)
def test_a_suite_that_cannot_be_drawn_is_refused(numbers, says):
    with pytest.raises(ValueError, match=says):
        EndingSuite(**numbers)


def test_a_suite_of_chess_is_refused_for_another_game():
    with pytest.raises(ValueError, match="only for chess"):
        RunConfig(game=pgx_game("tic_tac_toe"), evaluation=(EndingSuite(),))


def test_a_fen_of_more_moves_than_slots_is_refused():
    with pytest.raises(ValueError, match="20 legal moves, more than num_slots = 5"):
        position_from_fen(
            "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", ChessGame(num_slots=5)
        )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"learning_rate": -1.0}, "knobs.learn.learning_rate"),
        ({"search_share": 2.0}, "knobs.learn.search_share"),
    ],
)
def test_knobs_of_learning_out_of_range_are_refused(changes, says):
    knobs = dataclasses.replace(TINY.knobs, learn=LearnKnobs(**changes))
    with pytest.raises(ValueError, match=says):
        dataclasses.replace(TINY, knobs=knobs)


def test_a_schedule_that_ends_before_it_is_warm_is_refused():
    with pytest.raises(ValueError, match=r"learn\.decay = 9"):
        LearnConfig(warmup=10, decay=9)


def test_a_knob_of_the_wrong_length_is_named():
    with pytest.raises(ValueError, match="c_init has shape"):
        per_game(SearchKnobs(c_init=jnp.ones(3)), 2)


def test_trees_too_small_for_the_simulations_are_refused():
    game, keys = subtraction(5, 3), jax.random.split(jax.random.key(0), 1)
    evaluate = uniform_evaluator(game)
    root = evaluate_node(game, evaluate, None, keys, jax.vmap(game.init)(keys))
    tree = root_tree(root, size=4)
    rule = lambda edges, knobs: edges.prior  # noqa: E731
    rest = {"growth": Growth(4), "root_rule": rule, "rule": rule, "knobs": SearchKnobs()}
    with pytest.raises(ValueError, match="4 simulations need trees of 5 nodes"):
        grow(game, evaluate, None, keys, tree, **rest)


@pytest.mark.parametrize("search", [Puct(4), Gumbel(4), NoSearch()], ids=["puct", "gumbel", "none"])
def test_a_finished_root_is_worth_its_result_and_has_no_policy(search):
    game, keys = subtraction(5, 3), jax.random.split(jax.random.key(0), 2)
    positions = Heap(stones=jnp.array([0, 5]), ply=jnp.array([1, 0]))
    decision = search(game, uniform_evaluator(game), None, keys, positions, SearchKnobs())
    assert float(decision.value[0]) == -1.0
    assert decision.wdl[0].tolist() == [0.0, 0.0, 1.0]
    assert float(decision.policy[0].sum()) == 0.0
    assert int(decision.visits[0].sum()) == 0
    assert float(decision.policy[1].sum()) == pytest.approx(1.0)


def test_a_run_that_was_never_saved_can_be_resumed(tmp_path):
    run = tmp_path / "run"
    train(TINY, run, console=quiet())
    with folder.checkpoints(run, TINY) as saved:
        assert saved.steps() == [1, 2]
    long = dataclasses.replace(TINY, checkpoint_every=100)
    train(dataclasses.replace(long, iterations=1), tmp_path / "stopped", console=quiet())
    with folder.checkpoints(tmp_path / "stopped", long) as saved:
        assert saved.steps() == [0, 1]


def test_a_run_does_not_shrink(tmp_path):
    train(TINY, tmp_path / "run", console=quiet())
    with pytest.raises(ValueError, match="has reached 2"):
        resume(tmp_path / "run", iterations=1, console=quiet())
    assert folder.run_config(tmp_path / "run").iterations == 2


def test_saving_and_measuring_may_change_in_a_run_that_goes_on(tmp_path):
    train(TINY, tmp_path / "run", console=quiet())
    folder.write_config(tmp_path / "run", dataclasses.replace(TINY, checkpoint_every=3))
    assert int(resume(tmp_path / "run", iterations=3, console=quiet()).iteration) == 3


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    run = tmp_path / "run"
    train(TINY, run, console=quiet())
    before = (run / "metrics.jsonl").read_bytes()
    with folder.locked(run), pytest.raises(ValueError, match="another process"):
        resume(run, iterations=4, console=quiet())
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_preset_with_its_own_game_can_be_resumed_by_another_process(tmp_path):
    preset = tmp_path / "own.py"
    preset.write_text(PRESET, encoding="utf-8")
    run = tmp_path / "run"
    train(load_config(preset), run, console=quiet())
    preset.unlink()
    program = f"""
import azchess
from azchess.runs.train import resume
run = {str(run)!r}
print(azchess.load(run).config.game.name, int(resume(run, iterations=2).iteration))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("mine 2")


def test_a_class_that_cannot_be_found_again_is_refused():
    @dataclasses.dataclass(frozen=True)
    class Local:
        number: int = 1

    with pytest.raises(ValueError, match="cannot be found again"):
        to_json(Local())


def test_an_error_in_a_preset_is_one_line(tmp_path):
    preset = tmp_path / "broken.py"
    preset.write_text("CONFIG = RunConfig()", encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken.py: NameError"):
        load_config(preset)

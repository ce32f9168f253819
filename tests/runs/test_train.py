"""Training writes what it promises, stops when it should, and can be taken up where it stopped."""

import dataclasses
import io
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from rich.console import Console

import azchess
from azchess.games.chess import ChessGame
from azchess.games.pgx_games import pgx_game
from azchess.games.toy import HashGame
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.losses import LearnKnobs
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs import folder
from azchess.runs import train as training
from azchess.runs.config import RunConfig
from azchess.runs.memory import available_bytes
from azchess.runs.train import Options, TrainingError, resume, train
from azchess.search.gumbel import Gumbel
from shared_data import ROOT

CONFIG = RunConfig(
    game=pgx_game("tic_tac_toe"),
    network=TransformerConfig(layers=1, width=8, heads=2, hidden=1, summary=1),
    search=Gumbel(simulations=2, considered=2),
    selfplay=SelfPlayConfig(games=4, plies=4),
    learn=LearnConfig(batch=8, updates=2, warmup=0, average=0.9),
    capacity=16,
    iterations=4,
    checkpoint_every=2,
)

PROMISED = {
    "selfplay/games",
    "selfplay/first_wins",
    "selfplay/draws",
    "selfplay/second_wins",
    "selfplay/cut_games",
    "selfplay/game_length",
    "selfplay/plies_per_second",
    "selfplay/simulations_per_second",
    "selfplay/avg_visit_entropy",
    "selfplay/effective_moves",
    "selfplay/differs_from_prior",
    "selfplay/slot_overflows",
    "learn/policy_loss",
    "learn/value_loss",
    "learn/moves_left_loss",
    "learn/gradient_norm",
    "learn/learning_rate",
    "learn/weight_norm",
    "replay/fill",
    "replay/sampleable",
    "time/iteration_seconds",
}


def quiet():
    """A console that writes to nowhere."""
    return Console(file=io.StringIO())


def rows(run_dir):
    """The rows of metrics, read as any program would: a line of JSON each."""
    lines = (run_dir / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def assert_same(one, other):
    """Every leaf equal, bit for bit."""
    for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def write_preset(path, config, name="preset.json"):
    """The configuration as a file that `azchess train` takes."""
    folder.write_config(path, config)
    return (path / "config.json").rename(path / name)


def started(program, *arguments):
    """Another Python process that runs a program, with this one's compilation cache."""
    cache = jax.config.jax_compilation_cache_dir
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A terminal's Ctrl-C goes to a group of processes; this one is sent its own signals.
        start_new_session=True,
    )


def wait_for(condition, process, seconds=240):
    """Waits until something has happened in another process."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "the other process takes too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run of four iterations without interruption: its folder and how it ended."""
    path = tmp_path_factory.mktemp("straight") / "run"
    console = quiet()
    run = train(CONFIG, path, console=console)
    return path, jax.device_get(run), console.file.getvalue()


def test_a_run_writes_its_config_its_metrics_and_its_checkpoints(straight):
    path, run, printed = straight
    assert folder.run_config(path) == CONFIG
    with folder.checkpoints(path, CONFIG) as saved:
        assert saved.steps() == [2, 4]
    table = rows(path)
    assert [row["iteration"] for row in table] == [1, 2, 3, 4]
    assert int(run.iteration) == 4
    assert "memory: about" in printed
    assert "compiled in" in printed
    assert "iteration 4/4" in printed


def test_each_row_holds_what_was_promised_and_it_adds_up(straight):
    table = rows(straight[0])
    assert [row.get("time/compile_seconds") is not None for row in table] == [True] + [False] * 3
    for index, row in enumerate(table):
        assert set(row) >= PROMISED
        assert all(math.isfinite(value) for value in row.values())
        results = row["selfplay/first_wins"], row["selfplay/draws"], row["selfplay/second_wins"]
        assert sum(results) == row["selfplay/games"]
        assert row["selfplay/effective_moves"] == pytest.approx(
            math.exp(row["selfplay/avg_visit_entropy"]), rel=1e-5
        )
        assert 0 <= row["selfplay/differs_from_prior"] <= 1
        rate = row["selfplay/plies_per_second"]
        assert rate * row["time/iteration_seconds"] == pytest.approx(4 * 4)
        assert row["selfplay/simulations_per_second"] == pytest.approx(2 * rate)
        assert row["replay/fill"] == min(1.0, (index + 1) / 4)
        assert row["learn/learning_rate"] == pytest.approx(1e-3)
        assert row["selfplay/slot_overflows"] == row["selfplay/cut_games"] == 0
    lengths = [row["selfplay/game_length"] for row in table if row["selfplay/games"]]
    assert lengths
    assert all(5 <= length <= 9 for length in lengths)


def test_the_network_of_a_run_can_be_loaded(straight):
    path, run, _ = straight
    loaded = azchess.load(path)
    assert loaded.config == CONFIG
    assert_same(loaded.network, run.learner.average)
    assert_same(folder.load(path, 2).network, azchess.load(str(path), step=2).network)
    with pytest.raises(ValueError, match=r"no step 3; it holds 2, 4"):
        azchess.load(path, step=3)
    with pytest.raises(ValueError, match="not the folder of a run"):
        azchess.load(path / "checkpoints")


def test_a_folder_that_holds_a_run_is_refused(straight):
    before = (straight[0] / "metrics.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"already holds a run.*azchess resume"):
        train(CONFIG, straight[0], console=quiet())
    assert (straight[0] / "metrics.jsonl").read_bytes() == before


KILLED = """
import pathlib, sys, time
from azchess.runs.config import load_config
from azchess.runs.train import train

class Asleep:
    def log(self, step, row):
        while step == 3:
            time.sleep(0.05)

    def close(self):
        pass

train(load_config(sys.argv[1]), sys.argv[2], sinks=(Asleep(),))
"""


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_as_if_it_had_not(straight, tmp_path):
    path, run, _ = straight
    process = started(KILLED, write_preset(tmp_path, CONFIG), tmp_path / "run")
    with folder.checkpoints(tmp_path / "run", CONFIG) as saved, process:
        metrics = tmp_path / "run" / "metrics.jsonl"

        def third_after_saving_second():
            return saved.latest() == 2 and metrics.exists() and len(rows(tmp_path / "run")) == 3

        wait_for(third_after_saving_second, process)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        assert saved.steps() == [0, 2]
    # What a crash in the middle of a line leaves behind.
    with metrics.open("a") as file:
        file.write('{"iteration": 4, "selfp')
    resumed = resume(tmp_path / "run", console=quiet())
    assert_same(resumed, run)
    timed = {"time/iteration_seconds", "time/compile_seconds"}
    timed |= {"selfplay/plies_per_second", "selfplay/simulations_per_second"}
    for one, other in zip(rows(tmp_path / "run"), rows(path), strict=True):
        one, other = ({k: v for k, v in row.items() if k not in timed} for row in (one, other))
        assert one == other


def test_a_run_can_be_made_longer_and_is_the_same_as_one_that_was_long_from_the_start(
    straight, tmp_path
):
    short = dataclasses.replace(CONFIG, iterations=2)
    train(short, tmp_path / "run", console=quiet())
    resumed = resume(tmp_path / "run", iterations=4, console=quiet())
    assert_same(resumed, straight[1])
    assert folder.run_config(tmp_path / "run").iterations == 4
    console = quiet()
    again = resume(tmp_path / "run", console=console)
    assert_same(again, straight[1])
    assert "already reached iteration 4" in console.file.getvalue()


def test_a_run_is_not_continued_with_another_config(straight, tmp_path):
    train(dataclasses.replace(CONFIG, iterations=2), tmp_path / "run", console=quiet())
    folder.write_config(tmp_path / "run", dataclasses.replace(CONFIG, seed=7))
    with pytest.raises(ValueError, match=r"config.seed: stored 0, expected 7"):
        resume(tmp_path / "run", console=quiet())
    with pytest.raises(ValueError, match="not the folder of a run"):
        resume(tmp_path, console=quiet())


ENDLESS = dataclasses.replace(CONFIG, iterations=10**6, checkpoint_every=10**6)


def interrupted(tmp_path):
    """`azchess train` on a run without end, as soon as it has written a row."""
    program = "import sys; from azchess.cli import main; main(sys.argv[1:])"
    preset = write_preset(tmp_path, ENDLESS)
    options = ["--run-dir", tmp_path / "run", "--no-evaluate"]
    process = started(program, "train", preset, *options)
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_text().count("\n") > 2, process)
    return process


@pytest.mark.slow
def test_control_c_saves_and_leaves_a_run_that_can_go_on(tmp_path):
    with interrupted(tmp_path) as process:
        os.kill(process.pid, signal.SIGINT)
        printed = process.communicate(timeout=60)[0]
    assert process.returncode == 0, printed
    assert "stopping after this iteration" in printed
    assert f"azchess resume {tmp_path / 'run'}" in printed
    last = rows(tmp_path / "run")[-1]["iteration"]
    with folder.checkpoints(tmp_path / "run", ENDLESS) as saved:
        assert saved.steps() == [0, last]
    resumed = resume(tmp_path / "run", iterations=last + 1, console=quiet())
    assert int(resumed.iteration) == last + 1


STUBBORN = """
import os, signal, sys, time
from azchess.runs import train as training
from azchess.runs.config import load_config

def slow(saved, config, run):
    if int(run.iteration) == 0:  # the start is saved before the loop
        return
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
    print("still here")

training.folder.save = slow
training.train(load_config(sys.argv[1]), sys.argv[2])
"""


@pytest.mark.slow
def test_a_second_control_c_exits_at_once(tmp_path):
    with started(STUBBORN, write_preset(tmp_path, CONFIG), tmp_path / "run") as process:
        printed = process.communicate(timeout=240)[0]
    assert process.returncode == 130, printed
    assert "Ctrl-C again exits at once" in printed
    assert "still here" not in printed
    assert len(rows(tmp_path / "run")) == 2


def test_interrupts_are_handed_back_after_training():
    before = signal.getsignal(signal.SIGINT)
    with training.Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize("rate", [1e30, float("inf")])
def test_weights_that_are_lost_stop_the_run_and_leave_a_good_checkpoint(rate, tmp_path):
    # Two iterations in which no game can be over, so that nothing is learned and all is well.
    config = dataclasses.replace(
        CONFIG,
        selfplay=SelfPlayConfig(games=4, plies=2),
        learn=dataclasses.replace(CONFIG.learn, optimiser="sgd"),
        knobs=Knobs(learn=LearnKnobs(learning_rate=rate)),
        checkpoint_every=1,
        iterations=10,
    )
    if math.isinf(rate):
        # The rate itself is a metric: it is seen in the first iteration.
        message, good = r"iteration 1: .*learn/learning_rate.* is not finite; .* is 0", [0]
    else:
        message, good = (
            r"iteration \d: .*learn/\w+.* is not finite; the last good checkpoint is \d",
            None,
        )
    with pytest.raises(TrainingError, match=message) as caught:
        train(config, tmp_path / "run", console=quiet())
    table = rows(tmp_path / "run")
    assert table[-1]["nonfinite"]
    with folder.checkpoints(tmp_path / "run", config) as saved:
        if good is not None:
            assert saved.steps() == good
            return
        assert saved.latest() == table[-1]["iteration"] - 1
        assert str(caught.value).endswith(f"checkpoint is {saved.latest()}")
    network = azchess.load(tmp_path / "run").network
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network))


def test_more_legal_moves_than_slots_stop_the_run(tmp_path):
    config = dataclasses.replace(CONFIG, game=HashGame(num_labels=8, num_slots=4, plies=4))
    with pytest.raises(TrainingError, match=r"iteration 1: \d+ positions had more legal moves"):
        train(config, tmp_path / "run", console=quiet())


def test_a_new_run_takes_the_weights_of_another_and_nothing_else(straight, tmp_path):
    path, run, _ = straight
    config = dataclasses.replace(CONFIG, iterations=1, checkpoint_every=1)
    from_run = dataclasses.replace(config, init_from=str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_train", lambda config, setup, run, *rest: run)
        warm = train(from_run, tmp_path / "run", console=quiet())
        fresh = train(config, tmp_path / "fresh", console=quiet())
    assert_same(warm.learner.network, run.learner.average)
    assert_same(warm.learner.average, run.learner.average)
    assert folder.run_config(tmp_path / "run").init_from == str(path)
    assert_same(folder.load_start(tmp_path / "run", from_run), run.learner.average)
    others = [
        dataclasses.replace(run, learner=dataclasses.replace(run.learner, network=0, average=0))
        for run in (warm, fresh)
    ]
    for a, b in zip(*map(jax.tree.leaves, others), strict=True):
        if not isinstance(a, int):
            assert_same(a, b)


@pytest.mark.parametrize(
    "changes",
    [
        {"network": dataclasses.replace(CONFIG.network, width=16)},
        {"network": dataclasses.replace(CONFIG.network, layers=2)},
        {"game": pgx_game("connect_four")},
    ],
    ids=["wider", "deeper", "another game"],
)
def test_weights_that_do_not_fit_are_refused(straight, tmp_path, changes):
    config = dataclasses.replace(CONFIG, init_from=str(straight[0]), **changes)
    with pytest.raises(ValueError, match=r"--init-from .*its network is .* but this run's is"):
        train(config, tmp_path / "run", console=quiet())
    assert not (tmp_path / "run").exists()


def test_a_run_larger_than_the_machine_is_refused_before_anything_is_made(tmp_path):
    config = RunConfig(
        game=ChessGame(),
        network=CONFIG.network,
        selfplay=SelfPlayConfig(games=2**22, plies=16),
        learn=LearnConfig(batch=8),
    )
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"too much; at most \d+ games fit") as caught:
        train(config, tmp_path / "run", console=quiet())
    assert time.monotonic() - began < 60
    assert not (tmp_path / "run").exists()
    fits = int(str(caught.value).split("at most ")[1].split()[0])
    assert 0 < fits < 2**22

    def check(games, devices=1):
        smaller = dataclasses.replace(config, selfplay=SelfPlayConfig(games=games, plies=16))
        network = folder.first_network(smaller)
        starts = smaller.starts.pool(smaller.game)
        shapes = jax.eval_shape(lambda: folder.first_run(smaller, network, starts))
        return training.check_memory(smaller, shapes, devices)

    assert "memory: about" in check(fits - 1)
    with pytest.raises(ValueError, match="too much"):
        check(fits + 2)
    # Four devices hold a quarter of the games each, and of the gradients.
    with pytest.raises(ValueError, match="too much") as caught:
        check(2**26, devices=4)
    assert 4 <= int(str(caught.value).split("at most ")[1].split()[0]) / fits < 4.1
    assert available_bytes() > 2**28


def test_a_batch_larger_than_the_machine_is_named(tmp_path):
    config = dataclasses.replace(CONFIG, learn=LearnConfig(batch=2**33))
    with pytest.raises(ValueError, match=r"not even one game fits.*learn.batch = 8589934592"):
        train(config, tmp_path / "run", console=quiet())


def test_devices_that_are_not_there_are_refused(tmp_path):
    have = jax.device_count()
    for number in (0, have + 1):
        with pytest.raises(ValueError, match=f"devices = {number}: there are {have}"):
            train(CONFIG, tmp_path / "run", Options(devices=number), console=quiet())


ON_FOUR = """
import sys
from azchess.runs.config import load_config
from azchess.runs.train import resume, train

train(load_config(sys.argv[1]), sys.argv[2])
resume(sys.argv[2], iterations=3)
"""


@pytest.mark.slow
def test_a_run_on_four_devices_trains_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    config = dataclasses.replace(CONFIG, iterations=2)
    with started(ON_FOUR, write_preset(tmp_path, config), tmp_path / "run") as process:
        printed = process.communicate(timeout=400)[0]
    assert process.returncode == 0, printed
    assert [row["iteration"] for row in rows(tmp_path / "run")] == [1, 2, 3]


def test_a_profile_of_the_third_iteration_is_written_when_asked_for(tmp_path):
    train(CONFIG, tmp_path / "run", Options(profile=True), console=quiet())
    assert any(pathlib.Path(tmp_path / "run" / "profile").rglob("*.xplane.pb"))

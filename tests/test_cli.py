"""The command line understands what it offers, and says in one line what it does not."""

import dataclasses
import json

import jax
import pytest

from azchess import cli
from azchess.games.pgx_games import pgx_game
from azchess.learning.iterate import Knobs
from azchess.learning.learner import LearnConfig
from azchess.learning.selfplay import SelfPlayConfig
from azchess.networks.transformer import TransformerConfig
from azchess.runs import folder
from azchess.runs import train as training
from azchess.runs.config import RunConfig, to_json
from azchess.runs.train import Options, TrainingError
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.presets import PRESETS
from azchess.search.puct import Puct

CONFIG = RunConfig(
    game=pgx_game("tic_tac_toe"),
    network=TransformerConfig(layers=1, width=8, heads=2, hidden=1, summary=1),
    search=Gumbel(simulations=2, considered=2),
    selfplay=SelfPlayConfig(games=4, plies=4),
    learn=LearnConfig(batch=8, updates=2),
    knobs=Knobs(search=SearchKnobs(discount=0.5)),
    capacity=16,
    iterations=2,
)


@pytest.fixture(autouse=True)
def no_other_cache(monkeypatch):
    """The cache of compiled functions stays where the tests have it."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(jax.config.jax_compilation_cache_dir))


@pytest.fixture
def preset(tmp_path):
    """A configuration as a file."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(to_json(CONFIG)), encoding="utf-8")
    return path


@pytest.fixture
def trained(monkeypatch):
    """What `azchess train` asks the library for, in the place of training."""
    calls = []

    def train(config, run_dir, options, **rest):
        calls.append((config, str(run_dir), options, rest))

    monkeypatch.setattr(training, "train", train)
    return calls


def said(words, capsys):
    """The exit status of a command line, and all that it printed or said on leaving."""
    with pytest.raises(SystemExit) as caught:
        cli.main([str(word) for word in words])
    code = caught.value.code
    printed = "".join(capsys.readouterr())
    return (1, printed + code) if isinstance(code, str) else (code, printed)


@pytest.mark.fast
@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_usage_names_every_command(words, capsys):
    cli.main(words)
    usage = capsys.readouterr().out
    for command in ("train", "resume", "eval", "report", "play", "presets", "bench"):
        assert f"  {command} " in usage


@pytest.mark.parametrize("command", ["resume", "eval", "report", "play", "presets"])
def test_every_command_has_help(command, capsys):
    code, printed = said([command, "--help"], capsys)
    assert code == 0
    assert f"azchess {command}" in printed


def test_help_of_train_lists_the_fields_of_a_config(preset, capsys):
    code, printed = said(["train", preset, "--help"], capsys)
    assert code == 0
    for option in ("--run-dir", "--selfplay.games", "--knobs.search.discount", "--iterations"):
        assert option in printed


@pytest.mark.parametrize(("words", "status"), [(["train"], 2), (["train", "--help"], 0)])
def test_train_without_a_config_shows_how(words, status, capsys):
    code, printed = said(words, capsys)
    assert code == status
    assert "azchess train CONFIG" in printed


def test_an_unknown_command_is_named_with_those_there_are(capsys):
    code, printed = said(["trian"], capsys)
    assert code == 1
    assert "no command 'trian'" in printed
    assert "resume RUN" in printed


@pytest.mark.fast
def test_nested_fields_and_knobs_are_replaced(preset, trained, tmp_path):
    words = [
        "train",
        str(preset),
        *("--run-dir", str(tmp_path / "run")),
        *("--selfplay.games", "12"),
        *("--search.simulations", "7"),
        *("--network.width", "16"),
        *("--knobs.search.discount", "0.75"),
        *("--knobs.learn.learning-rate", "0.5"),
        *("--learn.optimiser", "sgd"),
        *("--learn.average", "0.5"),
        *("--iterations", "9"),
        *("--seed", "3"),
        "--no-evaluate",
    ]
    cli.main(words)
    [(config, run_dir, options, _)] = trained
    assert run_dir == str(tmp_path / "run")
    assert options == Options()
    assert config.selfplay == SelfPlayConfig(games=12, plies=4)
    assert config.search == Gumbel(simulations=7, considered=2)
    assert config.network == dataclasses.replace(CONFIG.network, width=16)
    assert config.knobs.search == SearchKnobs(discount=0.75)
    assert config.knobs.learn.learning_rate == 0.5
    assert config.learn == LearnConfig(batch=8, updates=2, optimiser="sgd", average=0.5)
    assert (config.iterations, config.seed, config.capacity) == (9, 3, 16)
    assert config.game == CONFIG.game


def test_a_preset_is_trained_as_it_stands(preset, trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.main(["train", str(preset), "--no-evaluate"])
    assert trained[0][0] == CONFIG
    assert trained[0][1] == "runs/tiny"
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    cli.main(["train", str(preset), "--no-evaluate", "--devices", "1", "--init-from", "other"])
    assert trained[1][1] == "runs/tiny-2"
    assert trained[1][0] == dataclasses.replace(CONFIG, init_from="other")
    assert trained[1][2] == Options(devices=1)


def test_a_preset_takes_the_place_of_the_search_and_may_be_overridden(preset, trained, capsys):
    words = ["train", str(preset), "--no-evaluate", "--run-dir", "x"]
    cli.main([*words, "--preset", "nn_chess", "--knobs.search.fpu", "-1"])
    config = trained[0][0]
    assert config.search == Puct(simulations=2, ties="notation")
    assert config.knobs.search == SearchKnobs(c_init=1.5, c_factor=0.0, fpu=-1.0)
    assert dataclasses.replace(config, search=CONFIG.search, knobs=CONFIG.knobs) == CONFIG
    cli.main([*words, "--preset=gumbel_mctx", "--search.considered", "4"])
    assert trained[1][0].search == Gumbel(simulations=2, considered=4, rescale_values=True)
    code, printed = said([*words, "--preset", "alphago"], capsys)
    assert code == 1
    assert "preset = 'alphago': must be one of alphazero, " in printed


def test_presets_are_listed_and_printed(capsys):
    cli.main(["presets"])
    printed = capsys.readouterr().out
    assert all(f"{preset.name}\n" in printed for preset in PRESETS)
    cli.main(["presets", "nn_chess"])
    printed = capsys.readouterr().out
    assert "c_init 1.5" in printed
    assert "gumbel" not in printed


MISTAKES = {
    "no file": (["train", "nowhere.py"], "config nowhere.py: no such file"),
    "no config": (["train", "EMPTY"], "must define CONFIG"),
    "knob": (
        ["train", "PRESET", "--knobs.search.discount", "2"],
        "knobs.search.discount = 2.0: must be",
    ),
    "no run": (["resume", "nowhere"], "nowhere is not the folder of a run"),
    "nothing to measure": (["eval", "nowhere"], "nowhere is not the folder of a run"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_in_one_line(name, preset, capsys):
    words, message = MISTAKES[name]
    empty = preset.with_name("empty.py")
    empty.touch()
    files = {"EMPTY": str(empty), "PRESET": str(preset)}
    words = [files.get(word, word) for word in words]
    code, printed = said(words, capsys)
    assert code == 1
    assert len(printed.strip().splitlines()) == 1
    assert printed.startswith(f"azchess {words[0]}: ")
    assert message in printed


BAD_OPTIONS = {
    "no such field": (("--selfplay.lanes", "3"), "--selfplay.lanes"),
    "no number": (("--selfplay.games", "many"), "--selfplay.games"),
    "no number for a knob": (("--knobs.search.fpu", "low"), "--knobs.search.fpu"),
    "no such choice": (("--learn.optimiser", "lion"), "'adamw', 'sgd'"),
    "size out of range": (("--selfplay.games", "0"), "selfplay.games = 0: must be at least 1"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_an_option_that_does_not_exist_or_fit_is_named(name, preset, trained, capsys):
    words, message = BAD_OPTIONS[name]
    code, printed = said(["train", preset, *words], capsys)
    assert code == 2
    assert message in " ".join(printed.replace("│", " ").split())
    assert "Traceback" not in printed
    assert not trained


def test_a_run_that_fails_ends_in_one_line_and_its_trace_on_request(preset, capsys, monkeypatch):
    def fail(*arguments, **rest):
        raise TrainingError("iteration 3: learn/policy_loss is not finite")

    monkeypatch.setattr(training, "train", fail)
    code, printed = said(["train", preset, "--run-dir", "x"], capsys)
    assert code == 1
    assert printed.endswith("azchess train: iteration 3: learn/policy_loss is not finite")
    monkeypatch.setenv("AZCHESS_TRACEBACK", "1")
    with pytest.raises(TrainingError):
        cli.main(["train", str(preset), "--run-dir", "x"])


@pytest.mark.slow
def test_train_resume_and_report_work_from_the_command_line(preset, tmp_path, capsys):
    run = tmp_path / "run"
    cli.main(["train", str(preset), "--run-dir", str(run), "--iterations", "1"])
    assert (run / "report.html").exists()
    cli.main(["resume", str(run), "--iterations", "2"])
    assert folder.load(run, 2).config.iterations == 2
    cli.main(["report", str(run)])
    assert "iteration 2" in capsys.readouterr().out

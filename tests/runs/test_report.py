"""The report says what a run learned, whatever part of it is there, on one page of its own."""

import html.parser
import io
import json
import math

import jax
import numpy as np
import pytest
from rich.console import Console

from azchess.evaluation.suite import EndingSuite
from azchess.networks.transformer import TransformerConfig
from azchess.runs import folder
from azchess.runs.config import RunConfig, to_json
from azchess.runs.record import Recorder, write_json
from azchess.runs.report import learning_figure, report, save_figure, smooth
from azchess.runs.tables import (
    flatten,
    in_words,
    read_run,
    wilson,
)

SUITE = EndingSuite(distances=(1, 3), positions=100, max_plies=20)
CONFIG = RunConfig(network=TransformerConfig(layers=1, width=8), iterations=40, evaluation=(SUITE,))


def row(iteration):
    return {
        "selfplay/games": 10.0,
        "selfplay/first_wins": 6.0,
        "selfplay/draws": 3.0,
        "selfplay/second_wins": 1.0,
        "selfplay/cut_games": 2.0,
        "selfplay/game_length": 30.0 - iteration / 2,
        "learn/policy_loss": 3.0 / iteration,
        "learn/value_loss": 1.0 / iteration,
        "selfplay/plies_per_second": 1000.0 + iteration,
        "selfplay/simulations_per_second": 32_000.0,
        "time/iteration_seconds": 60.0,
        "replay/fill": 0.5,
    }


def write_run(path, rows, config=CONFIG):
    folder.write_config(path, config)
    with Recorder(path) as recorder:
        for iteration, metrics in enumerate(rows, start=1):
            recorder.log(iteration, metrics)
    return path


def write_evaluation(path, iteration, before, after):
    entry = {"suite": to_json(SUITE), "before": before, "after": after, "seconds": 1.0}
    write_json(path / folder.EVALUATION, {"iteration": iteration, "suites": [entry]})


def printed(path, width=100):
    """What the report prints, and the page that it writes."""
    console = Console(file=io.StringIO(), width=width)
    page = report(path, console)
    assert page == path / folder.REPORT
    return console.file.getvalue(), page.read_text(encoding="utf-8")


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed in order, and keeps the attributes and ids."""

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.attributes = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs


def test_a_run_in_training_is_summed_up_and_says_what_to_try_next(tmp_path):
    run = write_run(tmp_path / "first run", [row(1) | {"time/compile_seconds": 30.0}, row(2)])
    screen, page = printed(run)
    weights = sum(
        x.size for x in jax.tree.leaves(folder.network_arrays(folder.first_network(CONFIG)))
    )
    for words in (
        "chess",
        f"{weights:,} parameters",
        "2 of 40",
        "2,048",  # plies: 2 iterations of 64 games and 16 plies
        "20: first player wins 12, draws 6, second player wins 2, cut short 4",
        "2 min 30 s",
        "30.0 s",
        "1,002 plies/s, 32,000 simulations/s",
        "50.0 %",
        "Not evaluated yet",
    ):
        assert words in screen, words
        assert words in page, words
    for command in (
        f"azchess play '{run}'",
        f"azchess resume '{run}' --iterations 40",
        f"azchess eval '{run}'",
    ):
        assert command in screen
        assert command.replace("'", "&#x27;") in page
    assert page.rindex("azchess eval") > page.rindex("knobs.learn.learning_rate")


@pytest.mark.fast
def test_the_page_needs_nothing_but_itself_and_is_well_formed(tmp_path):
    run = write_run(tmp_path / "<b>&run", [row(i) for i in range(1, 41)])
    write_evaluation(run, 40, {"search/mated": 0.1}, {"search/mated": 0.9})
    _, page = printed(run)
    tags = Tags(page)
    names = [value for name, value in tags.attributes if name == "id"]
    assert len(names) == len(set(names))
    for name, value in tags.attributes:
        assert name not in ("src", "href", "onclick")
        if name == "xlink:href":
            assert value.removeprefix("#") in names
    assert "<script" not in page
    assert "@import" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;run" in page
    assert page.count("<svg") == 3
    assert not list(run.glob("*.tmp"))


def test_measures_are_told_in_words_with_their_intervals(tmp_path):
    run = write_run(tmp_path / "run", [row(1)])
    before = {"search/mated": 0.25, "search/mean_plies": math.nan, "value/calibration_error": 0.75}
    after = {"search/mated": 0.9, "search/mean_plies": 7.25, "value/calibration_error": 0.25}
    for values in (before, after):
        values |= {"search/mated_in_3": 1.0, "policy/mated": 0.5, "policy/new": 1.5}
    write_evaluation(run, 1, before, after)
    screen, page = printed(run, width=80)
    lines = [" ".join(line.split()) for line in screen.splitlines()]
    for line in (
        "With 32 simulations",
        "mates within 20 plies 25.0 % (17.5–34.3) 90.0 % (82.6–94.5) +65.0",
        "plies to mate, if it mates – 7.2 –",
        "mates from mate in 2 100.0 % (92.9–100.0) 100.0 % (92.9–100.0) +0.0",
        "Without search",
        "mates within 20 plies 50.0 % (40.4–59.6) 50.0 % (40.4–59.6) +0.0",
        "policy/new 1.500 1.500 +0.000",
        "expected result is off by 0.750 0.250 -0.500",
    ):
        assert line in lines, line
    assert "90.0 % (82.6–94.5)" in page
    assert "azchess eval" not in screen
    assert "Not evaluated" not in page


def test_a_run_that_went_on_is_to_be_measured_again(tmp_path):
    run = write_run(tmp_path / "run", [row(i) for i in range(1, 41)])
    write_evaluation(run, 20, {"search/mated": 0.1}, {"search/mated": None})
    screen, _ = printed(run)
    assert "azchess eval" in screen
    assert "--iterations 80" in screen


def test_a_run_without_endings_is_not_sent_to_be_measured(tmp_path):
    config = RunConfig(network=CONFIG.network)
    screen, _ = printed(write_run(tmp_path / "run", [row(1)], config))
    assert "azchess eval" not in screen
    assert "names no ending" in screen


@pytest.mark.parametrize(
    "rows",
    [
        [{}],
        [{"learn/value_loss": math.nan, "selfplay/games": 0.0, "selfplay/game_length": 0.0}] * 3,
        [{"selfplay/games": math.inf}, {"learn/policy_loss": 1.0}],
    ],
    ids=["no columns", "nothing finite", "columns with gaps"],
)
def test_a_report_is_made_of_whatever_there_is(tmp_path, rows):
    _, page = printed(write_run(tmp_path / "run", rows))
    Tags(page)
    assert "nan" not in page.lower()


def test_a_network_whose_code_is_missing_is_reported_without_its_size(tmp_path):
    run = write_run(tmp_path / "run", [row(1)])
    config = json.loads((run / folder.CONFIG).read_text())
    config["network"] = {"type": "my_lab.nets:Tower", "blocks": 5, "name": "<i>"}
    write_json(run / folder.CONFIG, config)
    screen, page = printed(run)
    assert "Tower: blocks 5, name <i>" in screen
    assert "parameters" not in screen
    assert "<i>" not in page


@pytest.mark.fast
def test_a_folder_without_a_run_or_metrics_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"not the folder of a run: it holds no config\.json"):
        report(tmp_path)
    folder.write_config(tmp_path, CONFIG)
    with pytest.raises(ValueError, match="no metrics yet"):
        report(tmp_path)
    with Recorder(tmp_path) as recorder:
        recorder.log(1, row(1))
    (tmp_path / folder.EVALUATION).write_text('{"iteration": 1,')
    with pytest.raises(ValueError, match=r"evaluation\.json: not JSON"):
        report(tmp_path)


def test_the_figure_is_saved_as_its_name_says(tmp_path):
    run = write_run(tmp_path / "run", [row(i) for i in range(1, 4)])
    save_figure(run, tmp_path / "learning.png")
    save_figure(run, tmp_path / "learning.svg")
    assert (tmp_path / "learning.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "learning.svg").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"\.svg, \.png or \.pdf"):
        save_figure(run, tmp_path / "learning.txt")


def test_the_figure_shows_shares_of_games_and_leaves_out_losses_before_learning(tmp_path):
    waiting = row(1) | {"learn/policy_loss": 0.0, "learn/value_loss": 0.0}
    run = write_run(tmp_path / "run", [waiting, row(2) | {"selfplay/games": 0.0}, row(3)])
    panels = {axes.get_title(loc="left"): axes for axes in learning_figure(run).axes}
    points = {
        name: np.asarray(axes.lines[0].get_ydata()) for name, axes in panels.items() if axes.lines
    }
    np.testing.assert_allclose(points["Policy loss"], [math.nan, 1.5, 1.0])
    np.testing.assert_allclose(points["Results of games"], [60.0, math.nan, 60.0])
    np.testing.assert_allclose(points["Length of games"], [29.5, math.nan, 28.5])
    assert panels["Length of games"].get_ylabel() == "plies"


def test_bars_show_mates_before_and_after(tmp_path):
    run = write_run(tmp_path / "run", [row(1)])
    write_evaluation(
        run,
        1,
        {"search/mated": 0.0, "policy/mated": math.nan},
        {"search/mated": 1.0, "policy/mated": 0.5},
    )
    bars = learning_figure(run).axes[-1]
    assert [bar.get_height() for bar in bars.patches][2:] == [100.0, 50.0]
    assert [label.get_text() for label in bars.get_xticklabels()] == [
        "KQvK\n32 sims",
        "KQvK\nno search",
    ]


@pytest.mark.fast
def test_wilson_intervals_are_those_of_the_literature():
    np.testing.assert_allclose(wilson(0.9, 100), (0.8256, 0.9448), atol=1e-4)
    np.testing.assert_allclose(wilson(0.0, 10), (0.0, 0.2775), atol=1e-4)
    np.testing.assert_allclose(wilson(1.0, 10), (0.7225, 1.0), atol=1e-4)


@pytest.mark.fast
def test_every_measure_of_the_suite_has_words():
    names = [
        *(f"{who}/{what}" for who in ("search", "policy") for what in ("mated", "mean_plies")),
        *(
            f"{who}/{what}"
            for who in ("search", "policy")
            for what in ("excess_plies", "mated_in_1")
        ),
        *(f"value/recall_{name}" for name in ("strong", "lost", "drawn")),
        *("value/balanced_accuracy", "value/sign_accuracy", "value/calibration_error"),
        *("value/plain_accuracy", "value/plain_accuracy_constant"),
        *("policy/optimal", "policy/optimal_share"),
    ]
    measures = [in_words(name, to_json(SUITE)) for name in names]
    assert not [measure for measure in measures if "/" in measure.label]
    assert max(len(measure.label) for measure in measures) <= 26  # fits 80 columns
    assert len({(measure.group, measure.label) for measure in measures}) == len(names)


@pytest.mark.fast
def test_smoothing_keeps_short_runs_and_constants_and_weighs_by_games():
    short = np.array([1.0, math.nan, 3.0])
    np.testing.assert_array_equal(smooth(short, np.ones(3)), short)
    constant = np.full(100, 2.0)
    constant[[0, 1, 50]] = math.nan
    expected = np.where(np.arange(100) < 2, math.nan, 2.0)
    np.testing.assert_allclose(smooth(constant, np.ones(100)), expected)
    values, weights = np.zeros(20), np.ones(20)
    values[10], weights[10] = 1.0, 2.0
    np.testing.assert_allclose(smooth(values, weights)[8:13], [0.0, 0.5, 0.5, 0.5, 0.0])


@pytest.mark.fast
def test_settings_have_the_names_of_the_command_line(tmp_path):
    settings = dict(flatten(read_run(write_run(tmp_path / "run", [row(1)])).config))
    assert settings["network"] == "TransformerConfig"
    assert settings["network.width"] == "8"
    assert settings["knobs.search.noise_alpha"] == "0.3"
    assert settings["evaluation.0.distances"] == "1, 3"
    assert settings["keep_every"] == "none"
    assert settings["starts"] == "StandardStart"
    assert dict(flatten({"fens": ["x"] * 30, "empty": []}))["fens"].endswith("(30 in all)")

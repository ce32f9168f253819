"""Metrics survive crashes, resumes and NaN, and reach the screen and the trackers."""

import io
import json
import math
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from azchess.runs.record import (
    LiveLine,
    Recorder,
    RecordError,
    TensorBoard,
    WeightsAndBiases,
    read_metrics,
    read_rows,
    write_json,
)

pytestmark = pytest.mark.fast


class ListSink:
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []
        self.closed = False

    def log(self, step, row):
        self.rows.append((step, dict(row)))

    def close(self):
        self.closed = True


def test_rows_are_on_disk_as_soon_as_they_are_logged(tmp_path):
    recorder = Recorder(tmp_path / "run")
    recorder.log(1, {"learn/loss": jnp.float32(0.5), "games": np.int32(7), "rate": 1e-3})
    recorder.log(2, {"learn/loss": jnp.bfloat16(0.25), "games": 8, "won": jnp.array(True)})
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"iteration": 1, "learn/loss": 0.5, "games": 7, "rate": 0.001},
        {"iteration": 2, "learn/loss": 0.25, "games": 8, "won": 1},
    ]
    recorder.close()


def test_columns_have_a_value_or_nan_for_every_row(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.log(1, {"loss": 0.5})
        recorder.log(2, {"loss": math.nan, "elo": 10.0})
    columns = read_metrics(tmp_path)
    assert columns.keys() == {"iteration", "loss", "elo"}
    assert columns["iteration"] == [1, 2]
    np.testing.assert_array_equal(columns["loss"], [0.5, math.nan])
    np.testing.assert_array_equal(columns["elo"], [math.nan, 10.0])
    assert read_metrics(tmp_path / "absent") == {}


def test_what_is_not_finite_is_null_and_named(tmp_path):
    with Recorder(tmp_path) as recorder:
        row = recorder.log(1, {"a": jnp.nan, "b": 1.0, "c": -jnp.inf})
    assert row == {"iteration": 1, "a": None, "b": 1.0, "c": None, "nonfinite": "a c"}
    strict = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=pytest.fail)
    assert strict == row


def test_a_resumed_run_continues_after_the_iteration_it_was_restored_from(tmp_path):
    with Recorder(tmp_path) as recorder:
        for iteration in range(1, 6):
            recorder.log(iteration, {"loss": 1 / iteration})
    with Recorder(tmp_path) as recorder:
        recorder.truncate_after(3)
        recorder.log(4, {"loss": -1.0})
    assert read_metrics(tmp_path) == {"iteration": [1, 2, 3, 4], "loss": [1, 1 / 2, 1 / 3, -1.0]}
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_a_line_cut_off_by_a_crash_is_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 1, "loss": 1.0}\n{"iteration": 2, "lo')
    assert read_rows(tmp_path) == [{"iteration": 1, "loss": 1.0}]
    with Recorder(tmp_path) as recorder:
        recorder.log(2, {"loss": 0.5})
    assert read_metrics(tmp_path) == {"iteration": [1, 2], "loss": [1.0, 0.5]}


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\n{"iter\n{"iteration": 3}\n')
    with pytest.raises(RecordError, match=r"metrics\.jsonl, line 2 is no row"):
        read_rows(tmp_path)


def test_an_iteration_is_logged_once_and_in_order(tmp_path):
    with Recorder(tmp_path) as recorder:
        recorder.log(2, {})
        with pytest.raises(RecordError, match="iteration 2 is not after 2"):
            recorder.log(2, {})


@pytest.mark.parametrize("value", [jnp.ones(3), "text", 1j])
def test_what_is_no_number_is_refused_by_name(tmp_path, value):
    with Recorder(tmp_path) as recorder, pytest.raises(RecordError, match="metric learn/loss is"):
        recorder.log(1, {"learn/loss": value})
    assert read_rows(tmp_path) == []


def test_sinks_get_the_finite_numbers(tmp_path):
    sink = ListSink()
    with Recorder(tmp_path, [sink]) as recorder:
        recorder.log(1, {"a": jnp.float32(2), "b": jnp.nan})
    assert sink.rows == [(1, {"iteration": 1, "a": 2.0})]
    assert sink.closed


def test_a_json_file_is_replaced_whole_or_left_as_it_was(tmp_path):
    path = tmp_path / "config.json"
    write_json(path, {"games": 1})
    with pytest.raises(TypeError):
        write_json(path, {"games": object()})
    assert json.loads(path.read_text()) == {"games": 1}
    write_json(path, {"games": 2})
    assert json.loads(path.read_text()) == {"games": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_tensorboard_gets_each_metric_as_a_scalar(tmp_path, monkeypatch):
    scalars = []

    class SummaryWriter:
        def __init__(self, folder):
            assert folder == str(tmp_path / "tensorboard")

        def add_scalar(self, *scalar):
            scalars.append(scalar)

        def close(self):
            scalars.append("closed")

    module = types.ModuleType("tensorboardX")
    module.__dict__["SummaryWriter"] = SummaryWriter
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    with Recorder(tmp_path, [TensorBoard(tmp_path)]) as recorder:
        recorder.log(3, {"learn/loss": 0.5})
    assert scalars == [("iteration", 3, 3), ("learn/loss", 0.5, 3), "closed"]


def test_weights_and_biases_gets_the_row_and_the_config(tmp_path, monkeypatch):
    calls = []
    run = types.SimpleNamespace(
        log=lambda row, step: calls.append((step, row)), finish=lambda: calls.append("finished")
    )

    def init(**arguments):
        calls.append(arguments)
        return run

    module = types.ModuleType("wandb")
    module.__dict__["init"] = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    sink = WeightsAndBiases(tmp_path, name="first", config={"games": 2})
    with Recorder(tmp_path, [sink]) as recorder:
        recorder.log(3, {"learn/loss": 0.5})
    assert calls == [
        {"dir": str(tmp_path), "project": "azchess", "name": "first", "config": {"games": 2}},
        (3, {"iteration": 3, "learn/loss": 0.5}),
        "finished",
    ]


@pytest.mark.parametrize(
    ("sink", "module", "extra"),
    [(TensorBoard, "tensorboardX", "tensorboard"), (WeightsAndBiases, "wandb", "wandb")],
)
def test_a_missing_tracker_is_named_with_its_extra(tmp_path, monkeypatch, sink, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{module} is not installed.*azchess\[{extra}\]"):
        sink(tmp_path)


def row(iteration: int, **more) -> dict:
    return {
        "iteration": iteration,
        "selfplay/games": 12_345,
        "selfplay/simulations_per_second": 9876.5,
        "learn/policy_loss": 1.23456,
        **more,
    }


def shown(total: int, steps, *, terminal: bool) -> str:
    """What is printed when iterations end at these times."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, color_system=None)
    now = 0.0
    line = LiveLine(total, console=console, clock=lambda: now)
    for iteration, time in steps:
        now = time
        line.update(row(iteration))
    line.stop()
    return out.getvalue()


def test_without_a_terminal_a_plain_line_comes_every_few_seconds_and_at_the_end():
    text = shown(5, [(1, 100.0), (2, 102.0), (3, 104.0), (4, 106.0), (5, 108.0)], terminal=False)
    numbers = "  games 12,345  sims/s 9,876  policy 1.235\n"
    assert text == (
        f"iteration 1/5  -:-- left{numbers}"
        f"iteration 4/5  0:02 left{numbers}"
        f"iteration 5/5  0:00 left{numbers}"
    )


def test_on_a_terminal_the_line_is_renewed_in_place():
    text = shown(10_000, [(1, 0.0), (2, 1.0), (3, 2.0)], terminal=True)
    assert all(f"iteration {i}/10000" in text for i in (1, 2, 3))
    assert "2:46:37 left" in text
    assert text.count("\n") == 1


def test_a_loss_that_is_not_finite_is_shown_as_such():
    out = io.StringIO()
    line = LiveLine(3, console=Console(file=out, width=200))
    line.update(row(1, **{"learn/policy_loss": None}))
    assert "policy not finite" in out.getvalue()

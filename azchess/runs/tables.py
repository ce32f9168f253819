"""What a run did and learned, in tables of plain words."""

import dataclasses
import json
import math
import pathlib
import shlex
from typing import Any, NamedTuple

import jax
import numpy as np

from azchess.runs import folder
from azchess.runs.record import read_metrics

DASH = "–"

RESULTS = {
    "first_wins": "first player wins",
    "draws": "draws",
    "second_wins": "second player wins",
    "cut_games": "cut short",
}
"""How games end; a cut game also counts as one of the first three."""


class Table(NamedTuple):
    """A table in words, for the screen and for the page; a row of one cell heads those below."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Measure(NamedTuple):
    """What a number of the evaluation says, in plain words."""

    group: str
    label: str
    unit: str
    games: int | None = None
    """Games in which a share was counted; None where it is no share of games."""


@dataclasses.dataclass(frozen=True)
class RunData:
    """What a run has written: its configuration and evaluation as JSON, its metrics as columns."""

    path: pathlib.Path
    config: dict[str, Any]
    metrics: dict[str, np.ndarray]
    evaluation: dict[str, Any] | None

    def column(self, name: str) -> np.ndarray:
        """A metric of each iteration; all NaN where it was not recorded."""
        return self.metrics.get(name, np.full(len(self.metrics["iteration"]), np.nan))

    @property
    def reached(self) -> int:
        """The last iteration that was recorded."""
        return int(self.metrics["iteration"][-1])


def read_run(run_dir: str | pathlib.Path) -> RunData:
    """Reads a run's files. Raises ValueError where there is no run, or nothing to report yet."""
    path = pathlib.Path(run_dir)
    if not (path / folder.CONFIG).is_file():
        raise ValueError(f"{run_dir} is not the folder of a run: it holds no {folder.CONFIG}")
    metrics = {name: np.asarray(x, float) for name, x in read_metrics(path).items()}
    if not metrics:
        raise ValueError(f"{run_dir} has no metrics yet: its first iteration has not ended")
    evaluation = path / folder.EVALUATION
    return RunData(
        path=path,
        config=_read_json(path / folder.CONFIG),
        metrics=metrics,
        evaluation=_read_json(evaluation) if evaluation.is_file() else None,
    )


def suites(run: RunData) -> list[dict[str, Any]]:
    """The evaluated endings; none before `azchess eval`."""
    return [] if run.evaluation is None else run.evaluation["suites"]


def summary(run: RunData) -> Table:
    """What was trained, for how long and how fast."""
    config, play = run.config, run.config["selfplay"]
    played = len(run.metrics["iteration"])
    game = class_name(config["game"]).removesuffix("Game").lower()
    sizes = ", ".join(f"{k} {v}" for k, v in config["network"].items() if k != "type")
    weights = parameters(run.path)
    if weights is not None:
        sizes += f"; {weights:,} parameters"
    wall = np.nansum([run.column("time/iteration_seconds"), run.column("time/compile_seconds")])
    count = {name: np.nansum(run.column(f"selfplay/{name}")) for name in ("games", *RESULTS)}
    results = ", ".join(f"{label} {count[name]:,.0f}" for name, label in RESULTS.items())
    plies = _median(run, "selfplay/plies_per_second", "{:,.0f} plies/s")
    simulations = _median(run, "selfplay/simulations_per_second", "{:,.0f} simulations/s")
    rows = [
        ("Game", config["game"].get("name", game)),
        ("Network", f"{class_name(config['network'])}: {sizes}"),
        (
            "Search",
            f"{class_name(config['search'])}, {config['search']['simulations']} simulations",
        ),
        ("Iterations", f"{run.reached:,} of {config['iterations']:,}"),
        ("Self-play", f"{play['games']} games in lockstep, {play['plies']} plies per iteration"),
        ("Plies", f"{played * play['games'] * play['plies']:,}"),
        ("Games", f"{count['games']:,.0f}: {results}"),
        ("Wall time", duration(float(wall))),
        ("Compilation", _median(run, "time/compile_seconds", "{:,.1f} s")),
        ("Speed", f"{plies}, {simulations} (medians)"),
        ("Replay filled", number(run.column("replay/fill")[-1], "share")),
    ]
    if config.get("init_from"):
        rows.insert(2, ("Weights from", config["init_from"]))
    return Table(f"Run {run.path.resolve().name}", ("", ""), rows)


def parameters(path: pathlib.Path) -> int | None:
    """How many numbers the network learns, counted from its shapes; None where it is not known."""
    try:
        config = folder.run_config(path)
    except ValueError:  # a network whose code is not here, or an older configuration
        return None
    network = jax.eval_shape(lambda: folder.network_arrays(folder.first_network(config)))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(network))


def strength(entry: dict[str, Any]) -> Table:
    """What the network knows of an ending, before and after training, a row per measure."""
    suite, before, after = entry["suite"], entry["before"], entry["after"]
    groups: dict[str, list[tuple[str, ...]]] = {}
    for name in dict.fromkeys([*after, *before]):
        group, label, unit, games = in_words(name, suite)
        old, new = (real(values.get(name)) for values in (before, after))
        cells = (with_interval(old, unit, games), with_interval(new, unit, games))
        row = (f"  {label}", *cells, number(new - old, unit, signed=True))
        groups.setdefault(group, []).append(row)
    rows = [row for group, inner in groups.items() for row in [(group,), *inner]]
    title = f"{suite['material']}: {suite['positions']:,} won positions against a perfect defender"
    return Table(title, ("", "before", "after", "change"), rows)


def in_words(name: str, suite: dict[str, Any]) -> Measure:
    """A measure of `azchess.evaluation.suite.measure` in words; an unknown one by its name."""
    piece = {"Q": "queen", "R": "rook"}.get(suite["material"][1], "piece")
    who, _, what = name.partition("/")
    groups = {
        "search": f"With {suite['search']['simulations']} simulations",
        "policy": "Without search",
        "value": "Judging without search",
    }
    group = groups.get(who, "Other")
    if what.startswith("mated_in_"):
        plies = int(what.removeprefix("mated_in_"))
        games = max(1, suite["positions"] // len(suite["distances"] or [plies]))
        return Measure(group, f"mates from mate in {(plies + 1) // 2}", "share", games)
    if what == "mated":
        label = f"mates within {suite['max_plies']} plies"
        return Measure(group, label, "share", suite["positions"])
    words = {
        "mean_plies": ("plies to mate, if it mates", "plies"),
        "excess_plies": ("plies above the shortest", "plies"),
        "optimal": ("first choice mates soonest", "share"),
        "optimal_share": ("weight on soonest mates", "share"),
        "balanced_accuracy": ("tells win, draw and loss", "share"),
        "recall_strong": (f"sees wins (with {piece})", "share"),
        "recall_lost": ("sees losses (bare king)", "share"),
        "recall_drawn": ("sees draws (bare king)", "share"),
        "sign_accuracy": ("knows who is winning", "share"),
        "calibration_error": ("expected result is off by", "result"),
        "plain_accuracy": ("right, over all positions", "share"),
        "plain_accuracy_constant": (f'if always "{piece} wins"', "share"),
    }
    return Measure(group, *words.get(what, (name, "result")))


def wilson(share: float, games: int) -> tuple[float, float]:
    """The 95 % interval of a share counted in so many games (Wilson 1927)."""
    z = 1.959964
    centre = share + z * z / (2 * games)
    half = z * math.sqrt(share * (1 - share) / games + z * z / (4 * games * games))
    scale = 1 + z * z / games
    return max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)


def with_interval(value: float, unit: str, games: int | None) -> str:
    """A number, and the interval in which the true share lies where it was counted in games."""
    if games is None or math.isnan(value):
        return number(value, unit)
    low, high = wilson(value, games)
    return f"{number(value, unit)} ({100 * low:.1f}–{100 * high:.1f})"


def number(value: float, unit: str, *, signed: bool = False) -> str:
    """A share in per cent, its change in per cent points; a dash for what is not known."""
    if not math.isfinite(value):
        return DASH
    sign = "+" if signed else ""
    if unit == "share":
        return f"{100 * value:{sign}.1f}{'' if signed else ' %'}"
    return f"{value:{sign}.1f}" if unit == "plies" else f"{value:{sign}.3f}"


def duration(seconds: float) -> str:
    """Seconds in the units of a clock."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def commands(run: RunData) -> list[tuple[str, str]]:
    """Two or three commands to try next, and what each does."""
    place = shlex.quote(str(run.path))
    planned = run.config["iterations"]
    more = planned if run.reached < planned else 2 * run.reached
    tried = [
        (f"azchess play {place}", "play against it"),
        (f"azchess resume {place} --iterations {more}", f"train on from iteration {run.reached}"),
    ]
    known = -1 if run.evaluation is None else run.evaluation["iteration"]
    if run.config["evaluation"] and known < run.reached:
        tried.append((f"azchess eval {place}", "measure it before and after training"))
    return tried


def not_evaluated(run: RunData) -> str:
    """Says how to get the numbers that are missing."""
    if not run.config["evaluation"]:
        return "Nothing to evaluate: the configuration names no ending in `evaluation`."
    return f"Not evaluated yet: `azchess eval {shlex.quote(str(run.path))}` measures its play."


def flatten(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Every setting of a configuration, by the name that it has on the command line."""
    if isinstance(value, dict):
        inner = [(f"{name}.{key}".strip("."), item) for key, item in value.items() if key != "type"]
        kind = [(name, class_name(value))] if name else []
        return kind + [row for key, item in inner for row in flatten(item, key)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [row for i, item in enumerate(value) for row in flatten(item, f"{name}.{i}")]
    if isinstance(value, list):
        more = f", ... ({len(value)} in all)" if len(value) > 20 else ""
        return [(name, ", ".join(map(str, value[:20])) + more or "none")]
    return [(name, "none" if value is None else str(value))]


def _median(run: RunData, name: str, form: str) -> str:
    values = run.column(name)
    known = values[np.isfinite(values)]
    return form.format(np.median(known)) if len(known) else DASH


def class_name(value: dict[str, Any]) -> str:
    """The name of the class that an object of config.json was."""
    return value["type"].rpartition(":")[2]


def real(value: Any) -> float:
    """A number of the evaluation, NaN where it has none."""
    return math.nan if value is None else float(value)


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not JSON ({error})") from error

"""The report of a run: what it learned, in tables and curves on the screen and on one page."""

import io
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from azchess.runs import folder
from azchess.runs.page import INK, page
from azchess.runs.tables import (
    RESULTS,
    RunData,
    Table,
    commands,
    in_words,
    not_evaluated,
    read_run,
    real,
    strength,
    suites,
    summary,
    wilson,
)

BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#9aa0a6"
"""Colours that the colour-blind tell apart (Okabe and Ito 2008)."""


SMOOTHED = 20
"""Iterations from which curves are smoothed; twice their share of the run is the width."""


LOOKS = ((BLUE, "-"), (ORANGE, "-"), (GREEN, "-"), (PURPLE, "--"))
"""Colour and stroke of each of RESULTS."""


class Line(NamedTuple):
    """A metric of each iteration, NaN where there is none; `weights` count in its mean."""

    label: str
    values: np.ndarray
    weights: np.ndarray
    colour: str = BLUE
    style: str = "-"


class Panel(NamedTuple):
    """One of several small figures side by side."""

    title: str
    unit: str
    lines: list[Line]


def report(run_dir: str | pathlib.Path, console: Console | None = None) -> pathlib.Path:
    """Prints what a run learned and writes it, with curves, as one page; returns the page's path.

    Works at any time: while the run trains, and before it is evaluated. Raises ValueError where
    the folder is not a run's, or where there are no metrics yet.
    """
    run = read_run(run_dir)
    console = console or Console()
    tables = [summary(run), *(strength(entry) for entry in suites(run))]
    for table in tables:
        console.print(rich_table(table))
        console.print()
    if run.evaluation is None:
        console.print(Text(not_evaluated(run)), soft_wrap=True)
    path = run.path / folder.REPORT
    _replace(path, page(run, tables, figures(run)).encode("utf-8"))
    console.print(Text(f"Curves and all settings: {path}"), soft_wrap=True, highlight=False)
    console.print(Text("Try next", style="bold"))
    for command, purpose in commands(run):
        console.print(Text(f"  {command}  # {purpose}"), soft_wrap=True, highlight=False)
    return path


def figures(run: RunData) -> list[tuple[str, str, str]]:
    """The figures of the page: a title, an SVG and a caption each."""
    drawn = [
        ("Learning", _learning(run), "Points: single iterations. Lines: mean of their neighbours."),
        ("Search and speed", _searching(run), "How search spreads its visits, and how fast."),
        ("Mates by distance", _by_distance(run), "Whiskers: 95 % intervals."),
    ]
    return [
        (title, _svg(figure), caption) for title, figure, caption in drawn if figure is not None
    ]


def learning_figure(run_dir: str | pathlib.Path) -> Figure:
    """The run in six small figures: losses, games, and how often it mates before and after."""
    return _learning(read_run(run_dir))


def save_figure(run_dir: str | pathlib.Path, path: str | pathlib.Path) -> None:
    """Writes `learning_figure` to a file, on white: its name ends in .svg, .png or .pdf."""
    path = pathlib.Path(path)
    kind, picture = path.suffix.removeprefix("."), io.BytesIO()
    if kind not in ("pdf", "png", "svg"):
        raise ValueError(f"{path}: a figure is written as .svg, .png or .pdf")
    metadata = {"Date": None} if kind == "svg" else None
    figure = learning_figure(run_dir)
    figure.savefig(picture, format=kind, dpi=160, facecolor="white", metadata=metadata)
    _replace(path, picture.getvalue())


def _learning(run: RunData) -> Figure:
    games = run.column("selfplay/games")
    counted = np.where(np.isfinite(games), games, 0)
    ended = np.where(counted > 0, counted, np.nan)
    results = [
        Line(label, 100 * run.column(f"selfplay/{name}") / ended, counted, *look)
        for (name, label), look in zip(RESULTS.items(), LOOKS, strict=True)
    ]
    length = run.column("selfplay/game_length") + 0 * ended
    panels = [
        metric_panel(run, "Policy loss", "nats", "learn/policy_loss"),
        metric_panel(run, "Value loss", "nats", "learn/value_loss"),
        metric_panel(run, "Moves-left loss", "Huber, tens of plies", "learn/moves_left_loss"),
        Panel("Length of games", "plies", [Line("", length, counted)]),
        Panel("Results of games", "% of games", results),
    ]
    if not suites(run):
        panels.append(metric_panel(run, "Network agrees with search", "%", "learn/policy_accuracy"))
    figure, axes = grid(6)
    for place, panel in zip(axes, panels, strict=False):
        draw_lines(place, run.metrics["iteration"], panel)
    if suites(run):
        draw_bars(axes[-1], "Mates a perfect defender", mate_bars(run))
    return figure


def _searching(run: RunData) -> Figure:
    panels = [
        metric_panel(run, "Visit entropy", "nats", "selfplay/avg_visit_entropy"),
        metric_panel(run, "Effective moves", "moves", "selfplay/effective_moves"),
        metric_panel(run, "Moves unlike the prior's first", "%", "selfplay/differs_from_prior"),
        metric_panel(run, "Depth of search", "plies", "selfplay/search_depth"),
        metric_panel(run, "Speed of play", "plies/s", "selfplay/plies_per_second"),
        metric_panel(run, "Speed of search", "simulations/s", "selfplay/simulations_per_second"),
    ]
    figure, axes = grid(6)
    for place, panel in zip(axes, panels, strict=True):
        draw_lines(place, run.metrics["iteration"], panel)
    return figure


def _by_distance(run: RunData) -> Figure | None:
    """Mates by distance to mate, with and without search; None where no suite asks for it."""
    chosen = [entry for entry in suites(run) if entry["suite"]["distances"]]
    if not chosen:
        return None
    figure, axes = grid(2 * len(chosen), columns=2)
    for index, entry in enumerate(chosen):
        suite = entry["suite"]
        for place, who in zip(axes[2 * index :], ("search", "policy"), strict=False):
            bars = [
                (f"in {(plies + 1) // 2}", f"{who}/mated_in_{plies}", entry)
                for plies in suite["distances"]
            ]
            draw_bars(place, f"{suite['material']}: mates, {search_words(who, suite)}", bars)
            place.set_xlabel("shortest mate, moves", color=INK, fontsize=9)
    return figure


def search_words(who: str, suite: dict[str, Any]) -> str:
    """Whether a measure was taken with search, and how much of it, for the figures."""
    return f"{suite['search']['simulations']} sims" if who == "search" else "no search"


def metric_panel(run: RunData, title: str, unit: str, name: str) -> Panel:
    """A panel of one metric; shares are shown in per cent."""
    values = run.column(name) * (100 if unit.startswith("%") else 1)
    if name.startswith("learn/"):
        # Until the replay is filled nothing is learned, and every loss is recorded as zero.
        values = np.where(run.column("learn/value_loss") == 0, np.nan, values)
    return Panel(title, unit, [Line("", values, np.ones(len(values)))])


def mate_bars(run: RunData) -> list[tuple[str, str, dict[str, Any]]]:
    """A label, a measure and an evaluated ending for each pair of bars."""
    return [
        (f"{suite['material']}\n{search_words(who, suite)}", f"{who}/mated", entry)
        for entry in suites(run)
        for suite in [entry["suite"]]
        for who in ("search", "policy")
    ]


def grid(panels: int, columns: int = 3) -> tuple[Figure, list[Axes]]:
    """An empty figure of so many small ones."""
    rows = -(-panels // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)
    figure = Figure(figsize=(10.5, 2.75 * rows), layout=layout)
    axes = list(np.ravel(figure.subplots(rows, columns)))
    for place in axes:
        place.set_facecolor("none")
        place.spines[["top", "right"]].set_visible(False)
        place.spines[["left", "bottom"]].set(color=INK, alpha=0.5)
        place.tick_params(colors=INK, labelsize=8.5, width=0.6)
        place.grid(axis="y", color=INK, alpha=0.12, linewidth=0.8)
        place.set_axisbelow(True)
    return figure, axes


def head(axes: Axes, title: str, unit: str) -> None:
    """A panel's title, and what its height measures."""
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=INK)
    axes.set_ylabel(unit, fontsize=9, color=INK)


def draw_lines(axes: Axes, iterations: np.ndarray, panel: Panel) -> None:
    """Smoothed curves against the iteration, the values themselves as faint points."""
    head(axes, panel.title, panel.unit)
    axes.set_xlabel("iteration", fontsize=9, color=INK)
    known = [line for line in panel.lines if np.isfinite(line.values).any()]
    if not known:
        axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", color=GREY)
        axes.set(xticks=[], yticks=[])
        return
    few = len(iterations) < SMOOTHED
    for line in known:
        points = {"alpha": 1.0 if few else 0.3, "markersize": 7 if few else 3.5}
        axes.plot(iterations, line.values, ".", color=line.colour, **points)
        style = {"linestyle": line.style, "linewidth": 1.8, "label": line.label}
        axes.plot(iterations, smooth(line.values, line.weights), color=line.colour, **style)
    if panel.unit.startswith("%"):
        axes.set_ylim(-3, 103 if len(panel.lines) == 1 else 150)
        axes.set_yticks(range(0, 101, 25))
    room = max(0.5, 0.04 * (iterations[-1] - iterations[0]))
    axes.set_xlim(iterations[0] - room, iterations[-1] + room)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.5g}"))
    if len(panel.lines) > 1:
        legend(axes)


def draw_bars(axes: Axes, title: str, bars: list[tuple[str, str, dict[str, Any]]]) -> None:
    """Shares before and after training side by side, with their 95 % intervals."""
    head(axes, title, "% of positions")
    for shift, when, colour in ((-0.2, "before", GREY), (0.2, "after", BLUE)):
        values = np.array([real(entry[when].get(name)) for _, name, entry in bars])
        games = [in_words(name, entry["suite"]).games or 1 for _, name, entry in bars]
        low, high = np.array([_interval(v, n) for v, n in zip(values, games, strict=True)]).T
        places = np.arange(len(bars)) + shift
        axes.bar(places, 100 * values, 0.36, color=colour, label=f"{when} training")
        reach = 100 * np.maximum(0, [values - low, high - values])
        axes.errorbar(places, 100 * values, reach, fmt="none", ecolor=INK, elinewidth=1)
        for place, value, top in zip(places, values, high, strict=True):
            if math.isfinite(value):
                label = f"{100 * value:.0f}"
                axes.text(place, 100 * top + 2, label, ha="center", fontsize=8.5, color=INK)
    axes.set_xticks(range(len(bars)), [label for label, _, _ in bars])
    axes.set_ylim(0, 135)
    axes.set_yticks(range(0, 101, 25))
    legend(axes)


def legend(axes: Axes) -> None:
    """A legend in the room that is left above 100 %."""
    style = {"fontsize": 8, "labelcolor": INK, "frameon": False, "handlelength": 1.4}
    axes.legend(ncols=2, loc="upper left", columnspacing=1.0, borderaxespad=0.2, **style)


def smooth(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A centred moving mean over about a tenth of the run, from the first to the last value."""
    half = len(values) // SMOOTHED
    known = np.isfinite(values)
    weight = np.where(known, weights, 0.0)
    total, count = (
        np.convolve(np.pad(x, half), np.ones(2 * half + 1), mode="valid")
        for x in (np.where(known, values, 0.0) * weight, weight)
    )
    spanned = np.logical_or.accumulate(known) & np.logical_or.accumulate(known[::-1])[::-1]
    return np.where(spanned & (count > 0), total / np.where(count > 0, count, 1.0), np.nan)


def rich_table(table: Table) -> RichTable:
    """A table for the screen."""
    shown = RichTable(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=any(table.head),
        pad_edge=False,
        show_edge=False,
        collapse_padding=True,
    )
    for index, name in enumerate(table.head):
        shown.add_column(Text(name), justify="left" if index == 0 or not name else "right")
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row), style=None if len(row) > 1 else "italic")
    return shown


def _interval(share: float, games: int) -> tuple[float, float]:
    return wilson(share, games) if math.isfinite(share) else (math.nan, math.nan)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return buffer.getvalue()


def _replace(path: pathlib.Path, data: bytes) -> None:
    """Writes beside, then renames, so that nobody ever reads half a file."""
    beside = path.with_name(path.name + ".tmp")
    beside.write_bytes(data)
    beside.replace(path)

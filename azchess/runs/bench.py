"""Speed on this machine: rules, search, memory, training and compilation."""

import functools
import time
from typing import Any, Literal, TypeAlias

import jax
from rich.console import Console
from rich.table import Table

from azchess.games.chess import ChessGame
from azchess.games.game import Position
from azchess.learning.iterate import Knobs, Setup, iterate, new_run
from azchess.learning.learner import LearnConfig
from azchess.learning.selfplay import SelfPlayConfig, Starts
from azchess.networks.evaluator import uniform_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.runs.bench_rules import advance, bench_rules, random_play
from azchess.runs.bench_search import bench_search
from azchess.runs.bench_selfplay import GAMES, SIMULATIONS, bench_selfplay
from azchess.runs.memory import node_bytes, size_of
from azchess.runs.timing import compile_anew, seconds
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct

What: TypeAlias = Literal["overview", "chess", "search", "selfplay"]


def bench(what: What = "overview", console: Console | None = None) -> None:
    """Measures and prints; both sides of a comparison run in turn in this process.

    `overview`: one figure of each room. `chess`: the rules beside those of other libraries.
    `search`: search beside mctx's. `selfplay`: self-play beside pgx's way of doing it.
    """
    console = console or Console()
    console.print(f"device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
    measures = {
        "overview": bench_overview,
        "chess": bench_rules,
        "search": bench_search,
        "selfplay": bench_selfplay,
    }
    console.print(measures[what]())


def bench_overview() -> Table:
    """Rules, search, memory, training and compilation for chess from the standard start."""
    table = Table("chess", "", title="azchess bench")
    game = ChessGame()
    for batch in (16, 1024):
        rate = batch / seconds(functools.partial(advance, game), *random_play(game, batch))
        table.add_row(f"positions/s: move, legal moves, status (batch {batch:,})", f"{rate:,.0f}")
    for search in (Puct(simulations=SIMULATIONS), Gumbel(simulations=SIMULATIONS)):
        positions, _ = random_play(game, GAMES)
        keys = jax.random.split(jax.random.key(0), GAMES)
        rate = (
            GAMES
            * SIMULATIONS
            / seconds(functools.partial(search_once, game, search), keys, positions)
        )
        name = f"simulations/s: {type(search).__name__}, no network"
        table.add_row(f"{name} ({GAMES} games x {SIMULATIONS})", f"{rate:,.0f}")
    position = size_of(jax.eval_shape(game.init, jax.random.key(0)))
    edges = node_bytes(game, Puct()) - position
    table.add_row("bytes per tree node (position + edges)", f"{position} + {edges:,}")
    compile_seconds, rate = train_speed(game)
    table.add_row("training samples/s: 2 layers of width 64, batch 256", f"{rate:,.0f}")
    table.add_row("compile seconds of a whole iteration", f"{compile_seconds:.1f}")
    return table


@functools.partial(jax.jit, static_argnums=(0, 1))
def search_once(game: ChessGame, search: TreeSearch, keys: Any, positions: Position) -> Any:
    """One search of each game without a network."""
    return search(game, uniform_evaluator(game), None, keys, positions, SearchKnobs())


def train_speed(game: ChessGame) -> tuple[float, float]:
    """Seconds to compile an iteration with XLA's cache off, and samples learned per second."""
    setup = Setup(
        game=game,
        search=Gumbel(simulations=2, considered=2),
        selfplay=SelfPlayConfig(games=8, plies=2),
        learn=LearnConfig(batch=256, updates=8),
        capacity=16,
    )
    network = TransformerConfig(layers=2, width=64).init(game, jax.random.key(0))
    run = new_run(setup, network, Starts(), jax.random.key(1))
    compile_seconds, compiled = compile_anew(iterate, setup, run, Knobs(), Starts())
    times = []
    for _ in range(4):
        began = time.perf_counter()
        run, _ = jax.block_until_ready(compiled(run, Knobs(), Starts()))
        times.append(time.perf_counter() - began)
    return compile_seconds, setup.learn.batch * setup.learn.updates / min(times)

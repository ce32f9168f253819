"""Search beside mctx's: speed, growth with the simulations, memory and compilation."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key
from rich.table import Table

from azchess.games.chess import ChessGame
from azchess.games.game import Position
from azchess.networks.evaluator import Evaluator, network_evaluator, uniform_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.runs.bench_peers import (
    GAME,
    SLOTS,
    Found,
    Side,
    gumbel_sides,
    puct_sides,
    wide_positions,
)
from azchess.runs.bench_rules import random_play
from azchess.runs.memory import GIB, size_of
from azchess.runs.timing import compile_anew, device_bytes, race
from azchess.search.knobs import SearchKnobs
from azchess.search.node import evaluate_node
from azchess.search.puct import Puct

ALIKE = 0.9
"""Share of the games whose roots must have equal visits; rounding decides the closest choices."""
SAME = "core", "adapter", "mctx.search"
"""The sides that search by one rule."""


class Row(NamedTuple):
    """One figure, and the bar that it should reach or keep below, if there is one."""

    what: str
    side: str
    value: float
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """Whether the bar is met; True without one."""
        high_enough = self.least is None or self.value >= self.least
        return high_enough and (self.most is None or self.value <= self.most)


def bench_search() -> Table:
    """All figures in one table: ours beside mctx's, the same search on both sides."""
    rows = [
        *puct_rows(128, 128),
        *gumbel_rows(64, 32),
        *growth_rows(16),
        *one_game_rows(800),
        *chess_rows(64, 128),
        *chess_memory_rows(1024, 800),
    ]
    table = Table("search", "side", "figure", "unit", "bar", title="search beside mctx's")
    for row in rows:
        bar = "" if row.least is None else f"at least {readable(row.least)}"
        bar = bar if row.most is None else f"at most {readable(row.most)}"
        missed = "" if row.met else " (missed)"
        table.add_row(row.what, row.side, readable(row.value), row.unit, bar + missed)
    return table


def readable(value: float) -> str:
    """A figure with three digits at least and no exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def compiled(sides: dict[str, Side], games: int) -> tuple[dict[str, Any], Any]:
    """Compiled sides, and the arguments that they are called with."""
    arguments = jnp.float32(0.9), wide_positions(games)
    return {
        name: jax.jit(side).lower(*arguments).compile() for name, side in sides.items()
    }, arguments


def check_alike(found: dict[str, Found]) -> None:
    """Raises RuntimeError where sides did not do the same search."""
    first, *others = found
    for other in others:
        same = np.asarray(found[first].visits) == np.asarray(found[other].visits)
        alike = float(same.all(axis=1).mean())
        if alike < ALIKE:
            raise RuntimeError(
                f"{first} and {other} search differently: the visits of {alike:.0%} of the games "
                "are equal"
            )


def rates(what: str, seconds: dict[str, float], simulations: int) -> list[Row]:
    """Simulations/s of all sides."""
    return [
        Row(what, side, simulations / taken, "simulations/s") for side, taken in seconds.items()
    ]


def puct_rows(games: int, simulations: int) -> list[Row]:
    """AlphaZero's search in every way, with its memory where that is ours."""
    what = f"PUCT, {games} games x {simulations}, {SLOTS} moves"
    sides, arguments = compiled(puct_sides(simulations), games)
    check_alike({name: sides[name](*arguments) for name in SAME})
    rounds = {name: 1 if name == "mctx.muzero_policy" else 3 for name in sides}
    seconds = race(sides, *arguments, rounds=rounds)
    rows = rates(what, seconds, games * simulations)
    for ours in ("core", "adapter"):
        for theirs, least in (("mctx.search", 4), ("mctx.muzero_policy", 20)):
            ratio = seconds[theirs] / seconds[ours]
            rows.append(Row(what, f"{ours} / {theirs}", ratio, "times", least=least))
    most = node_bar(SLOTS, size_of(jax.eval_shape(GAME.init, jax.random.key(0))))
    for name, side in sides.items():
        used = device_bytes(side) / (games * (simulations + 1))
        bar = most if name in ("core", "adapter") else None
        rows.append(Row(what, name, used, "bytes/node", most=bar))
    return rows


def node_bar(slots: int, position: int) -> float:
    """What a tree node may take in memory, all that XLA keeps included."""
    return 1.15 * (24 * slots + position + 40)


def gumbel_rows(games: int, simulations: int) -> list[Row]:
    """Gumbel search beside mctx's, over slots and over labels."""
    what = f"Gumbel, {games} games x {simulations}, {SLOTS} moves"
    sides, arguments = compiled(gumbel_sides(simulations), games)
    ours, few, many = sides
    check_alike({name: sides[name](*arguments) for name in (ours, few)})
    seconds = race(sides, *arguments, rounds={ours: 9, few: 5, many: 1})
    rows = rates(what, seconds, games * simulations)
    for theirs, least in ((few, 3), (many, 50)):
        ratio = seconds[theirs] / seconds[ours]
        rows.append(Row(what, f"core / {theirs}", ratio, "times", least=least))
    return rows


def growth_rows(games: int, few: int = 100, many: int = 800) -> list[Row]:
    """Seconds per simulation of few and of many simulations, and how deep the lines go."""
    name = f"PUCT, {games} games, {SLOTS} moves"
    each: dict[str, list[float]] = {"core": [], "mctx.search": []}
    rows = []
    for simulations in (few, many):
        what = f"{name} x {simulations}"
        sides, arguments = compiled(puct_sides(simulations, tuple(each)), games)
        found = {side: run(*arguments) for side, run in sides.items()}
        check_alike(found)
        rows.append(Row(what, "both", float(found["core"].lockstep), "steps down/simulation"))
        for side, seconds in race(sides, *arguments, rounds={"core": 3, "mctx.search": 1}).items():
            each[side].append(seconds / simulations)
            rows.append(Row(what, side, 1e6 * seconds / simulations, "µs/simulation"))
    for side, (first, last) in each.items():
        bar = 2 if side == "core" else None
        rows.append(Row(f"{name} x {many} / x {few}", side, last / first, "times", most=bar))
    return rows


def one_game_rows(simulations: int) -> list[Row]:
    """One game alone."""
    what = f"PUCT, 1 game x {simulations}, {SLOTS} moves"
    sides, arguments = compiled(puct_sides(simulations, ("core", "mctx.search")), 1)
    check_alike({side: run(*arguments) for side, run in sides.items()})
    seconds = race(sides, *arguments)
    ratio = seconds["mctx.search"] / seconds["core"]
    return [
        *rates(what, seconds, simulations),
        Row(what, "core / mctx.search", ratio, "times", least=1),
    ]


def chess_rows(games: int, simulations: int) -> list[Row]:
    """Compilation of a search of chess, and where its time goes: rules, network and the rest."""
    what = f"PUCT, chess, {games} games x {simulations}"
    game = ChessGame()
    network = TransformerConfig(layers=2, width=64).init(game, jax.random.key(0))
    positions, labels = random_play(game, games)
    keys = jax.random.split(jax.random.key(1), games)
    evaluate = network_evaluator(game)
    searching = jax.jit(functools.partial(Puct(simulations), game, evaluate))
    arguments = network, keys, positions, SearchKnobs().greedy()
    compiling, search = compile_anew(searching, *arguments)
    walks = {
        name: jax.jit(functools.partial(walk, game, judge, simulations + 1))
        .lower(network, keys, positions, labels)
        .compile()
        for name, judge in (("rules", uniform_evaluator(game)), ("both", evaluate))
    }
    parts = {"all": functools.partial(search, *arguments)} | {
        name: functools.partial(run, network, keys, positions, labels)
        for name, run in walks.items()
    }
    seconds = race(parts, rounds=5)
    whole, rules, both = seconds["all"], seconds["rules"], seconds["both"]
    shares = {"rules": rules, "network": both - rules, "trees": whole - both}
    return [
        Row(what, "compilation, cache off", compiling, "s", most=30),
        Row(what, "2 layers of width 64", games * simulations / whole, "simulations/s"),
        *(Row(what, side, 100 * part / whole, "% of the time") for side, part in shares.items()),
    ]


def walk(
    game: ChessGame,
    evaluate: Evaluator,
    plies: int,
    network: Any,
    keys: Key[Array, "B"],
    positions: Position,
    labels: Int[Array, "B"],
) -> tuple[Position, Int[Array, "B"]]:
    """What a search does besides keeping trees: moves, rules and evaluations, one after the other.

    Each game plays its likeliest moves, and stays where it is over.
    """

    def ply(_: Array, carry: tuple[Position, Array]) -> tuple[Position, Array]:
        positions, labels = carry
        after = jax.vmap(game.step)(positions, labels)
        node = evaluate_node(game, evaluate, network, keys, after)
        # Of all that the evaluation says something is used, so that XLA leaves nothing out.
        score = jnp.where(node.moves.legal, node.prior, -node.value[:, None] - 2.0)
        slot = (score + node.moves_left[:, None]).argmax(axis=-1)
        chosen = jnp.take_along_axis(node.moves.labels, slot[:, None], axis=1)[:, 0]

        def stay(new: Array, old: Array) -> Array:
            return jnp.where(node.finished.reshape(-1, *[1] * (new.ndim - 1)), old, new)

        return jax.tree.map(stay, (after, chosen.astype(labels.dtype)), carry)

    return jax.lax.fori_loop(0, plies, ply, (positions, labels))


def chess_memory_rows(games: int, simulations: int) -> list[Row]:
    """Memory of a large search of chess, compiled and not run."""
    what = f"PUCT, chess, {games} games x {simulations}, no network"
    game = ChessGame()
    search = functools.partial(Puct(simulations), game, uniform_evaluator(game))

    def first(batch: int) -> Any:
        keys = jax.random.split(jax.random.key(0), batch)
        return None, keys, jax.vmap(game.init)(keys), SearchKnobs().greedy()

    shapes = jax.eval_shape(functools.partial(first, games))
    used = device_bytes(jax.jit(search).lower(*shapes).compile())
    position = size_of(jax.eval_shape(game.init, jax.random.key(0)))
    each = used / (games * (simulations + 1))
    return [
        Row(what, "core", each, "bytes/node", most=node_bar(game.num_slots, position)),
        Row(what, "core", used / GIB, "GiB", most=6),
    ]

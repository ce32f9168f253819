"""Speed on this machine: rules, search and training, and self-play beside pgx's way of doing it."""

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from rich.console import Console
from rich.table import Table

from azchess.games.chess import ChessGame
from azchess.games.game import Position
from azchess.learning.iterate import Knobs, Setup, iterate, new_run, self_play
from azchess.learning.learner import LearnConfig
from azchess.learning.selfplay import SelfPlayConfig, Starts
from azchess.networks.evaluator import network_evaluator, uniform_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.runs.memory import NODE_BYTES, SLOT_BYTES, size_of
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.puct import Puct

GAMES, SIMULATIONS = 64, 32


class Uniform:
    """A network that costs nothing: all moves alike, every position a draw."""

    def __call__(
        self, tokens: Float[Array, "B Q F"], moves: Int[Array, "B S 3"]
    ) -> tuple[Float[Array, "B S"], Float[Array, "B 3"], Float[Array, "B"]]:
        batch = tokens.shape[0]
        # A use of the tokens, so that making them is part of the cost.
        nothing = 0.0 * tokens.sum(axis=(1, 2))
        logits = jnp.zeros(moves.shape[:-1], jnp.float32) + nothing[:, None]
        return logits, jnp.zeros((batch, 3), jnp.float32), nothing


jax.tree_util.register_pytree_node(Uniform, lambda _: ((), None), lambda *_: Uniform())


def bench(what: Literal["chess", "selfplay"] = "chess", console: Console | None = None) -> None:
    """Measures and prints; both sides of a comparison run in turn in this process."""
    console = console or Console()
    console.print(f"device: {jax.devices()[0].device_kind}, jax {jax.__version__}")
    console.print(bench_selfplay() if what == "selfplay" else bench_chess())


def seconds(function: Callable[..., Any], *arguments: Any, repeats: int = 5) -> float:
    """Median seconds of a call that has been made once before."""
    jax.block_until_ready(function(*arguments))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        times.append(time.perf_counter() - began)
    return sorted(times)[repeats // 2]


def bench_chess() -> Table:
    """Rules, search, memory, training and compilation for chess from the standard start."""
    table = Table("chess, standard start", "", title="azchess bench")
    game = ChessGame()
    for batch in (16, 1024):
        positions = opening_positions(game, batch)
        labels = jax.vmap(game.moves)(positions).labels[:, 0].astype(jnp.int32)
        rate = batch / seconds(functools.partial(advance, game), positions, labels)
        table.add_row(f"positions/s: move, legal moves, status (batch {batch:,})", f"{rate:,.0f}")
    for search in (Puct(simulations=SIMULATIONS), Gumbel(simulations=SIMULATIONS)):
        positions = opening_positions(game, GAMES)
        keys = jax.random.split(jax.random.key(0), GAMES)
        rate = (
            GAMES
            * SIMULATIONS
            / seconds(functools.partial(search_once, game, search), keys, positions)
        )
        name = f"simulations/s: {type(search).__name__}, no network"
        table.add_row(f"{name} ({GAMES} games x {SIMULATIONS})", f"{rate:,.0f}")
    node = size_of(jax.eval_shape(game.init, jax.random.key(0)))
    table.add_row(
        "bytes per tree node (position + edges)",
        f"{node} + {NODE_BYTES + SLOT_BYTES * game.num_slots}",
    )
    compile_seconds, rate = train_speed(game)
    table.add_row("training samples/s: 2 layers of width 64, batch 256", f"{rate:,.0f}")
    table.add_row("compile seconds of a whole iteration", f"{compile_seconds:.1f}")
    return table


@functools.partial(jax.jit, static_argnums=0)
def advance(game: ChessGame, positions: Position, labels: Int[Array, "B"]) -> Any:
    """Everything the rules say after one move of each game."""
    after = jax.vmap(game.step)(positions, labels)
    moves = jax.vmap(game.moves)(after)
    return after, moves, jax.vmap(game.status)(after, moves)


@functools.partial(jax.jit, static_argnums=(0, 1))
def search_once(game: ChessGame, search: Puct | Gumbel, keys: Any, positions: Position) -> Any:
    """One search of each game without a network."""
    return search(game, uniform_evaluator(game), None, keys, positions, SearchKnobs())


@functools.partial(jax.jit, static_argnums=(0, 1))
def opening_positions(game: ChessGame, batch: int, plies: int = 16) -> Position:
    """Positions of random play, so that games differ."""

    def ply(positions: Position, key: Any) -> tuple[Position, None]:
        moves = jax.vmap(game.moves)(positions)
        logits = jnp.where(moves.legal, 0.0, -jnp.inf)
        slot = jax.random.categorical(key, logits, axis=-1)[:, None]
        label = jnp.take_along_axis(moves.labels, slot, axis=1)[:, 0].astype(jnp.int32)
        return jax.vmap(game.step)(positions, label), None

    first = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    return jax.lax.scan(ply, first, jax.random.split(jax.random.key(1), plies))[0]


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
    before = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_compilation_cache", False)
    began = time.perf_counter()
    compiled = iterate.lower(setup, run, Knobs(), Starts()).compile()
    compile_seconds = time.perf_counter() - began
    jax.config.update("jax_enable_compilation_cache", before)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        run, _ = jax.block_until_ready(compiled(run, Knobs(), Starts()))
        times.append(time.perf_counter() - began)
    return compile_seconds, setup.learn.batch * setup.learn.updates / min(times)


def bench_selfplay() -> Table:
    """Self-play of chess with the same network and simulations, ours and the way of pgx's example.

    That way: `mctx.gumbel_muzero_policy` over 4,672 labels with the whole pgx state as embedding.
    The network reads eight boards on both sides. Efficiency is the share of the evaluations that
    the bare network makes per second at the same batch.
    """
    table = Table(
        "network",
        "side",
        "positions/s",
        "evaluations/s",
        "of the bare network's",
        title=f"self-play of chess, {GAMES} games x {SIMULATIONS} simulations, Gumbel",
    )
    game = ChessGame(num_boards=8)
    transformer = TransformerConfig(layers=2, width=64)
    rates = {}
    for name, config in (("none", None), ("2 layers of width 64", transformer)):
        ours = Uniform() if config is None else config.init(game, jax.random.key(0))
        theirs = Uniform() if config is None else config.init(PgxPlanes(), jax.random.key(0))
        bare = bare_speed(game, ours)
        for side, rate in (("azchess", our_speed(game, ours)), ("pgx + mctx", pgx_speed(theirs))):
            evaluations = rate * (SIMULATIONS + 1)
            share = "" if config is None else f"{evaluations / bare:.2f}"
            table.add_row(name, side, f"{rate:,.1f}", f"{evaluations:,.0f}", share)
            rates[name, side] = rate
        table.add_row(name, "bare network", "", f"{bare:,.0f}", "1.00")
    for name in ("none", "2 layers of width 64"):
        ratio = rates[name, "azchess"] / rates[name, "pgx + mctx"]
        table.add_row(name, "azchess / pgx + mctx", f"{ratio:.1f} times", "", "")
    return table


def bare_speed(game: ChessGame, network: Any) -> float:
    """Evaluations/s of the network and its input alone."""
    positions = opening_positions(game, GAMES)
    moves = jax.vmap(game.moves)(positions)
    keys = jax.random.split(jax.random.key(0), GAMES)
    evaluate = jax.jit(network_evaluator(game))
    return GAMES / seconds(evaluate, network, keys, positions, moves, repeats=9)


def our_speed(game: ChessGame, network: Any, plies: int = 4) -> float:
    """Positions/s of our self-play."""
    setup = Setup(
        game=game,
        search=Gumbel(simulations=SIMULATIONS),
        selfplay=SelfPlayConfig(games=GAMES, plies=plies),
        capacity=plies,
    )
    run = new_run(setup, network, Starts(), jax.random.key(1))
    play = jax.jit(functools.partial(self_play, setup))
    return GAMES * plies / seconds(play, network, run.games, Knobs(), Starts(), repeats=3)


class PgxPlanes(ChessGame):
    """The sizes of pgx's chess observation, for a network that reads its 119 planes."""

    @property
    def num_features(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 119


def pgx_speed(network: Any) -> float:
    """Positions/s of self-play the way pgx's AlphaZero example does it."""
    step, states = pgx_selfplay(network)
    return GAMES / seconds(step, network, states, jax.random.key(0), repeats=1)


def pgx_selfplay(network: Any) -> tuple[Callable[..., Any], Any]:
    """One ply of self-play with pgx and mctx as they are, and states to start from."""
    import pgx
    from pgx.experimental import auto_reset

    # pyright does not see the constructors of chex's dataclasses.
    mctx: Any = importlib.import_module("mctx")
    env = pgx.make("chess")
    squares = jnp.asarray(ChessGame().geometry, jnp.int32)
    next_state = auto_reset(env.step, env.init)

    def evaluate(network: Any, state: Any) -> tuple[Array, Array]:
        planes = state.observation.reshape(GAMES, 64, 119)
        moves = jnp.broadcast_to(squares, (GAMES, *squares.shape))
        logits, wdl, _ = network(planes, moves)
        wdl = jax.nn.softmax(wdl, axis=-1)
        logits = logits - logits.max(axis=-1, keepdims=True)
        lowest = jnp.finfo(jnp.float32).min
        return jnp.where(state.legal_action_mask, logits, lowest), wdl[:, 0] - wdl[:, 2]

    def recurrent(network: Any, key: Any, action: Array, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = jax.vmap(env.step)(state, action, jax.random.split(key, GAMES))
        logits, value = evaluate(network, state)
        reward = state.rewards[jnp.arange(GAMES), mover]
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    @jax.jit
    def step(network: Any, state: Any, key: Any) -> Any:
        logits, value = evaluate(network, state)
        search_key, reset_key = jax.random.split(key)
        root = mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state)
        policy = mctx.gumbel_muzero_policy(
            network,
            search_key,
            root,
            recurrent,
            SIMULATIONS,
            invalid_actions=~state.legal_action_mask,
        )
        keys = jax.random.split(reset_key, GAMES)
        return jax.vmap(next_state)(state, policy.action, keys), policy.action_weights

    return step, jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), GAMES))

"""Self-play beside pgx's way of doing it, with the same network and simulations, in one process."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from rich.table import Table

from azchess.games.chess import ChessGame
from azchess.learning.iterate import Knobs, Setup, new_run, self_play
from azchess.learning.selfplay import SelfPlayConfig, Starts
from azchess.networks.evaluator import network_evaluator
from azchess.networks.transformer import TransformerConfig
from azchess.runs.bench_rules import random_play
from azchess.runs.timing import seconds
from azchess.search.gumbel import Gumbel

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


def bench_selfplay(games: int = GAMES, simulations: int = SIMULATIONS) -> Table:
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
        title=f"self-play of chess, {games} games x {simulations} simulations, Gumbel",
    )
    game = ChessGame(num_boards=8)
    transformer = TransformerConfig(layers=2, width=64)
    rates = {}
    for name, config in (("none", None), ("2 layers of width 64", transformer)):
        ours = Uniform() if config is None else config.init(game, jax.random.key(0))
        theirs = Uniform() if config is None else config.init(PgxPlanes(), jax.random.key(0))
        bare = bare_speed(game, ours, games)
        speeds = {
            "azchess": our_speed(game, ours, games, simulations),
            "pgx + mctx": pgx_speed(theirs, games, simulations),
        }
        for side, rate in speeds.items():
            evaluations = rate * (simulations + 1)
            share = "" if config is None else f"{evaluations / bare:.2f}"
            table.add_row(name, side, f"{rate:,.1f}", f"{evaluations:,.0f}", share)
            rates[name, side] = rate
        table.add_row(name, "bare network", "", f"{bare:,.0f}", "1.00")
    for name in ("none", "2 layers of width 64"):
        ratio = rates[name, "azchess"] / rates[name, "pgx + mctx"]
        table.add_row(name, "azchess / pgx + mctx", f"{ratio:.1f} times", "", "")
    return table


def bare_speed(game: ChessGame, network: Any, games: int) -> float:
    """Evaluations/s of the network and its input alone."""
    positions = random_play(game, games)[0]
    moves = jax.vmap(game.moves)(positions)
    keys = jax.random.split(jax.random.key(0), games)
    evaluate = jax.jit(network_evaluator(game))
    return games / seconds(evaluate, network, keys, positions, moves, repeats=9)


def our_speed(game: ChessGame, network: Any, games: int, simulations: int, plies: int = 4) -> float:
    """Positions/s of our self-play."""
    setup = Setup(
        game=game,
        search=Gumbel(simulations=simulations),
        selfplay=SelfPlayConfig(games=games, plies=plies),
        capacity=plies,
    )
    run = new_run(setup, network, Starts(), jax.random.key(1))
    play = jax.jit(functools.partial(self_play, setup))
    return games * plies / seconds(play, network, run.games, Knobs(), Starts(), repeats=3)


class PgxPlanes(ChessGame):
    """The sizes of pgx's chess observation, for a network that reads its 119 planes."""

    @property
    def num_features(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return 119


def pgx_speed(network: Any, games: int, simulations: int) -> float:
    """Positions/s of self-play the way pgx's AlphaZero example does it."""
    step, states = pgx_selfplay(network, games, simulations)
    return games / seconds(step, network, states, jax.random.key(0), repeats=3)


def pgx_selfplay(network: Any, games: int, simulations: int) -> tuple[Callable[..., Any], Any]:
    """One ply of self-play with pgx and mctx as they are, and states to start from."""
    import pgx
    from pgx.experimental import auto_reset

    # pyright does not see the constructors of chex's dataclasses.
    mctx: Any = importlib.import_module("mctx")
    env = pgx.make("chess")
    squares = jnp.asarray(ChessGame().geometry, jnp.int32)
    next_state = auto_reset(env.step, env.init)

    def evaluate(network: Any, state: Any) -> tuple[Array, Array]:
        planes = state.observation.reshape(games, 64, 119)
        moves = jnp.broadcast_to(squares, (games, *squares.shape))
        logits, wdl, _ = network(planes, moves)
        wdl = jax.nn.softmax(wdl, axis=-1)
        logits = logits - logits.max(axis=-1, keepdims=True)
        lowest = jnp.finfo(jnp.float32).min
        return jnp.where(state.legal_action_mask, logits, lowest), wdl[:, 0] - wdl[:, 2]

    def recurrent(network: Any, key: Any, action: Array, state: Any) -> tuple[Any, Any]:
        mover = state.current_player
        state = jax.vmap(env.step)(state, action, jax.random.split(key, games))
        logits, value = evaluate(network, state)
        reward = state.rewards[jnp.arange(games), mover]
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
            simulations,
            invalid_actions=~state.legal_action_mask,
        )
        keys = jax.random.split(reset_key, games)
        return jax.vmap(next_state)(state, policy.action, keys), policy.action_weights

    return step, jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), games))

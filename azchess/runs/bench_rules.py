"""The rules of chess beside those of other libraries, in one process."""

import functools
import importlib.util
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int
from rich.table import Table

from azchess.games.chess import ChessGame
from azchess.games.game import Position
from azchess.runs.timing import compile_anew, seconds

PLIES = 40
"""Plies of random play before the positions that are measured."""


def bench_rules(
    batches: tuple[int, ...] = (1, 16, 256, 1024, 4096, 16384), env_batch: int = 1024
) -> Table:
    """One move in each of B positions of random play: positions in, positions and moves out.

    `rules`: the position, its hash and repetitions, all legal moves in 218 slots, and the end of
    the game. `Chess.step`: our pgx environment, planes and mask included. Peers: the same step of
    theirs; pgx1 is measured where it is installed.
    """
    import pgx  # here, because it starts a device

    from azchess.games.chess import Chess

    table = Table(
        "side", "batch", "positions/s", "of pgx's", "compile s", title="one move of chess"
    )
    game = ChessGame()
    rows = {}
    for batch in batches:
        arguments = random_play(game, batch)
        compile_seconds, run = compile_anew(advance, game, *arguments)
        rows["azchess rules", batch] = batch / seconds(run, *arguments), compile_seconds
    steps = {"azchess Chess.step": Chess(), "pgx": pgx.make("chess")}
    if importlib.util.find_spec("pgx1"):
        steps["pgx1"] = importlib.import_module("pgx1").make("chess")
    for name, env in steps.items():
        step, arguments = env_play(env, env_batch)
        compile_seconds, run = compile_anew(step, *arguments)
        rows[name, env_batch] = env_batch / seconds(run, *arguments), compile_seconds
    slowest, _ = rows["pgx", env_batch]
    for (name, batch), (rate, compiling) in rows.items():
        cells = f"{batch:,}", f"{rate:,.0f}", f"{rate / slowest:.1f}", f"{compiling:.1f}"
        table.add_row(name, *cells)
    return table


@functools.partial(jax.jit, static_argnums=0)
def advance(game: ChessGame, positions: Position, labels: Int[Array, "B"]) -> Any:
    """Everything the rules say after one move of each game."""
    after = jax.vmap(game.step)(positions, labels)
    moves = jax.vmap(game.moves)(after)
    return after, moves, jax.vmap(game.status)(after, moves)


@functools.partial(jax.jit, static_argnums=(0, 1))
def random_play(game: ChessGame, batch: int) -> tuple[Position, Int[Array, "B"]]:
    """Positions of random play, so that games differ, and a legal move in each."""

    def choose(positions: Position, key: Any) -> Int[Array, "B"]:
        moves = jax.vmap(game.moves)(positions)
        slot = jax.random.categorical(key, jnp.where(moves.legal, 0.0, -jnp.inf), axis=-1)
        return jnp.take_along_axis(moves.labels, slot[:, None], axis=1)[:, 0].astype(jnp.int32)

    def ply(positions: Position, key: Any) -> tuple[Position, None]:
        return jax.vmap(game.step)(positions, choose(positions, key)), None

    first = jax.vmap(game.init)(jax.random.split(jax.random.key(0), batch))
    keys = jax.random.split(jax.random.key(1), PLIES + 1)
    positions, _ = jax.lax.scan(ply, first, keys[1:])
    return positions, choose(positions, keys[0])


def env_play(env: Any, batch: int) -> tuple[Any, tuple[Any, Int[Array, "B"]]]:
    """An environment's step for a batch, and states of random play with a legal move in each."""

    def jitted() -> Any:
        """A new function each time, so that the one to be measured is still to be compiled."""
        return jax.jit(jax.vmap(lambda state, action: env.step(state, action)))

    @jax.jit
    def choose(mask: Bool[Array, "B A"], key: Any) -> Int[Array, "B"]:
        return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)

    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch))
    keys, step = jax.random.split(jax.random.key(1), PLIES + 1), jitted()
    for key in keys[1:]:
        states = step(states, choose(states.legal_action_mask, key))
    return jitted(), (states, choose(states.legal_action_mask, keys[0]))

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
    batches: tuple[int, ...] = (1, 16, 256, 1024, 4096, 16384), peer_batch: int = 1024
) -> Table:
    """One move in each of B positions of random play: positions in, positions and moves out.

    Ours: the position, its hash and repetitions, all legal moves in 218 slots, and the end of the
    game. Peers: their environment's `step`; pgx1 is measured where it is installed.
    """
    table = Table("rules", "batch", "positions/s", "of pgx's", "compile s", title="one move")
    game = ChessGame()
    rates = {}
    for batch in batches:
        arguments = random_play(game, batch)
        compile_seconds, run = compile_anew(advance, game, *arguments)
        rates["azchess", batch] = batch / seconds(run, *arguments)
        rates["azchess", batch, "compile"] = compile_seconds
    peers = ["pgx", *(["pgx1"] if importlib.util.find_spec("pgx1") else [])]
    for peer in peers:
        step, arguments = peer_play(importlib.import_module(peer).make("chess"), peer_batch)
        compile_seconds, run = compile_anew(step, *arguments)
        rates[peer, peer_batch] = peer_batch / seconds(run, *arguments, repeats=3)
        rates[peer, peer_batch, "compile"] = compile_seconds
    slowest = rates["pgx", peer_batch]
    for name, batch in [key for key in rates if len(key) == 2]:
        rate = rates[name, batch]
        compiling = f"{rates[name, batch, 'compile']:.1f}"
        table.add_row(name, f"{batch:,}", f"{rate:,.0f}", f"{rate / slowest:.1f}", compiling)
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


def peer_play(env: Any, batch: int) -> tuple[Any, tuple[Any, Int[Array, "B"]]]:
    """A peer's step, jitted for a batch, and states of random play with a legal move in each."""
    step = jax.jit(jax.vmap(lambda state, action: env.step(state, action)))

    @jax.jit
    def choose(mask: Bool[Array, "B A"], key: Any) -> Int[Array, "B"]:
        return jax.random.categorical(key, jnp.where(mask, 0.0, -jnp.inf), axis=-1)

    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), batch))
    keys = jax.random.split(jax.random.key(1), PLIES + 1)
    for key in keys[1:]:
        states = step(states, choose(states.legal_action_mask, key))
    return step, (states, choose(states.legal_action_mask, keys[0]))

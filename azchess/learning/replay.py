"""Replay: the last plies of every lane on the device, sampled once their games are over."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Int, Int32, PRNGKeyArray

from azchess.games.game import Record
from azchess.learning.selfplay import Ply, as_seen_by_first
from azchess.pytree import pytree


@pytree
class Replay:
    """One ring of C plies per lane; all lanes are written in lockstep at `head`.

    Per ply `[B, C]`: the position's `record`, the search `policy` (0 where there is none to learn),
    the search's `wdl` for the `mover`, and the number of the `game` on its lane and of the `ply` in
    it. Results stand in a table by game number modulo C: `result` as seat 0 sees it and `length` in
    plies are those of the game numbered `ended` (-1: none), so that a game still running has none.
    `filled` counts the written plies of a lane.
    """

    record: Record
    policy: Float16[Array, "B C S"]
    wdl: Float16[Array, "B C 3"]
    mover: Int32[Array, "B C"]
    game: Int32[Array, "B C"]
    ply: Int32[Array, "B C"]
    ended: Int32[Array, "B C"]
    result: Float16[Array, "B C 3"]
    length: Float[Array, "B C"]
    head: Int32[Array, ""]
    filled: Int32[Array, ""]

    @property
    def capacity(self) -> int:
        """C, the plies kept per lane."""
        return self.game.shape[1]


@pytree
class Samples:
    """N plies of finished games, for learning; values are the mover's.

    `history` `[N, H]` holds the ply's record and those before it in its game, the newest first,
    zeros where there was none. `result` is the game's win, draw and loss, `wdl` the search's,
    `moves_left` the plies to the game's end. `weight` is 0 where nothing could be sampled.
    """

    history: Record
    policy: Float[Array, "N S"]
    result: Float[Array, "N 3"]
    wdl: Float[Array, "N 3"]
    moves_left: Float[Array, "N"]
    weight: Float[Array, "N"]


def empty_replay(plies: Ply, capacity: int) -> Replay:
    """Room for `capacity` plies per lane; `plies` `[T, B]` (or its shapes) tells what they are."""
    length, batch = plies.ply.shape
    if capacity % length:
        raise ValueError(f"capacity = {capacity}: must be a multiple of selfplay.plies = {length}")

    def room(leaf: Array | jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros((batch, capacity, *leaf.shape[2:]), leaf.dtype)

    integers = jnp.zeros((batch, capacity), jnp.int32)

    return Replay(
        record=jax.tree.map(room, plies.record),
        policy=room(plies.policy),
        wdl=jnp.zeros((batch, capacity, 3), jnp.float16),
        mover=integers,
        game=integers,
        ply=integers,
        ended=integers - 1,
        result=jnp.zeros((batch, capacity, 3), jnp.float16),
        length=jnp.zeros((batch, capacity), jnp.float32),
        head=jnp.zeros((), jnp.int32),
        filled=jnp.zeros((), jnp.int32),
    )


def add(replay: Replay, plies: Ply) -> Replay:
    """Writes plies `[T, B]` over the oldest ones, and the results of the games they ended."""
    length, batch = plies.ply.shape
    capacity = replay.capacity

    def write(ring: Array, rows: Array) -> Array:
        rows = jnp.swapaxes(rows, 0, 1).astype(ring.dtype)
        return jax.lax.dynamic_update_slice_in_dim(ring, rows, replay.head, axis=1)

    # A game that did not end is written to place C, which does not exist: the write is dropped.
    place = jnp.where(plies.ended, plies.game % capacity, capacity)
    lanes = jnp.broadcast_to(jnp.arange(batch), place.shape)

    def note(table: Array, rows: Array) -> Array:
        return table.at[lanes, place].set(rows.astype(table.dtype), mode="drop")

    return dataclasses.replace(
        replay,
        record=jax.tree.map(write, replay.record, plies.record),
        policy=write(replay.policy, plies.policy),
        wdl=write(replay.wdl, plies.wdl),
        mover=write(replay.mover, plies.mover),
        game=write(replay.game, plies.game),
        ply=write(replay.ply, plies.ply),
        ended=note(replay.ended, plies.game),
        result=note(replay.result, plies.result),
        length=note(replay.length, plies.length),
        head=(replay.head + length) % capacity,
        filled=jnp.minimum(replay.filled + length, capacity),
    )


def age(replay: Replay) -> Int32[Array, "C"]:
    """Place of each column in the order of writing, 0 for the oldest; garbage where unwritten."""
    oldest = jnp.where(replay.filled < replay.capacity, 0, replay.head)
    return (jnp.arange(replay.capacity) - oldest) % replay.capacity


def sampleable(replay: Replay, num_boards: int) -> Bool[Array, "B C"]:
    """Plies that are written, whose game is over, and whose last H boards are all still there."""
    order = age(replay)
    written = order < replay.filled
    over = jnp.take_along_axis(replay.ended, replay.game % replay.capacity, axis=1) == replay.game
    whole = order >= jnp.minimum(replay.ply, num_boards - 1)
    return written & over & whole


def sample(replay: Replay, key: PRNGKeyArray, number: int, num_boards: int) -> Samples:
    """Draws N plies of finished games uniformly, with replacement."""
    able = sampleable(replay, num_boards)
    upto = jnp.cumsum(able.reshape(-1).astype(jnp.int32))
    total = upto[-1]
    drawn = jax.random.randint(key, (number,), 0, jnp.maximum(total, 1))
    place = jnp.minimum(jnp.searchsorted(upto, drawn, side="right"), upto.shape[0] - 1)
    lane, column = place // replay.capacity, place % replay.capacity
    return gather(replay, lane, column, num_boards, (total > 0).astype(jnp.float32))


def gather(
    replay: Replay,
    lane: Int[Array, "N"],
    column: Int[Array, "N"],
    num_boards: int,
    weight: Float[Array, ""],
) -> Samples:
    """The samples at given places of the replay, each with the history of its own game."""
    game, ply, mover = (x[lane, column] for x in (replay.game, replay.ply, replay.mover))
    table = game % replay.capacity
    back = jnp.arange(num_boards)
    before = (column[:, None] - back) % replay.capacity
    present = back <= ply[:, None]

    def boards(leaf: Array) -> Array:
        rows = leaf[lane[:, None], before]
        mask = present.reshape(present.shape + (1,) * (rows.ndim - 2))
        return jnp.where(mask, rows, jnp.zeros_like(rows))

    return Samples(
        history=jax.tree.map(boards, replay.record),
        policy=replay.policy[lane, column].astype(jnp.float32),
        result=as_seen_by_first(replay.result[lane, table].astype(jnp.float32), mover),
        wdl=replay.wdl[lane, column].astype(jnp.float32),
        moves_left=replay.length[lane, table] - ply,
        weight=jnp.broadcast_to(weight, lane.shape),
    )

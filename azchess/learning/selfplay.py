"""Self-play: B games advance one ply at a time, each searched, played and restarted in lockstep."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Int32, Key, PRNGKeyArray

from azchess.games.game import Game, Position, Record, relative_sign
from azchess.networks.evaluator import Evaluator
from azchess.pytree import pytree
from azchess.search.decision import Decision
from azchess.search.knobs import Knob, SearchKnobs, per_game
from azchess.search.node import split_keys
from azchess.search.root import sample_slot

Search: TypeAlias = Callable[
    [Game, Evaluator, Any, Key[Array, "B"], Position, SearchKnobs],
    Decision,
]
"""`(game, evaluate, params, keys [B], positions [B], knobs) -> Decision [B]`, such as `Puct()`."""


BEFORE_PLAY = 2**32 - 1  # a time that no lane reaches: its key draws the first start positions


@dataclasses.dataclass(frozen=True)
class SelfPlayConfig:
    """Sizes of self-play."""

    games: int = 64
    """B, games in lockstep: one lane each (AlphaZero: 5,000 machines)."""
    plies: int = 16
    """T, plies per game and iteration."""
    max_plies: int | None = None
    """Cuts a game after so many plies; None for no cap (AlphaZero: 512)."""
    cut_is_draw: bool = False
    """Counts a cut game as drawn; otherwise its result is the last search's win, draw and loss."""

    def __post_init__(self) -> None:
        for name in ("games", "plies"):
            if getattr(self, name) < 1:
                raise ValueError(f"selfplay.{name} = {getattr(self, name)}: must be at least 1")
        if self.max_plies is not None and self.max_plies < 1:
            raise ValueError(f"selfplay.max_plies = {self.max_plies}: must be at least 1, or None")


@pytree
class Games:
    """B games in progress, one per lane.

    `key` is the lane's own and never changes: all randomness of a ply is the key folded by `time`,
    the plies played on this lane so far, so that a lane plays the same games wherever it runs.
    `ply` counts the current game's plies and `game` the games finished before it on this lane.
    """

    position: Position
    key: Key[Array, "*b"]
    time: Int32[Array, "*b"]
    ply: Int32[Array, "*b"]
    game: Int32[Array, "*b"]


@pytree
class Ply:
    """One ply of one game, as self-play hands it to replay.

    `policy` `[S]` and `wdl` are the search's, for the `mover`. Where the game `ended` with this
    ply, `result` is its win, draw and loss as seat 0 sees it and `length` its plies; `cut` tells a
    game that was not finished by the rules, whose length is what the network expects. `played` is
    the slot of the move made, `decision` all the search said.
    """

    record: Record
    policy: Float16[Array, "*b S"]
    wdl: Float[Array, "*b 3"]
    mover: Int32[Array, "*b"]
    ply: Int32[Array, "*b"]
    game: Int32[Array, "*b"]
    played: Int32[Array, "*b"]
    ended: Bool[Array, "*b"]
    cut: Bool[Array, "*b"]
    result: Float[Array, "*b 3"]
    length: Float[Array, "*b"]
    moves: Int32[Array, "*b"]
    decision: Decision


@pytree
class Starts:
    """Where games begin: a pool of positions as records `[M]`, and the share of it in use.

    Games start from a uniform draw of the first `reach` (0 to 1) of the pool, which a curriculum
    may widen: a number, not a shape. `records` None stands for the game's own start.
    """

    records: Record | None = None
    reach: Knob = 1.0


def start(game: Game, starts: Starts, keys: Key[Array, "B"]) -> Position:
    """A start position per key `[B]`."""
    if starts.records is None:
        return jax.vmap(game.init)(keys)
    pool = jax.tree.leaves(starts.records)[0].shape[0]
    reach = jnp.clip(jnp.ceil(jnp.asarray(starts.reach) * pool), 1, pool).astype(jnp.int32)
    drawn = jax.vmap(lambda key: jax.random.randint(key, (), 0, reach))(keys)
    return jax.vmap(game.position)(jax.tree.map(lambda x: x[drawn], starts.records))


def new_games(game: Game, starts: Starts, key: PRNGKeyArray, batch: int) -> Games:
    """`batch` games at their start positions."""
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(batch))
    zeros = jnp.zeros((batch,), jnp.int32)
    first = jax.vmap(jax.random.fold_in, (0, None))(keys, BEFORE_PLAY)
    return Games(position=start(game, starts, first), key=keys, time=zeros, ply=zeros, game=zeros)


def play(
    game: Game,
    evaluate: Evaluator,
    search: Search,
    config: SelfPlayConfig,
    params: Any,
    games: Games,
    knobs: SearchKnobs,
    starts: Starts,
) -> tuple[Games, Ply]:
    """Plays T plies of B games: the games as they stand then, and the plies `[T, B]`.

    A finished game is restarted on its lane at once. The first `temperature_plies` moves of a game
    are drawn from the search policy, later ones are the search's choice.
    """

    def ply(games: Games, _: None) -> tuple[Games, Ply]:
        keys = jax.vmap(jax.random.fold_in)(games.key, games.time)
        search_key, move_key, start_key = split_keys(keys, 3)
        decision = search(game, evaluate, params, search_key, games.position, knobs)
        played = choose(move_key, decision, games.ply, knobs)
        label = jnp.take_along_axis(decision.labels, played[:, None], axis=1)[:, 0]
        position = jax.vmap(game.step)(games.position, label.astype(jnp.int32))
        row = observe(game, config, games, decision, played, position)
        fresh = start(game, starts, start_key)
        games = Games(
            position=jax.tree.map(lambda a, b: select(row.ended, a, b), fresh, position),
            key=games.key,
            time=games.time + 1,
            ply=jnp.where(row.ended, 0, games.ply + 1),
            game=games.game + row.ended,
        )
        return games, row

    return jax.lax.scan(ply, games, None, length=config.plies)


def choose(
    keys: Key[Array, "B"], decision: Decision, ply: Int32[Array, "B"], knobs: SearchKnobs
) -> Int32[Array, "B"]:
    """The slot to play: drawn from the policy in the first plies of a game, the search's after."""
    knobs = per_game(knobs, ply.shape[0])
    drawn = sample_slot(keys, decision.policy, knobs.temperature)
    return jnp.where(ply < knobs.temperature_plies, drawn, decision.slot)


def observe(
    game: Game,
    config: SelfPlayConfig,
    before: Games,
    decision: Decision,
    played: Int32[Array, "B"],
    after: Position,
) -> Ply:
    """The row of plies that led from the positions in `before` to `after`."""
    moves = jax.vmap(game.moves)(after)
    status = jax.vmap(game.status)(after, moves)
    mover = jax.vmap(game.mover)(before.position)
    capped = before.ply + 1 >= (config.max_plies or jnp.iinfo(jnp.int32).max)
    ended = status.over | capped
    cut = ended & ~status.terminated
    outcome = status.outcome * relative_sign(jax.vmap(game.mover)(after), jnp.zeros_like(mover))
    exact = jax.nn.one_hot(1 - outcome.astype(jnp.int32), 3)
    draw = jnp.array([0.0, 1.0, 0.0])
    guess = draw if config.cut_is_draw else as_seen_by_first(decision.wdl, mover)
    return Ply(
        record=jax.vmap(game.record)(before.position),
        policy=decision.policy.astype(jnp.float16),
        wdl=decision.wdl,
        mover=mover,
        ply=before.ply,
        game=before.game,
        played=played,
        ended=ended,
        cut=cut,
        result=jnp.where(cut[:, None], guess, exact),
        length=before.ply + jnp.where(cut, jnp.maximum(decision.moves_left, 1.0), 1.0),
        moves=moves.count,
        decision=decision,
    )


def as_seen_by_first(wdl: Float[Array, "*b 3"], mover: Int32[Array, "*b"]) -> Float[Array, "*b 3"]:
    """Win, draw and loss for the mover as seat 0 sees them; the same map leads back."""
    return jnp.where((mover == 0)[..., None], wdl, wdl[..., ::-1])


def select(mask: Bool[Array, "B"], yes: Array, no: Array) -> Array:
    """`where` over the first axis of arrays of any rank, random keys included."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (yes.ndim - 1)), yes, no)

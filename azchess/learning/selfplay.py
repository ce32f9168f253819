"""Self-play: B games advance one ply at a time, each searched, played and restarted in lockstep."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float16, Int32, Key, PRNGKeyArray

from azchess.games.game import Game, Position, Record, relative_sign
from azchess.learning.choice import choose, sized
from azchess.networks.evaluator import Evaluator
from azchess.pytree import pytree
from azchess.search.decision import Decision
from azchess.search.knobs import Knob, SearchKnobs
from azchess.search.node import split_keys
from azchess.search.policy import TreeSearch
from azchess.search.tree import Tree

Search: TypeAlias = Callable[
    [Game, Evaluator, Any, Key[Array, "B"], Position, SearchKnobs],
    Decision,
]
"""`(game, evaluate, params, keys [B], positions [B], knobs) -> Decision [B]`, such as `Puct()`."""


BEFORE_PLAY = 2**32 - 1  # a time and a lane that do not exist: for start positions and the coin


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
    reuse: bool = False
    """Each search goes on in what the last one found below the move played (AlphaZero and KataGo:
    yes; Lc0's training: no), for as many simulations as a new one has. Every T plies the trees
    begin anew, so that a new network never counts on the judgement of an older one."""

    def __post_init__(self) -> None:
        for name in ("games", "plies"):
            if getattr(self, name) < 1:
                raise ValueError(f"selfplay.{name} = {getattr(self, name)}: must be at least 1")
        if self.max_plies is not None and self.max_plies < 1:
            raise ValueError(f"selfplay.max_plies = {self.max_plies}: must be at least 1, or None")
        if self.reuse and self.plies < 2:
            raise ValueError("selfplay.reuse = True: selfplay.plies must be at least 2")


@pytree
class Games:
    """B games in progress, one per lane.

    `key` is the lane's own and never changes: all randomness of a ply is the key folded by `time`,
    the plies played on this lane so far, so that a lane plays the same games wherever it runs.
    `coin` is a key that all lanes share, for what they draw in common. `ply` counts the current
    game's plies and `game` the games finished before it on this lane.
    """

    position: Position
    key: Key[Array, "*b"]
    coin: Key[Array, "*b"]
    time: Int32[Array, "*b"]
    ply: Int32[Array, "*b"]
    game: Int32[Array, "*b"]


@pytree
class Ply:
    """One ply of one game, as self-play hands it to replay.

    `policy` `[S]` and `wdl` are the search's, for the `mover`; after a fast search the policy is 0,
    which is no target to learn from (`full_search`). Where the game `ended` with this
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
    coin = jnp.broadcast_to(jax.random.fold_in(key, BEFORE_PLAY), (batch,))
    return Games(
        position=start(game, starts, first),
        key=keys,
        coin=coin,
        time=zeros,
        ply=zeros,
        game=zeros,
    )


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

    A finished game is restarted on its lane at once. Moves are drawn from the search policy at the
    temperature of their ply (`choose`); what is learned is the policy itself.
    """
    tree = None
    if config.reuse:
        search = searches_on(search)
        tree = search.no_trees(game, evaluate, params, games.position)

    def ply(carry: tuple[Games, Tree | None], _: None) -> tuple[tuple[Games, Tree | None], Ply]:
        games, tree = carry
        keys = jax.vmap(jax.random.fold_in)(games.key, games.time)
        search_key, move_key, start_key = split_keys(keys, 3)
        full = full_search(games, knobs)
        given = (game, evaluate, params, search_key, games.position, sized(knobs, full))
        if tree is None:
            decision = search(*given)
        else:
            decision, tree = searches_on(search).think(*given, tree)
        played = choose(move_key, decision, games.ply, knobs)
        label = jnp.take_along_axis(decision.labels, played[:, None], axis=1)[:, 0]
        position = jax.vmap(game.step)(games.position, label.astype(jnp.int32))
        row = observe(game, config, games, decision, played, position)
        row = dataclasses.replace(row, policy=jnp.where(full[:, None], row.policy, 0))
        if tree is not None:
            slot = jnp.where(row.ended, -1, played)
            tree = searches_on(search).advance(tree, slot, knobs.discount)
        fresh = start(game, starts, start_key)
        games = Games(
            position=jax.tree.map(lambda a, b: select(row.ended, a, b), fresh, position),
            key=games.key,
            coin=games.coin,
            time=games.time + 1,
            ply=jnp.where(row.ended, 0, games.ply + 1),
            game=games.game + row.ended,
        )
        return (games, tree), row

    (games, _), plies = jax.lax.scan(ply, (games, tree), None, length=config.plies)
    return games, plies


def searches_on(search: Search) -> TreeSearch:
    """The search as one that can go on in an earlier tree. Raises ValueError where it cannot."""
    if not isinstance(search, TreeSearch):
        raise ValueError(f"selfplay.reuse = True: {type(search).__name__} has no trees")
    search.check_reuse()
    return search


def full_search(games: Games, knobs: SearchKnobs) -> Bool[Array, "B"]:
    """Whether the games' next move is searched in full, and its policy learned.

    Playout-cap randomisation (Wu 2019, section 3.1): a share `full_share` of the moves, the others
    are searched fast. One coin is tossed per ply for all games: they advance in lockstep, and a ply
    takes as long as its longest search, so that coins of their own would save nothing.
    """
    keys = jax.vmap(jax.random.fold_in)(games.coin, games.time)
    return jax.vmap(jax.random.uniform)(keys) < knobs.full_share


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

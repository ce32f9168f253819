"""Won endings as a measure of learning: play against a perfect defender, judged by a tablebase."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int32, Key, PRNGKeyArray

from azchess.evaluation.oracles import Tablebase, optimal_moves, perfect_defence
from azchess.games.chess.position import CODES, Record, unpack
from azchess.games.game import Game, Moves, Position
from azchess.networks.evaluator import network_evaluator, prior
from azchess.pytree import pytree
from azchess.search.knobs import SearchKnobs

PIECES = {"Q": "queen", "R": "rook", "B": "bishop", "N": "knight"}


def ending_records(
    table: Tablebase, squares: Int[np.ndarray, "M 3"], strong_to_move: Bool[np.ndarray, "M"]
) -> Record:
    """Chess records of tablebase positions, the strong side white.

    `squares` are the strong king's, the piece's and the bare king's, file by file from a1.
    """
    seen = np.where(strong_to_move[:, None], squares, squares ^ 7)  # as the mover sees them
    board = np.zeros((len(squares), 4, 2), np.uint32)
    kinds = ("king", PIECES[table.material[1]], "king")
    for piece, (square, kind) in enumerate(zip(seen.T, kinds, strict=True)):
        own = strong_to_move if piece < 2 else ~strong_to_move
        bit = np.uint32(1) << (square % 32).astype(np.uint32)
        for plane, on in enumerate((*CODES[kind], own)):
            board[np.arange(len(board)), plane, square // 32] |= np.where(on, bit, 0).astype(
                np.uint32
            )
    size = len(squares)
    return Record(
        board=jnp.asarray(board),
        castling=jnp.zeros(size, jnp.uint16),
        en_passant=jnp.zeros(size, jnp.int8),
        repetitions=jnp.ones(size, jnp.int8),
        clock=jnp.zeros(size, jnp.int16),
        ply=jnp.asarray(~strong_to_move, jnp.int16),
    )


@pytree
class Ending:
    """Where a position stands in a three-man table: squares `[3]`, and who is to move.

    `bare` is True where the piece is gone (two kings): then nobody wins.
    """

    squares: Int32[Array, "*b 3"]
    strong_to_move: Bool[Array, "*b"]
    bare: Bool[Array, "*b"]


def locate(record: Record) -> Ending:
    """Reads a board of at most three men, kings included, as the table numbers it."""
    board = unpack(record.board)
    pieces = board.own | board.theirs
    pieces = pieces & ~board.kings
    own, theirs = _first(board.kings & board.own), _first(board.kings & board.theirs)
    strong = (pieces & board.own).any
    squares = jnp.stack(
        [jnp.where(strong, own, theirs), _first(pieces), jnp.where(strong, theirs, own)], axis=-1
    )
    return Ending(
        squares=jnp.where(strong[..., None], squares, squares ^ 7),
        strong_to_move=strong,
        bare=~pieces.any,
    )


def _first(bits: Any) -> Int32[Array, "*b"]:
    """The lowest square of a set, 0 of the empty set."""
    low, high = bits

    def lowest(word: Array) -> Array:
        return jax.lax.population_count((word & -word) - 1).astype(jnp.int32)

    square = jnp.where(low != 0, lowest(low), 32 + lowest(high))
    return jnp.where((low | high) == 0, 0, square)


def children(game: Game, position: Position, moves: Moves) -> Ending:
    """Where each move of a position leads, `[S]`; padded slots repeat the first move."""
    labels = jnp.where(moves.legal, moves.labels, moves.labels[0]).astype(jnp.int32)
    after = jax.vmap(game.step, (None, 0))(position, labels)
    return jax.vmap(lambda child: locate(game.record(child)))(after)


@dataclasses.dataclass(frozen=True)
class EndingPlay:
    """How won positions are played out: by which search, and for how many plies at most."""

    game: Game
    search: Any
    max_plies: int = 100


@pytree
class Played:
    """Games `[B]` of the strong side against perfect defence: mated or not, and after how long."""

    mated: Bool[Array, "*b"]
    plies: Int32[Array, "*b"]


@functools.partial(jax.jit, static_argnums=0)
def play_out(
    setup: EndingPlay,
    network: Any,
    table: Int8[Array, "I"],
    records: Record,
    key: PRNGKeyArray,
    knobs: SearchKnobs,
) -> Played:
    """Plays won positions `[B]`, strong side to move, until mate, a draw or the cap.

    The strong side moves by the search without noise. The defender plays a best move by the table,
    drawn uniformly among equals.
    """
    game = setup.game
    evaluate = network_evaluator(game)
    batch = records.ply.shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(batch))
    start = jax.vmap(game.position)(records)

    def where(over: Bool[Array, ""], begun: Position, now: Position) -> Position:
        # A game that is over goes on as its own start, which can be searched, and is not counted.
        return jax.tree.map(lambda a, b: jnp.where(over, a, b), begun, now)

    def attack(keys: Key[Array, "B"], position: Position, moves: Moves) -> Int32[Array, "B"]:
        del moves
        return setup.search(game, evaluate, network, keys, position, knobs.greedy()).label

    def defend(keys: Key[Array, "B"], position: Position, moves: Moves) -> Int32[Array, "B"]:
        after = jax.vmap(functools.partial(children, game))(position, moves)
        best = perfect_defence(table, after.squares, moves.legal, after.bare)
        slot = jax.vmap(jax.random.categorical)(keys, jnp.log(jnp.maximum(best, 1e-30)))
        return jnp.take_along_axis(moves.labels, slot[:, None], axis=1)[:, 0].astype(jnp.int32)

    def turn(state: tuple[Array, Position, Array, Played]) -> tuple[Array, Position, Array, Played]:
        ply, position, over, played = state
        for side in (attack, defend):
            lane_keys = jax.vmap(jax.random.fold_in, (0, None))(keys, ply)
            moves = jax.vmap(game.moves)(position)
            label = side(lane_keys, position, moves)
            after = jax.vmap(game.step)(position, label)
            moves = jax.vmap(game.moves)(after)
            status = jax.vmap(game.status)(after, moves)
            ply = ply + 1
            mated = ~over & status.terminated & (status.outcome < 0)
            played = Played(mated=played.mated | mated, plies=jnp.where(mated, ply, played.plies))
            over = over | status.over
            position = jax.vmap(where)(over, start, after)
        return ply, position, over, played

    def goes_on(state: tuple[Array, Position, Array, Played]) -> Bool[Array, ""]:
        return (state[0] < setup.max_plies) & ~state[2].all()

    none = jnp.zeros((batch,), bool)
    played = Played(mated=none, plies=jnp.zeros((batch,), jnp.int32))
    first = (jnp.zeros((), jnp.int32), start, none, played)
    return jax.lax.while_loop(goes_on, turn, first)[3]


@pytree
class Judged:
    """A network's bare judgement of positions `[B]` beside the table's.

    `wdl` is the network's for the mover, `dtm` the table's plies to mate (-1: drawn),
    `strong_to_move` says who moves, `moves` how many legal moves there are, `optimal` whether the
    likeliest move is a best one, `optimal_share` the prior on all best moves; the last two only
    mean something for the strong side.
    """

    wdl: Float[Array, "*b 3"]
    moves_left: Float[Array, "*b"]
    dtm: Int8[Array, "*b"]
    strong_to_move: Bool[Array, "*b"]
    moves: Int32[Array, "*b"]
    optimal: Bool[Array, "*b"]
    optimal_share: Float[Array, "*b"]


@functools.partial(jax.jit, static_argnums=0)
def judge(
    game: Game, network: Any, table: Int8[Array, "I"], records: Record, dtm: Int8[Array, "B"]
) -> Judged:
    """Evaluates positions `[B]` without search and compares with the table."""
    position = jax.vmap(game.position)(records)
    moves = jax.vmap(game.moves)(position)
    keys = jax.random.split(jax.random.key(0), records.ply.shape[0])
    evaluation = network_evaluator(game)(network, keys, position, moves)
    after = jax.vmap(functools.partial(children, game))(position, moves)
    best = optimal_moves(table, after.squares, moves.legal & ~after.bare)
    chances = prior(evaluation, moves)
    likeliest = chances.argmax(axis=-1)[:, None]
    return Judged(
        wdl=evaluation.wdl,
        moves_left=evaluation.moves_left,
        dtm=dtm,
        strong_to_move=jax.vmap(lambda record: locate(record).strong_to_move)(records),
        moves=moves.count,
        optimal=jnp.take_along_axis(best, likeliest, axis=1)[:, 0],
        optimal_share=(best * chances).sum(axis=-1),
    )

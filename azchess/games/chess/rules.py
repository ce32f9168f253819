"""Making a move on a packed board, the identity of positions, and how games end."""

import enum
import functools

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Int8, UInt16, UInt32

from azchess.games.chess.bitboard import Bits, at, flip, shift, union
from azchess.games.chess.labels import DIRECTIONS, JUMPS, NUM_PLANES, PLANE_STEPS
from azchess.games.chess.movement import PAWN_ATTACKS, by_direction, rays
from azchess.games.chess.position import (
    CODES,
    DIAGONAL,
    FROM_LEFT,
    FROM_RIGHT,
    OWN,
    SHORT,
    STRAIGHT,
    Record,
    unpack,
)

A1, C1, D1, F1, G1, H1 = 0, 16, 24, 40, 48, 56
PLANE_OFFSETS = (8 * PLANE_STEPS[:, 0] + PLANE_STEPS[:, 1]).astype(np.int32)


def play(record: Record, label: Int[Array, ""], chess960: bool = False) -> Record:
    """The position after a legal move, seen from the other player; `repetitions` is left at 1.

    Castling is the king's two steps, in Chess960 its way to the rook's square.
    """
    label = label.astype(jnp.int32)
    origin, plane = label // NUM_PLANES, label % NUM_PLANES
    target = origin + jnp.asarray(PLANE_OFFSETS)[plane]
    pieces = unpack(record.board)
    source, goal = at(origin), at(target)
    pawn, king = (pieces.pawns & source).any, (pieces.kings & source).any
    capture = (pieces.theirs & goal).any
    en_passant = pawn & ~capture & ((origin ^ target) >= 8)
    right = target > origin
    if chess960:
        castles = king & (pieces.own & goal).any
        rook, king_goal = goal.where(castles), at(jnp.where(right, G1, C1))
        goal = king_goal.where(castles) | goal.where(~castles)
    else:
        castles = king & (jnp.abs(target - origin) == 16)
        rook = at(jnp.where(right, H1, A1)).where(castles)
    rook_goal = at(jnp.where(right, F1, D1)).where(castles)

    # The planes of the piece that arrives: the one that left, or what the pawn becomes.
    promotes = pawn & ((target & 7) == 7)
    piece = [(Bits(*record.board[code]) & source).any for code in (DIAGONAL, STRAIGHT, SHORT)]
    bishop = (plane // 3 == 1) & promotes
    minor = (plane // 3 == 2) & promotes
    becomes = [((plane >= 9) | bishop), ~bishop, minor]
    arrives = [jnp.where(promotes, new, old) for new, old in zip(becomes, piece, strict=True)]

    gone = source | goal | rook | at(target - 1).where(en_passant)
    planes = []
    for code, on, castled in zip(
        range(4), [*arrives, jnp.bool_(True)], [*CODES["rook"], True], strict=True
    ):
        plane_bits = (Bits(*record.board[code]) & ~gone) | goal.where(on)
        planes.append(plane_bits | rook_goal.where(castled))
    occupied = planes[DIAGONAL] | planes[STRAIGHT] | planes[SHORT]
    planes[OWN] = occupied & ~planes[OWN]
    board = flip(jnp.stack([jnp.stack(bits) for bits in planes]))

    double = pawn & (target - origin == 2)
    return Record(
        board=board,
        castling=_rights(record.castling, origin, target, king),
        en_passant=jnp.where(double, en_passant_captures(board, origin // 8), 0).astype(jnp.int8),
        repetitions=jnp.int8(1),
        clock=jnp.where(pawn | capture, 0, record.clock + 1).astype(jnp.int16),
        ply=record.ply + jnp.int16(1),
    )


def _rights(
    castling: UInt16[Array, ""],
    origin: Int[Array, ""],
    target: Int[Array, ""],
    king: Bool[Array, ""],
) -> UInt16[Array, ""]:
    """The castling rights after a move, seen from the other player.

    They go with a move of the king, a move from the rook's square or a capture on it.
    """
    lost = jnp.where((origin & 7) == 0, 1 << (origin >> 3), 0)
    lost = jnp.where(king, 0xFF, lost) | jnp.where((target & 7) == 7, 1 << (8 + (target >> 3)), 0)
    left = castling & ~lost.astype(jnp.uint16)
    return (left >> 8) | (left << 8)


def en_passant_captures(board: UInt32[Array, "4 2"], file: Int[Array, ""]) -> Int8[Array, ""]:
    """Who may capture the pawn that has just gone two squares on this file, as in `Record`.

    The capture empties two squares of the fifth rank at once, so each is tried on the board: legal
    if no line to the king is open afterwards.
    """
    pieces = unpack(board)
    king = pieces.own & pieces.kings
    victim, goal = at(8 * file + 4), at(8 * file + 5)
    capturers = shift(victim, np.array([(-1, 0), (1, 0)])) & pieces.own & pieces.pawns
    occupied = ((pieces.own | pieces.theirs) & ~victim & ~capturers) | goal
    # All lines of both captures side by side, [16]: XLA on the CPU is slower with two axes.
    empty = Bits(*(jnp.repeat(~word, 8) for word in occupied))
    sliders = Bits(*(jnp.tile(word, 2) for word in by_direction(pieces, pieces.theirs)))
    lines = rays(king, empty, np.tile(DIRECTIONS, (2, 1)))
    exposed = (lines & sliders).any.reshape(2, 8).any(axis=-1)
    knight = union(shift(king, JUMPS) & pieces.knights & pieces.theirs).any
    pawns = pieces.pawns & pieces.theirs & ~victim
    pawn = union(shift(king, PAWN_ATTACKS) & pawns).any
    legal = capturers.any & ~exposed & ~knight & ~pawn
    flags = jnp.where(legal[0], FROM_LEFT, 0) | jnp.where(legal[1], FROM_RIGHT, 0)
    return jnp.where(flags != 0, flags | file, 0).astype(jnp.int8)


ZOBRIST = np.random.default_rng(9_2_3).integers(0, 2**32, (2, 288), dtype=np.uint32)
"""Random keys of twice 32 bits: one for each bit of a packed board, for each rook that may castle,
en passant on each of the eight files, the right to capture en passant at all, black to move; the
last six are never used."""


def identity(record: Record) -> UInt32[Array, "2"]:
    """A hash of what makes two positions the same: pieces, mover, castling, en passant if legal.

    Zobrist's: the exclusive or of a random key for everything that is there. Keys belong to the
    bits of the packed board, so a piece's key is the combination of its planes' keys.
    """
    file = jnp.uint32(1 << 16) << (record.en_passant & 7).astype(jnp.uint32)
    state = record.castling | jnp.where(record.en_passant != 0, file | (1 << 24), 0)
    state |= record.black.astype(jnp.uint32) << 25
    words = jnp.append(record.board.ravel(), state)
    places, keys = np.arange(32, dtype=np.uint32), ZOBRIST.reshape(2, 9, 32)

    # Word by word, because XLA on the CPU would write the keys of all words to memory.
    chosen = [
        jnp.where((words[index] >> places) & 1 != 0, keys[:, index], np.uint32(0))
        for index in range(9)
    ]
    # Not by `halve`, whose last steps XLA would repeat for every comparison with an earlier hash.
    return lax.reduce(functools.reduce(lax.bitwise_xor, chosen), np.uint32(0), lax.bitwise_xor, [1])


def insufficient_material(board: UInt32[Array, "4 2"]) -> Bool[Array, ""]:
    """True where neither side could mate: bare kings but for one knight, or but for bishops that
    all stand on squares of one colour."""
    pieces = unpack(board)
    dark = Bits(*(jnp.uint32(word) for word in (0xAA55AA55, 0xAA55AA55)))
    bishops = pieces.diagonal & ~pieces.straight
    one_colour = ~(bishops & dark).any | ~(bishops & ~dark).any
    no_knight = ~pieces.knights.any
    three = (pieces.own | pieces.theirs).size <= 3
    return ~(pieces.pawns | pieces.straight).any & jnp.where(no_knight, one_colour, three)


class Ending(enum.IntEnum):
    """Why a game is over; `FIFTY_MOVES` stands for the limit of quiet plies, whichever it is."""

    NONE = 0
    CHECKMATE = 1
    STALEMATE = 2
    INSUFFICIENT_MATERIAL = 3
    FIFTY_MOVES = 4
    REPETITION = 5
    PLY_CAP = 6

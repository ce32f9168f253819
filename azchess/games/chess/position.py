"""What one chess position is made of: a packed board, its rights, and what the draw rules need."""

import itertools
from collections.abc import Container
from functools import cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int8, Int16, UInt16, UInt32

from azchess.games.chess.bitboard import Bits
from azchess.pytree import pytree

DIAGONAL, STRAIGHT, SHORT, OWN = range(4)
"""The planes of a packed board.

Bishops and queens stand on the first plane, rooks and queens on the second. Pieces on the third
move short: pawns stand on it alone, knights also on the second, kings also on the first. The
fourth holds the mover's pieces of all kinds.
"""

CODES = {
    "pawn": (False, False, True),
    "knight": (False, True, True),
    "bishop": (True, False, False),
    "rook": (False, True, False),
    "queen": (True, True, False),
    "king": (True, False, True),
}
"""On which of the first three planes a piece stands."""

FROM_LEFT, FROM_RIGHT = 8, 16
"""En passant may be played by the pawn to the left (file - 1), to the right, or by both."""


@pytree
class Record:
    """One ply as replay keeps it, seen from the mover, in 40 bytes; all zeros is "no board"."""

    board: UInt32[Array, "*b 4 2"]
    """32 bytes: planes `DIAGONAL`, `STRAIGHT`, `SHORT`, `OWN`, each 64 bits (see `bitboard`)."""
    castling: UInt16[Array, "*b"]
    """2 bytes: the files of the rooks that may still castle, the a-file lowest: the mover's in
    bits 0 to 7, the opponent's in bits 8 to 15. A side has at most one on each side of its king."""
    en_passant: Int8[Array, "*b"]
    """1 byte: 0 where no en passant capture is legal, else the file (0 to 7) of the target square
    on the sixth rank plus `FROM_LEFT` and `FROM_RIGHT` for the pawns that may capture."""
    repetitions: Int8[Array, "*b"]
    """1 byte: how often the position has occurred by now, this time included (1 = first time)."""
    clock: Int16[Array, "*b"]
    """2 bytes: plies since the last capture or pawn move."""
    ply: Int16[Array, "*b"]
    """2 bytes: plies since the start of the game; odd where black is the mover."""

    @property
    def black(self) -> Bool[Array, "*b"]:
        """True where black is the mover."""
        return (self.ply & 1) == 1


@pytree
class Position:
    """A chess position with what its rules must remember: 848 bytes, 1,128 with eight boards.

    40 bytes the position, 8 its hash, 8 for each of the 100 earlier positions that can still be
    repeated, 40 for each earlier board that the network sees.
    """

    now: Record
    past: Record | None
    """The H - 1 plies before, `[*b, H - 1]`, the newest first, each seen from its own mover; None
    where the network sees one board."""
    hash: UInt32[Array, "*b 2"]
    """Equal for positions that are the same by the laws of chess (9.2.3)."""
    seen: UInt32[Array, "*b M 2"]
    """The hashes of the positions since the last capture or pawn move, by their clocks; entries at
    and above the clock are stale."""

    @property
    def black(self) -> Bool[Array, "*b"]:
        """True where black is the mover."""
        return self.now.black


class Pieces(NamedTuple):
    """A board as sets of squares; a piece belongs to the mover if it is in `own`."""

    own: Bits
    theirs: Bits
    pawns: Bits
    knights: Bits
    kings: Bits
    diagonal: Bits
    """Bishops and queens."""
    straight: Bits
    """Rooks and queens."""

    @property
    def kinds(self) -> tuple[Bits, Bits, Bits, Bits, Bits, Bits]:
        """Pawns, knights, bishops, rooks, queens and kings of both sides."""
        queens = self.diagonal & self.straight
        bishops, rooks = self.diagonal & ~queens, self.straight & ~queens
        return self.pawns, self.knights, bishops, rooks, queens, self.kings


def unpack(board: UInt32[Array, "*b 4 2"]) -> Pieces:
    """The sets of squares of a packed board."""
    diagonal, straight, short, own = (
        Bits(board[..., plane, 0], board[..., plane, 1]) for plane in range(4)
    )
    return Pieces(
        own=own,
        theirs=(diagonal | straight | short) & ~own,
        pawns=short & ~diagonal & ~straight,
        knights=short & straight,
        kings=short & diagonal,
        diagonal=diagonal & ~short,
        straight=straight & ~short,
    )


STANDARD = 518
"""The number of the standard start position among those of Chess960."""


@cache
def _first_ranks() -> tuple[tuple[str, ...], ...]:
    """The pieces on the first rank, file by file, in each of the 960 starts of Chess960.

    By Scharnagl's numbers: the lowest digit places the bishop on a light square, the next the one
    on a dark square, then the queen and the two knights on what is free; king between the rooks.
    """
    ranks = []
    for number in range(960):
        rest, light = divmod(number, 4)
        rest, dark = divmod(rest, 4)
        knights, queen = divmod(rest, 6)
        pieces = {2 * light + 1: "bishop", 2 * dark: "bishop"}
        pieces[_free(pieces)[queen]] = "queen"
        free, pair = _free(pieces), list(itertools.combinations(range(5), 2))[knights]
        pieces |= {free[place]: "knight" for place in pair}
        pieces |= dict(zip(_free(pieces), ("rook", "king", "rook"), strict=True))
        ranks.append(tuple(pieces[file] for file in range(8)))
    return tuple(ranks)


def _free(pieces: Container[int]) -> list[int]:
    return [file for file in range(8) if file not in pieces]


@cache
def _starts() -> tuple[UInt32[np.ndarray, "960 4 2"], UInt16[np.ndarray, "960"]]:
    """The packed boards and the castling rights of the 960 starts."""
    codes = np.array([[(*CODES[piece], False) for piece in rank] for rank in _first_ranks()])
    ends, pawns = codes.transpose(0, 2, 1) * 0b10000001, np.array([0, 0, 0b01000010, 0])
    own = np.array([0, 0, 0, 0b00000011])
    files = (ends + (pawns + own)[:, None]).astype("<u4").reshape(960, 4, 2, 4)
    rooks = np.array([[piece == "rook" for piece in rank] for rank in _first_ranks()])
    rights = (rooks * (0x101 << np.arange(8))).sum(axis=1)
    boards = (files << (8 * np.arange(4, dtype=np.uint32))).sum(axis=-1, dtype=np.uint32)
    return boards, rights.astype(np.uint16)


def start(number: Int[Array, ""] | int = STANDARD) -> Record:
    """The start position of a number (0 to 959) of Chess960; by default the standard one.

    Raises ValueError for a number outside 0 to 959; a traced one is taken to be right.
    """
    if isinstance(number, int | np.integer) and not 0 <= number < 960:
        raise ValueError(f"start position {number}: Chess960 has the numbers 0 to 959")
    boards, rights = _starts()
    return Record(
        board=jnp.asarray(boards)[number],
        castling=jnp.asarray(rights)[number],
        en_passant=jnp.int8(0),
        repetitions=jnp.int8(1),
        clock=jnp.int16(0),
        ply=jnp.int16(0),
    )

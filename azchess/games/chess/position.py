"""What one chess position is made of: a packed board, its rights, and what the draw rules need."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int8, Int16, UInt8, UInt32

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

OWN_KINGSIDE, OWN_QUEENSIDE, THEIR_KINGSIDE, THEIR_QUEENSIDE = 1, 2, 4, 8
"""The bits of the castling rights."""

FROM_LEFT, FROM_RIGHT = 8, 16
"""En passant may be played by the pawn to the left (file - 1), to the right, or by both."""


@pytree
class Record:
    """One ply as replay keeps it, seen from the mover, in 39 bytes; all zeros is "no board"."""

    board: UInt32[Array, "*b 4 2"]
    """32 bytes: planes `DIAGONAL`, `STRAIGHT`, `SHORT`, `OWN`, each 64 bits (see `bitboard`)."""
    castling: UInt8[Array, "*b"]
    """1 byte: the sum of the rights that remain (`OWN_KINGSIDE` and so on)."""
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
    """A chess position with what its rules must remember: 847 bytes, 1,120 with eight boards.

    39 bytes the position, 8 its hash, 8 for each of the 100 earlier positions that can still be
    repeated, 39 for each earlier board that the network sees.
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


def start() -> Record:
    """The start position."""
    pieces = ["rook", "knight", "bishop", "queen", "king", "bishop", "knight", "rook"]
    board = [[0, 0] for _ in range(4)]
    for file, piece in enumerate(pieces):
        for rank, kind in ((0, piece), (1, "pawn"), (6, "pawn"), (7, piece)):
            for plane, on in enumerate((*CODES[kind], rank < 2)):
                board[plane][file // 4] |= on << (8 * (file % 4) + rank)
    return Record(
        board=jnp.array(board, jnp.uint32),
        castling=jnp.uint8(15),
        en_passant=jnp.int8(0),
        repetitions=jnp.int8(1),
        clock=jnp.int16(0),
        ply=jnp.int16(0),
    )

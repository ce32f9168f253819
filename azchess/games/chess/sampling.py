"""Random positions: the men of an ending, spread over the board."""

import dataclasses
import functools
import re
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32

from azchess.games.chess import movement
from azchess.games.chess.bitboard import Bits, flip, shift
from azchess.games.chess.game import ChessGame
from azchess.games.chess.labels import DIRECTIONS, JUMPS
from azchess.games.chess.position import CODES, Pieces, Record, start, unpack

LETTERS = {"K": "king", "Q": "queen", "R": "rook", "B": "bishop", "N": "knight", "P": "pawn"}
AT_START = {"Q": 1, "R": 2, "B": 2, "N": 2}
"""How many of a piece a side begins with; what is more were pawns."""
BATCH = 16_384
"""Placements that are tried at once: one shape, compiled once."""
PATIENCE = 50
"""Batches in a row that may bring nothing before the search is given up."""


@dataclasses.dataclass(frozen=True)
class Material:
    """The men of both sides, kings first, such as ("KR", "KP")."""

    white: str
    black: str


def parse_material(text: str) -> Material:
    """Reads material such as KRvKP, white's men first.

    Raises ValueError for what is no such text and for men that no game can lead to.
    """
    match = re.fullmatch(r"(K[QRBNP]*)v(K[QRBNP]*)", text)
    if match is None:
        raise ValueError(
            f"material {text!r}: must be two sides with a v between them, as in KRvKP, each a K "
            "and any of Q, R, B, N, P"
        )
    for side in match.groups():
        promoted = sum(max(0, side.count(piece) - most) for piece, most in AT_START.items())
        if len(side) > 16 or side.count("P") + promoted > 8:
            raise ValueError(
                f"material {text!r}: {side} is impossible: a side has 16 men at most, and its "
                "pawns and promoted pieces are 8 together at most"
            )
    return Material(*match.groups())


def sample_positions(
    game: ChessGame,
    material: str,
    count: int,
    seed: int | Sequence[int] = 0,
    either_side: bool = True,
) -> Record:
    """Random positions `[count]` of some material, as records, in which a game can go on.

    All legal positions with these men are equally likely, white or black to move (always white
    where `either_side` is False), without castling rights or en passant; finished games are not
    drawn. Legal means: no pawn on the first or last rank, the kings apart, the side that has moved
    not in check, and the mover not in check by three men or by two along one line. Equal arguments
    give equal positions.

    Raises ValueError for material that cannot be read, is impossible, or that no game goes on with.
    """
    if count < 1:
        raise ValueError(f"count = {count}: must be at least 1")
    men = parse_material(material)
    random = np.random.default_rng(seed)
    found: list[Record] = []
    missing, in_vain = count, 0
    while missing > 0:
        black = either_side & (random.integers(2, size=BATCH) == 1)
        records = place(men, _squares(men, random), black)
        good = np.flatnonzero(_playable(game, records))[:missing]
        in_vain = 0 if len(good) else in_vain + 1
        if in_vain == PATIENCE:
            raise ValueError(
                f"material {material!r}: only {count - missing} of {count} positions found among "
                f"random ones in which a game can go on"
            )
        found.append(jax.tree.map(lambda leaf, rows=good: np.asarray(leaf)[rows], records))
        missing -= len(good)
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *found)


def place(men: Material, squares: Int[np.ndarray, "M K"], black: Bool[np.ndarray, "M"]) -> Record:
    """Records `[M]` with the men on these squares, white's men first, and black to move or not.

    Squares are seen from white, file by file from a1.
    """
    seen = np.where(black[:, None], squares ^ 7, squares)
    board = np.zeros((len(squares), 4, 2), np.uint32)
    for index, letter in enumerate(men.white + men.black):
        bit = np.uint32(1) << (seen[:, index] % 32).astype(np.uint32)
        own = black != (index < len(men.white))
        for plane, on in enumerate((*CODES[LETTERS[letter]], own)):
            for word in range(2):
                here = on & (seen[:, index] // 32 == word)
                board[:, plane, word] |= np.where(here, bit, np.uint32(0))
    size = len(squares)
    zeros = jax.tree.map(lambda leaf: jnp.zeros((size, *leaf.shape), leaf.dtype), start())
    return dataclasses.replace(
        zeros,
        board=jnp.asarray(board),
        repetitions=jnp.ones_like(zeros.repetitions),
        ply=jnp.asarray(black, zeros.ply.dtype),
    )


def _squares(men: Material, random: np.random.Generator) -> Int[np.ndarray, "M K"]:
    """Different squares `[BATCH, K]` for all men, pawns between the second and seventh rank.

    Pawns choose first, so that every placement is as likely as any other.
    """
    letters = np.array(list(men.white + men.black))
    pawns = np.flatnonzero(letters == "P")
    others = np.flatnonzero(letters != "P")
    edge, last = np.isin(np.arange(64) % 8, (0, 7)), 2.0
    order = np.where(edge, last, random.random((BATCH, 64)))
    chosen = np.argsort(order, axis=1)[:, : len(pawns)]
    order = random.random((BATCH, 64))
    np.put_along_axis(order, chosen, last, axis=1)
    squares = np.empty((BATCH, len(letters)), np.int64)
    squares[:, pawns] = chosen
    squares[:, others] = np.argsort(order, axis=1)[:, : len(others)]
    return squares


@functools.partial(jax.jit, static_argnums=0)
def _playable(game: ChessGame, records: Record) -> Bool[Array, "M"]:
    """Which positions are legal and not over."""

    def look(record: Record) -> Bool[Array, ""]:
        position = game.position(record)
        over = game.status(position, game.moves(position)).over
        return is_legal(record) & ~over

    return jax.vmap(look)(records)


def is_legal(record: Record) -> Bool[Array, ""]:
    """Whether a game can reach the position, as far as kings and checks tell (see
    `sample_positions`); castling and en passant are not looked at."""
    pieces = unpack(record.board)
    kings_touch = (shift(pieces.own & pieces.kings, DIRECTIONS) & pieces.theirs & pieces.kings).any
    diagonal, straight, short, own = record.board
    occupied = diagonal | straight | short
    other = flip(jnp.stack([diagonal, straight, short, occupied & ~own]))
    in_check = movement.threats(unpack(other)).check
    lines, jumps = _checks(pieces)
    along_one_line = (lines & jnp.roll(lines, 4)).any()
    return ~kings_touch.any() & ~in_check & (lines.sum() + jumps <= 2) & ~along_one_line


def _checks(pieces: Pieces) -> tuple[Bool[Array, "8"], Int32[Array, ""]]:
    """From which of the eight directions the mover is in check, and by how many knights."""
    king = pieces.own & pieces.kings
    sights = movement.rays(king, ~(pieces.own | pieces.theirs), DIRECTIONS)
    lines = (sights & movement.by_direction(pieces, pieces.theirs)).any
    pawns = (shift(king, DIRECTIONS) & pieces.pawns & pieces.theirs).where(
        np.isin(np.arange(8), (1, 7))
    )
    knights: Bits = shift(king, JUMPS) & pieces.knights & pieces.theirs
    return lines | pawns.any, knights.any.sum(dtype=jnp.int32)

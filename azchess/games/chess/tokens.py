"""What a network sees of a chess position: one token per square."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

from azchess.games.chess.bitboard import Bits, flip
from azchess.games.chess.position import (
    OWN_KINGSIDE,
    OWN_QUEENSIDE,
    THEIR_KINGSIDE,
    THEIR_QUEENSIDE,
    Record,
    unpack,
)

BOARD_FEATURES = 14
"""Six kinds of own pieces, six of the opponent's, occurred twice, occurred three times or more."""
GLOBAL_FEATURES = 6
"""Four castling rights, the en passant square, the fifty-move clock."""


def num_features(num_boards: int) -> int:
    """The features of each token."""
    return BOARD_FEATURES * num_boards + GLOBAL_FEATURES


def tokens(history: Record) -> Float[Array, "64 F"]:
    """Boards, repetitions and rights `[64, 14 H + 6]` of records `[H]`, seen from the mover of the
    newest, which comes first.

    Per board: pawn, knight, bishop, rook, queen, king of the mover, the same of the opponent, 1 on
    every square if the position then stood on the board for the second time, 1 if for the third
    time or more. Then the mover's right to castle kingside and queenside, the opponent's, the
    target of a legal en passant capture, and the plies since the last capture or pawn move / 100.
    """
    board = history.board
    turned = ((history.ply - history.ply[0]) & 1) == 1
    board = jnp.where(turned[:, None, None], flip(board), board)
    pieces = unpack(board)
    mine, other = pieces.own, pieces.theirs
    queens = pieces.diagonal & pieces.straight
    kinds = [
        pieces.pawns,
        pieces.knights,
        pieces.diagonal & ~queens,
        pieces.straight & ~queens,
        queens,
        pieces.kings,
    ]
    sides = [
        Bits(*(jnp.where(turned, b, a) for a, b in zip(own, their, strict=True)))
        for own, their in ((mine, other), (other, mine))
    ]
    placed = jnp.stack(
        [jnp.stack([*(kind & side)], axis=-1) for side in sides for kind in kinds], axis=1
    )
    repeated = jnp.stack([history.repetitions == 2, history.repetitions > 2], axis=1)
    boards = jnp.concatenate(
        [_on_squares(placed), jnp.broadcast_to(repeated[:, :, None], (*repeated.shape, 64))], axis=1
    )
    return jnp.concatenate(
        [boards.reshape(-1, 64).T.astype(jnp.float32), _globals(history)], axis=1
    )


def _on_squares(words: UInt32[Array, "*b 2"]) -> Bool[Array, "*b 64"]:
    """Bits as one truth value per square."""
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return bits.reshape(*words.shape[:-1], 64) != 0


def _globals(history: Record) -> Float[Array, "64 6"]:
    """The features of the newest position alone."""
    castling, en_passant, clock = history.castling[0], history.en_passant[0], history.clock[0]
    flags = [OWN_KINGSIDE, OWN_QUEENSIDE, THEIR_KINGSIDE, THEIR_QUEENSIDE]
    rights = [jnp.full(64, (castling & flag) != 0) for flag in flags]
    target = (en_passant != 0) & (jnp.arange(64) == 8 * (en_passant & 7) + 5)
    columns = [*rights, target, jnp.full(64, clock.astype(jnp.float32) / 100)]
    return jnp.stack([column.astype(jnp.float32) for column in columns], axis=1)

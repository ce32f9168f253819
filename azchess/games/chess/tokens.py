"""What a network sees of a chess position: one token per square."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, UInt32

from azchess.games.chess.bitboard import Bits, flip
from azchess.games.chess.position import Record, unpack

BOARD_FEATURES = 14
"""Six kinds of own pieces, six of the opponent's, occurred twice, occurred three times or more."""
GLOBAL_FEATURES = 6
"""Four castling rights, the en passant square, the fifty-move clock."""


def num_features(num_boards: int) -> int:
    """The features of each token."""
    return BOARD_FEATURES * num_boards + GLOBAL_FEATURES


def tokens(history: Record, chess960: bool = False) -> Float[Array, "64 F"]:
    """Boards, repetitions and rights `[64, 14 H + 6]` of records `[H]`, seen from the mover of the
    newest, which comes first.

    Per board: pawn, knight, bishop, rook, queen, king of the mover, the same of the opponent, 1 on
    every square if the position then stood on the board for the second time, 1 if for the third
    time or more. Then the mover's right to castle kingside and queenside, the opponent's (on every
    square; in Chess960 on the rook's alone, as it could be any), the target of a legal en passant
    capture, and the plies since the last capture or pawn move / 100.
    """
    board = history.board
    turned = ((history.ply - history.ply[0]) & 1) == 1
    board = jnp.where(turned[:, None, None], flip(board), board)
    pieces = unpack(board)
    mine, other = pieces.own, pieces.theirs
    sides = [
        Bits(*(jnp.where(turned, b, a) for a, b in zip(own, their, strict=True)))
        for own, their in ((mine, other), (other, mine))
    ]
    placed = jnp.stack(
        [jnp.stack([*(kind & side)], axis=-1) for side in sides for kind in pieces.kinds], axis=1
    )
    repeated = jnp.stack([history.repetitions == 2, history.repetitions > 2], axis=1)
    boards = jnp.concatenate(
        [_on_squares(placed), jnp.broadcast_to(repeated[:, :, None], (*repeated.shape, 64))], axis=1
    )
    return jnp.concatenate(
        [boards.reshape(-1, 64).T.astype(jnp.float32), _globals(history, chess960)], axis=1
    )


def _on_squares(words: UInt32[Array, "*b 2"]) -> Bool[Array, "*b 64"]:
    """Bits as one truth value per square."""
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return bits.reshape(*words.shape[:-1], 64) != 0


def _globals(history: Record, chess960: bool) -> Float[Array, "64 6"]:
    """The features of the newest position alone."""
    en_passant, clock, square = history.en_passant[0], history.clock[0], jnp.arange(64)
    if chess960:
        rights = _rooks_that_may_castle(history)
    else:
        rights = [jnp.full(64, ((history.castling[0] >> bit) & 1) != 0) for bit in (7, 0, 15, 8)]
    target = (en_passant != 0) & (square == 8 * (en_passant & 7) + 5)
    columns = [*rights, target, jnp.full(64, clock.astype(jnp.float32) / 100)]
    return jnp.stack([column.astype(jnp.float32) for column in columns], axis=1)


def _rooks_that_may_castle(history: Record) -> list[Bool[Array, "64"]]:
    """The mover's rook to the right of its king, the one to the left, the opponent's two."""
    pieces, square = unpack(history.board[0]), jnp.arange(64)
    marked = []
    for side, rank, shift in ((pieces.own, 0, 0), (pieces.theirs, 7, 8)):
        may = (history.castling[0] >> (shift + square // 8).astype(jnp.uint16)) & 1 != 0
        rook = may & (square % 8 == rank)
        king = (_on_squares(jnp.stack(side & pieces.kings)) * square).sum()
        marked += [rook & (square > king), rook & (square < king)]
    return marked

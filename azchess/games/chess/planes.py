"""AlphaZero's 119 planes of a chess game and the mask over its 4,672 labels, bit by bit.

A plane is a set of squares in two words, and so are the from-squares of the labels that share a
plane of moves; what is dense is written once, at the end.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, UInt32

from azchess.games.chess.bitboard import FULL, Bits, first_rank, flip
from azchess.games.chess.labels import DIRECTIONS, JUMPS, NUM_LABELS, NUM_PLANES, PLANE_STEPS
from azchess.games.chess.movement import Targets
from azchess.games.chess.position import Record, unpack

NUM_BOARDS = 8
"""The boards that AlphaZero's network sees."""
BOARD_PLANES = 14
"""Six kinds of own pieces, six of the opponent's, two for repetitions."""
SHAPE = (8, 8, NUM_BOARDS * BOARD_PLANES + 7)
"""Ranks from the far one to the near one, files from a to h, planes."""
PLIES, CLOCK = 113, 118
"""The planes of numbers; the others hold truth values."""
MOST_PLIES = 512
"""What pgx divides the number of plies by, its longest game."""


def planes(history: Record, black: Bool[Array, ""] | None = None) -> Float[Array, "8 8 119"]:
    """The last eight boards as AlphaZero's network sees them, in the layout of pgx.

    history: records `[8]`, the newest first, zeros where there was none.
    black: whether black looks at the board; by default the mover does.

    For each board, the newest first: pawns, knights, bishops, rooks, queens and king of the viewer,
    the same of the opponent, 1 everywhere if the position then stood on the board for the second
    time or more, 1 everywhere if for the third time or more. Then, on every square: the viewer's
    colour (1 black), plies played / 512, the right to castle queenside and kingside of the viewer,
    the same of the opponent, plies without capture or pawn move / 100. Silver et al. 2018 (A
    general reinforcement learning algorithm that masters chess, shogi, and Go), table S1.

    Pieces, colour, rights and clock are pgx 2.6.0's, bit for bit. What is not: pgx counts the
    repetitions of older boards up to now and not up to then, has planes for "first time" and "seen
    before" in the place of these two, marks boards before the game as seen for the first time, and
    gives a FEN the start position as its past and no move number.
    """
    viewer = history.black[0] if black is None else black
    turned = history.black != viewer
    board = jnp.where(turned[:, None, None], flip(history.board), history.board)
    pieces = unpack(board)
    kind = Bits(*(jnp.stack(words, axis=1) for words in zip(*pieces.kinds, strict=True)))
    mine, other = (
        Bits(*(jnp.where(turned, a, b)[:, None] for a, b in zip(*sides, strict=True)))
        for sides in ((pieces.theirs, pieces.own), (pieces.own, pieces.theirs))
    )
    repeated = _everywhere(jnp.stack([history.repetitions >= 2, history.repetitions >= 3], axis=1))
    boards = [
        jnp.concatenate([a, b, repeated], axis=1).reshape(-1)
        for a, b in zip(kind & mine, kind & other, strict=True)
    ]

    rights = _rights(jax.tree.map(lambda leaf: leaf[0], history))
    rights = jnp.where(turned[0], rights[::-1], rights)
    always = jnp.bool_(True)
    facts = jnp.stack([viewer, always, *rights.reshape(4), always])
    words = jnp.stack([jnp.concatenate([half, _everywhere(facts)]) for half in boards])
    index = jnp.arange(SHAPE[2])
    scale = jnp.where(index == PLIES, history.ply[0].astype(jnp.float32) / MOST_PLIES, 1.0)
    scale = jnp.where(index == CLOCK, history.clock[0].astype(jnp.float32) / 100.0, scale)
    # Square 8 * file + rank: files are bytes, and the far rank comes first.
    place = 8 * np.arange(4)[None, None, :, None] + np.arange(7, -1, -1)[:, None, None, None]
    bits = (_once(words)[None, :, None, :] >> jnp.asarray(place, jnp.uint32)) & 1
    return (bits.astype(jnp.float32) * scale).reshape(SHAPE)


def _rights(record: Record) -> Bool[Array, "2 2"]:
    """Whether mover and opponent may castle to the queenside and to the kingside."""
    pieces = unpack(record.board)
    kings = pieces.kings & pieces.own, Bits(*map(flip, pieces.kings & pieces.theirs))
    rows = []
    for files, king in zip((record.castling & 0xFF, record.castling >> 8), kings, strict=True):
        place = first_rank(king)  # a file as a bit, as those of the rooks; none is the king's
        rows.append(jnp.stack([(files & (place - 1)) != 0, files > place]))
    return jnp.stack(rows)


def _once(words: UInt32[Array, "*n"]) -> UInt32[Array, "*n"]:
    """The same words, after a border that XLA's fusion does not cross.

    Without it a word is computed again for each of its 32 bits on the CPU, where
    `lax.optimization_barrier` does not hold.
    """
    return lax.fori_loop(0, 2, lambda _, word: ~word, words)


def _everywhere(on: Bool[Array, "*n"]) -> UInt32[Array, "*n"]:
    """A word of ones where the condition holds."""
    return jnp.where(on, FULL, np.uint32(0))


def _plane_terms() -> np.ndarray:
    """`[3, 73]`: which set of targets the moves of a plane are in, at which distance, and how far
    their bits are from those of the from-squares."""
    terms = []
    for plane, (x, y) in enumerate(PLANE_STEPS):
        if plane < 9:
            kind, lane = divmod(plane, 3)
            terms.append((16 + lane, kind, 8 * x + y - kind))
        elif plane < 65:
            distance = max(abs(x), abs(y))
            lane = (np.array([x, y]) // distance == DIRECTIONS).all(axis=1).argmax()
            terms.append((lane, distance, 8 * x + y))
        else:
            lane = (np.array([x, y]) == JUMPS).all(axis=1).argmax()
            terms.append((8 + lane, 0, 8 * x + y))
    return np.array(terms).T


LANE, DISTANCE, OFFSET = _plane_terms()


def legal_mask(found: Targets, everything: Bool[Array, ""] | bool = False) -> Bool[Array, "4672"]:
    """True for the labels of the legal moves, whose targets are given, or for all labels."""
    found_words = jnp.stack([*found.squares, *(word for bits in found.distances for word in bits)])
    lo, hi, *distances = _of_plane(found_words)
    for power in range(3):
        wanted = np.where(DISTANCE >> power & 1, np.uint32(0), FULL)
        lo &= distances[2 * power] ^ wanted
        hi &= distances[2 * power + 1] ^ wanted
    words = jnp.stack(
        [
            _down(lo, OFFSET) | _down(hi, OFFSET - 32),
            _down(hi, OFFSET) | _down(lo, OFFSET + 32),
        ]
    )
    words = jnp.where(everything, FULL, words)
    places = np.arange(32, dtype=np.uint32)[:, None]

    # A loop over the two words of a set, because XLA on the CPU would compute a word again for each
    # of its bits, and divide the index of each label.
    def write(half: Int[Array, ""], mask: Bool[Array, "2 32 73"]) -> Bool[Array, "2 32 73"]:
        bits = (words[half] >> places) & 1
        return lax.dynamic_update_index_in_dim(mask, bits != 0, half, axis=0)

    return lax.fori_loop(0, 2, write, jnp.zeros((2, 32, NUM_PLANES), bool)).reshape(NUM_LABELS)


def _of_plane(words: UInt32[Array, "n 19"]) -> UInt32[Array, "n 73"]:
    """`words[:, LANE]`, without a gather."""
    runs = jnp.stack([words[:, lane] for lane in LANE[9:65:7]], axis=1)
    promotions, jumps = jnp.tile(words[:, 16:], 3), words[:, 8:16]
    return jnp.concatenate([promotions, jnp.repeat(runs, 7, axis=1), jumps], axis=1)


def _down(words: UInt32[Array, "n"], places: np.ndarray) -> UInt32[Array, "n"]:
    """Moves bits down by as many places, up where negative; what leaves the word is gone."""
    up, down = (np.clip(sign * places, 0, 31).astype(np.uint32) for sign in (-1, 1))
    stays = np.where(np.abs(places) < 32, FULL, np.uint32(0))
    return ((words << up) >> down) & stays

"""Legal chess moves: where the mover's pieces may go, and the list of their labels.

A target square and the direction of the move give the piece: it is the first one met on the way
back. So the legal moves are sixteen sets of target squares, one for each of a queen's directions
(with the distance of each target) and one for each of a knight's jumps, and three for promotions.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Int, Shaped, UInt16, UInt32

from azchess.games.chess.bitboard import (
    FULL,
    Bits,
    at,
    common,
    first_rank,
    on_first_rank,
    rank,
    shift,
    span,
    union,
)
from azchess.games.chess.labels import (
    DIRECTIONS,
    JUMPS,
    NUM_PLANES,
    PLANE_OF_STEP,
    PROMOTIONS,
)
from azchess.games.chess.position import (
    FROM_LEFT,
    FROM_RIGHT,
    Pieces,
    Record,
    unpack,
)
from azchess.games.game import Moves

ON_DIAGONAL = np.arange(8) % 2 == 1
"""Which of the eight `DIRECTIONS` are a bishop's."""
REVERSED = np.roll(DIRECTIONS, 4, axis=0)
PAWN_ATTACKS = PROMOTIONS[1:]
RIGHT, LEFT = 2, 6
"""The two of the eight `DIRECTIONS` in which a king castles."""
C, D, E, F, G = (np.uint32(1 << file) for file in range(2, 7))
"""Files as bits, where castling brings king and rook."""


class Threats(NamedTuple):
    """What the opponent's pieces do to the mover's king."""

    danger: Bits
    """Squares the king must not enter: attacked once the king has left its square."""
    check: Bool[Array, ""]
    answers: Bits
    """Squares where a move of another piece leaves no check: all where there is none, the checker
    and the squares between in single check, none in double check."""
    pinned: Bits
    """`[8]`: own pieces that are pinned by an attack in each of the `DIRECTIONS`."""


def rays(start: Bits, empty: Bits, steps: np.ndarray) -> Bits:
    """The squares that sliding pieces reach, the first piece in their way included.

    A loop, because XLA fuses unrolled steps into expressions that it computes again for every use.
    """

    def further(_: int | Int[Array, ""], reached: tuple[Bits, Bits]) -> tuple[Bits, Bits]:
        front = shift(reached[0] & empty, steps)
        return front, reached[1] | front

    first = shift(start, steps)
    return lax.fori_loop(0, 6, further, (first, first))[1]


def by_direction(pieces: Pieces, side: Bits) -> Bits:
    """`[8]`: the side's pieces that slide in each direction."""
    return (pieces.diagonal & side).where(ON_DIAGONAL) | (pieces.straight & side).where(
        ~ON_DIAGONAL
    )


def threats(pieces: Pieces) -> Threats:
    """Checks, pins and attacked squares."""
    own, theirs = pieces.own, pieces.theirs
    king = own & pieces.kings
    empty = ~(own | theirs)
    # Both ends of every line: from the opponent's sliders, looking through the king, and from the
    # king towards them. A piece that both meet first is pinned.
    attacks = rays(by_direction(pieces, theirs), empty | king, DIRECTIONS)
    sights = rays(king, empty, REVERSED)
    slid = (attacks & king).any
    pawns, knights = pieces.pawns & theirs, pieces.knights & theirs
    leapers = union(shift(king, PAWN_ATTACKS) & pawns) | union(shift(king, JUMPS) & knights)
    through = common(Bits(*(jnp.where(slid, word, FULL) for word in sights)))
    single = Bits(*(jnp.where(leapers.any, word, FULL) for word in leapers))
    danger = (
        union(attacks)
        | union(shift(pawns, -PAWN_ATTACKS))
        | union(shift(knights, JUMPS))
        | union(shift(theirs & pieces.kings, DIRECTIONS))
    )
    return Threats(
        danger=danger,
        check=jnp.any(slid) | leapers.any,
        answers=(through & single).where(leapers.size < 2),
        pinned=attacks & sights & own,
    )


class Targets(NamedTuple):
    """Legal target squares, in nineteen sets: one for each of the eight `DIRECTIONS` and of the
    eight `JUMPS`, and one for promotions straight, to the right and to the left."""

    squares: Bits
    """`[19]`: where the moves end; promotions to rook, bishop and knight on ranks 8, 7 and 6."""
    distances: tuple[Bits, Bits, Bits]
    """`[19]` each: the bits of the distance to each target; 0 for jumps, 0 to 2 for promotions."""


def targets(record: Record, chess960: bool = False) -> Targets:
    """Where the mover's pieces may legally go; to castle, the king goes two squares towards the
    rook, in Chess960 to the rook's square."""
    pieces = unpack(record.board)
    own, theirs = pieces.own, pieces.theirs
    empty = ~(own | theirs)
    threat = threats(pieces)
    # A pinned piece may move along its pin, either way.
    bound = union(threat.pinned)
    along = Bits(*(word | jnp.roll(word, 4) for word in threat.pinned))
    free = ~bound | along

    steps, doubles = _pawns(pieces.pawns & own & free, theirs, empty)
    steps, doubles = steps & threat.answers, doubles & threat.answers
    promotions = Bits(*(jnp.concatenate([word[:2], word[7:]]) for word in steps & rank(8)))
    king = shift(own & pieces.kings, DIRECTIONS) & ~own & ~threat.danger
    castles, by = _castling(record.castling, pieces, threat, chess960)
    odd, twos, fours = (castles.where((by >> power & 1) != 0) for power in range(3))
    near, far = steps | _en_passant(record) | king | odd, doubles | twos
    rook, bishop, knight = promotions, _down(promotions, 1), _down(promotions, 2)

    allowed = ~own & threat.answers
    jumps = shift(pieces.knights & own & ~bound, JUMPS) & allowed
    found = Targets(near | far | fours, (near, far, fours))
    slides = _slides(by_direction(pieces, own) & free, empty, allowed, found)

    none, none3 = (Bits(*(jnp.zeros(n, jnp.uint32) for _ in range(2))) for n in (8, 3))
    ones, twos, fours = slides.distances
    return Targets(
        _lanes(slides.squares, jumps, rook | bishop | knight),
        (_lanes(ones, none, bishop), _lanes(twos, none, knight), _lanes(fours, none, none3)),
    )


def _slides(sliders: Bits, empty: Bits, allowed: Bits, found: Targets) -> Targets:
    """`[8]`: what is found and the targets of the sliding pieces, by direction."""

    def further(distance: int | Array, carry: tuple[Bits, Targets]) -> tuple[Bits, Targets]:
        front, found = carry
        front = shift(front, DIRECTIONS)
        reached = front & allowed
        distances = [
            bits | reached.where((distance >> power & 1) != 0)
            for power, bits in enumerate(found.distances)
        ]
        found = Targets(found.squares | reached, (distances[0], distances[1], distances[2]))
        return front & empty, found

    return lax.fori_loop(1, 8, further, (sliders, found))[1]


def _lanes(directions: Bits, jumps: Bits, promotions: Bits) -> Bits:
    return Bits(
        *(jnp.concatenate(words) for words in zip(directions, jumps, promotions, strict=True))
    )


def _down(sets: Bits, ranks: int) -> Bits:
    return Bits(*(word >> ranks for word in sets))


def _pawns(movers: Bits, theirs: Bits, empty: Bits) -> tuple[Bits, Bits]:
    """`[8]` each: targets of the pawns' steps and captures, and of their double steps."""
    ahead, captures = np.arange(8) == 0, np.isin(np.arange(8), [1, 7])
    step = shift(movers, DIRECTIONS) & (empty.where(ahead) | theirs.where(captures))
    double = shift(step & rank(3), DIRECTIONS) & empty.where(ahead)
    return step, double


def _en_passant(record: Record) -> Bits:
    """`[8]`: the square of a legal en passant capture."""
    target = at(8 * (record.en_passant & 7).astype(jnp.int32) + 5)
    to_right, to_left = ((record.en_passant & flag) != 0 for flag in (FROM_LEFT, FROM_RIGHT))
    index = np.arange(8)
    return target.where(((index == 1) & to_right) | ((index == 7) & to_left))


def _castling(
    castling: UInt16[Array, ""], pieces: Pieces, threat: Threats, chess960: bool
) -> tuple[Bits, Int[Array | np.ndarray, "8"]]:
    """`[8]` each: the target square of a king that castles, and how many files away it is.

    All between king, rook and where they go must be empty, and no square on the king's way
    attacked. A rook that shields the king from an attack along the first rank is pinned.
    """
    lane = np.arange(8)
    pinned, danger = first_rank(union(threat.pinned)), first_rank(threat.danger)
    occupied = first_rank(pieces.own | pieces.theirs)
    # In standard chess a king with rights stands on e1, which makes constants of the ways.
    king = first_rank(pieces.own & pieces.kings) if chess960 else np.array(E)
    rooks = (castling & 0xFF).astype(jnp.uint32)
    rook = jnp.where(lane == RIGHT, rooks & ~(king - 1), 0)
    rook = jnp.where(lane == LEFT, rooks & (king - 1), rook)
    king_goal, rook_goal = np.where(lane == RIGHT, G, C), np.where(lane == RIGHT, F, D)
    way = span(king, king_goal)
    blocked = (way | span(rook, rook_goal)) & occupied & ~(king | rook)
    legal = (rook != 0) & ((blocked | (way & danger) | (rook & pinned)) == 0)
    if not chess960:
        return on_first_rank(jnp.where(legal, king_goal, 0)), np.full(8, 2)
    distance = lax.population_count(span(king, rook)).astype(jnp.int32) - 1
    return on_first_rank(jnp.where(legal, rook, 0)), distance


def _label_terms() -> np.ndarray:
    """`[38, 2]`: label = 73 * bit + constant + factor * distance, for each word of targets."""
    terms = []
    for half in range(2):
        for x, y in DIRECTIONS:
            near, far = PLANE_OF_STEP[int(x), int(y)], PLANE_OF_STEP[2 * int(x), 2 * int(y)]
            factor = (far - near) - NUM_PLANES * int(8 * x + y)
            terms.append((NUM_PLANES * 32 * half + near - (far - near), factor))
        for x, y in JUMPS:
            constant = NUM_PLANES * int(32 * half - (8 * x + y)) + PLANE_OF_STEP[int(x), int(y)]
            terms.append((constant, 0))
        for plane, (x, y) in enumerate(PROMOTIONS):
            terms.append((NUM_PLANES * int(32 * half - (8 * x + y)) + plane, NUM_PLANES + 3))
    return np.array(terms, dtype=np.int32)


LABEL_TERMS = _label_terms()
NUM_WORDS = len(LABEL_TERMS)


def slots(found: Targets, num_slots: int) -> Moves:
    """The labels of all targets, one to a slot, -1 behind them.

    Lowered for a TPU, a ply of a batch holds no scatter and one gather, of one number per position.
    """
    words = jnp.concatenate(found.squares)
    distances = [jnp.concatenate(bits) for bits in found.distances]
    # A running sum as a product: exact in the lowest precision, as all counts are at most 32.
    counts = lax.population_count(words).astype(jnp.float32)
    ends = (counts @ np.triu(np.ones((NUM_WORDS, NUM_WORDS), np.float32))).astype(jnp.int32)
    starts = (ends - counts.astype(jnp.int32)).astype(jnp.uint32)
    count = ends[-1]

    slot = jnp.arange(num_slots, dtype=jnp.int32)
    terms = [jnp.asarray(column) for column in LABEL_TERMS.T]
    word, start, *masks, constant, factor = lax.platform_dependent(
        slot, ends, [words, starts, *distances], terms, tpu=by_sums, default=by_index
    )
    bit = nth_bit(word, slot.astype(jnp.uint32) - start)
    distance = sum(
        ((mask >> bit) & 1).astype(jnp.int32) << power for power, mask in enumerate(masks)
    )
    labels = NUM_PLANES * bit.astype(jnp.int32) + constant + factor * distance
    return Moves(labels=jnp.where(slot < count, labels, -1).astype(jnp.int16), count=count)


def by_index(
    slot: Int[Array, "S"],
    ends: Int[Array, "W"],
    columns: list[UInt32[Array, "W"]],
    terms: list[Int[Array, "W"]],
) -> list[Shaped[Array, "S"]]:
    """For each slot, the entries of the word in which it lies in all columns, and in the terms,
    which are the same for all positions; by gathers.

    The columns lie behind each other in one array, because XLA on the CPU would write the indices
    of gathers from several arrays to memory, which takes twice as long.
    """
    word = jnp.zeros_like(slot)
    for end in ends[:-1]:  # Unrolled: XLA's reductions on the CPU take eighty times as long.
        word = word + (end <= slot)
    table = jnp.concatenate(columns)
    lookups = [(table, word + len(ends) * column) for column in range(len(columns))]
    lookups += [(term, word) for term in terms]
    return [array.at[index].get(mode="promise_in_bounds") for array, index in lookups]


def by_sums(
    slot: Int[Array, "S"],
    ends: Int[Array, "W"],
    columns: list[UInt32[Array, "W"]],
    terms: list[Int[Array, "W"]],
) -> list[Shaped[Array, "S"]]:
    """The same without gathers, which a TPU would make one by one: the first entry, and the step to
    the next one for every word that ends before the slot."""
    columns = [*columns, *terms]
    found = [jnp.broadcast_to(column[0], slot.shape) for column in columns]
    for word, end in enumerate(ends[:-1]):
        behind = end <= slot
        found = [
            entry + jnp.where(behind, column[word + 1] - column[word], 0)
            for entry, column in zip(found, columns, strict=True)
        ]
    return found


def nth_bit(words: UInt32[Array, "*b"], n: UInt32[Array, "*b"]) -> UInt32[Array, "*b"]:
    """The place of the n-th set bit, counted from 0 at the lowest."""
    place = jnp.zeros_like(words)
    for width in (16, 8, 4, 2, 1):
        below = lax.population_count((words >> place) & ((1 << width) - 1))
        skip = n >= below
        n = jnp.where(skip, n - below, n)
        place = jnp.where(skip, place + width, place)
    return place

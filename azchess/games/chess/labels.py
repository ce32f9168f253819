"""AlphaZero's 64 x 73 move labels, in the order of pgx, and what the eight symmetries make of them.

A label is `73 * from + plane`. Planes 0 to 8 promote to rook, bishop and knight (three each:
straight ahead, capturing to the right, capturing to the left); planes 9 to 64 move like a queen,
one plane per direction and distance, promotions to a queen and castling (as the king's two steps,
or in Chess960 as its way to the rook's square) among them; planes 65 to 72 jump like a knight.
"""

from functools import cache

import numpy as np

from azchess.games.game import Symmetries

NUM_PLANES = 73
NUM_LABELS = 64 * NUM_PLANES

DIRECTIONS = np.array([(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)])
"""(files, ranks) of a queen's eight directions: straight ahead first, then clockwise."""

JUMPS = np.array([(-2, -1), (-2, 1), (-1, -2), (-1, 2), (2, -1), (2, 1), (1, -2), (1, 2)])
"""(files, ranks) of a knight's eight jumps, in the order of planes 65 to 72."""

PROMOTIONS = np.array([(0, 1), (1, 1), (-1, 1)])
"""(files, ranks) of a promoting pawn: straight ahead, to the right, to the left."""


def _plane_steps() -> np.ndarray:
    """(files, ranks) of each of the 73 planes."""
    # Directions in the order of the planes: their distances run from -7 to -1 or from 1 to 7 files
    # (ranks on a file), which is far to near for the first of each pair and near to far for the
    # other.
    far_to_near, near_to_far = range(7, 0, -1), range(1, 8)
    runs = [
        ((0, -1), far_to_near),
        ((0, 1), near_to_far),
        ((-1, 0), far_to_near),
        ((1, 0), near_to_far),
        ((-1, -1), far_to_near),
        ((1, 1), near_to_far),
        ((-1, 1), far_to_near),
        ((1, -1), near_to_far),
    ]
    queen = [(x * distance, y * distance) for (x, y), distances in runs for distance in distances]
    return np.concatenate([np.tile(PROMOTIONS, (3, 1)), queen, JUMPS])


PLANE_STEPS = _plane_steps()
PLANE_OF_STEP = {(int(x), int(y)): 9 + plane for plane, (x, y) in enumerate(PLANE_STEPS[9:])}


@cache
def geometry() -> np.ndarray:
    """From-square, to-square and kind `[4672, 3]` of every label.

    Kinds: 0 plain (promotions to a queen too), 1 rook, 2 bishop, 3 knight. A label that leads off
    the board, or promotes from a rank other than the seventh, has its from-square as to-square and
    kind 0.
    """
    origin = np.repeat(np.arange(64), NUM_PLANES)
    plane = np.tile(np.arange(NUM_PLANES), 64)
    files, ranks = origin // 8 + PLANE_STEPS[plane, 0], origin % 8 + PLANE_STEPS[plane, 1]
    exists = (files >= 0) & (files < 8) & (ranks >= 0) & (ranks < 8)
    exists &= (plane >= 9) | (origin % 8 == 6)
    target = np.where(exists, 8 * files + ranks, origin)
    kind = np.where(exists & (plane < 9), 1 + plane // 3, 0)
    return np.stack([origin, target, kind], axis=1).astype(np.int16)


@cache
def uci_ranks() -> np.ndarray:
    """The place of every label among all in alphabetical order of their UCI, `[2, 4672]`.

    Row 0 where white moves, row 1 where black does, whose ranks count from the other side. Moves
    between the same squares promote: to bishop, knight, queen, rook.
    """
    origin, target, kind = geometry().T.astype(np.int32)
    letter = np.array([2, 3, 0, 1])[kind]
    places = []
    for flip in (0, 7):
        order = np.lexsort((letter, target ^ flip, origin ^ flip))
        places.append(np.argsort(order))
    return np.array(places, dtype=np.int32)


@cache
def symmetries() -> Symmetries:
    """The eight symmetries of the square: the identity, the mirror of the files, then the rest.

    Promotions change sides under the mirror; under the six others, which no board with a pawn
    has, they keep their plane.
    """
    matrices = [
        [[1, 0], [0, 1]],
        [[-1, 0], [0, 1]],
        [[1, 0], [0, -1]],
        [[-1, 0], [0, -1]],
        [[0, 1], [1, 0]],
        [[0, -1], [1, 0]],
        [[0, 1], [-1, 0]],
        [[0, -1], [-1, 0]],
    ]
    centred = 2 * np.stack(np.divmod(np.arange(64), 8), axis=1) - 7
    squares, labels = [], []
    for index, matrix in enumerate(np.array(matrices)):
        files, ranks = ((centred @ matrix.T + 7) // 2).T
        square = 8 * files + ranks
        moved = [PLANE_OF_STEP[int(x), int(y)] for x, y in PLANE_STEPS[9:] @ matrix.T]
        promotions = [0, 2, 1, 3, 5, 4, 6, 8, 7] if index == 1 else range(9)
        squares.append(square)
        labels.append((NUM_PLANES * square[:, None] + np.array([*promotions, *moved])).ravel())
    return Symmetries(
        squares=np.array(squares, dtype=np.int16), labels=np.array(labels, dtype=np.int16)
    )

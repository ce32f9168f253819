"""The truth about king and piece against a bare king: endgame tables of our own.

A position is three squares and the side to move: the strong side's king, its piece and the bare
king. Squares are numbered file * 8 + rank (a1 = 0, a2 = 1, h8 = 63) with White as the strong side;
where Black is the strong side, flip the ranks of all three (`square ^ 7`).

A table holds the distance to mate (DTM) in plies under best play of both sides: odd with the
strong side to move, even with the bare king to move, 0 where the bare king is mated. `DRAWN` marks
drawn positions, `ILLEGAL` those that cannot stand on a board (two men on one square, kings side by
side, the bare king in check with the strong side to move). The fifty-move rule plays no part: the
longest win takes 31 plies.
"""

import contextlib
import dataclasses
import functools
import os
import tempfile
import zlib
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int8, Int16

DRAWN = -1
ILLEGAL = -2
LONGEST = 127
"""The largest DTM that the tables' int8 can hold."""

_VERSION = 1
"""Part of the cache file's name; raise it whenever the content of a table changes."""

_ORTHOGONAL = ((1, 0), (0, 1), (-1, 0), (0, -1))
_DIAGONAL = ((1, 1), (-1, 1), (-1, -1), (1, -1))
_LEAPS = ((1, 2), (2, 1), (-1, 2), (-2, 1), (1, -2), (2, -1), (-1, -2), (-2, -1))

# Directions (files, ranks) and the number of steps along each.
_STEPS = {
    "K": (_ORTHOGONAL + _DIAGONAL, 1),
    "Q": (_ORTHOGONAL + _DIAGONAL, 7),
    "R": (_ORTHOGONAL, 7),
    "B": (_DIAGONAL, 7),
    "N": (_LEAPS, 1),
}
_MATERIALS = {f"K{piece}vK": piece for piece in "QRBN"}

# The axes of the masks below: strong king, strong piece, bare king.
_KING, _PIECE, _BARE = 0, 1, 2


@dataclasses.dataclass(frozen=True, eq=False)
class Tablebase:
    """Every position of king and piece against the bare king, with its distance to mate.

    `dtm[king, piece, bare, side]`: side 0 is the strong side to move, side 1 the bare king.
    """

    material: str
    dtm: Int8[np.ndarray, "64 64 64 2"]

    def probe(
        self, squares: Int[np.ndarray, "*b 3"], strong_to_move: bool | Bool[np.ndarray, "*b"]
    ) -> Int8[np.ndarray, "*b"]:
        """The distance to mate of positions, on the host.

        Raises `ValueError` for squares outside 0 to 63.
        """
        outside = squares[(squares < 0) | (squares > 63)]
        if outside.size:
            raise ValueError(f"squares holds {outside[0]}; a square is 0 (a1) to 63 (h8)")
        king, piece, bare = np.moveaxis(squares, -1, 0)
        return np.asarray(self.dtm[king, piece, bare, np.where(strong_to_move, 0, 1)])

    def positions(
        self, strong_to_move: bool, shortest: int = 0, longest: int = LONGEST
    ) -> tuple[Int16[np.ndarray, "M 3"], Int8[np.ndarray, "M"]]:
        """All won positions of one side to move, the nearest to mate first, and their DTM.

        Only those with shortest <= DTM <= longest, in the order of their squares where the DTM is
        equal. `positions(side, DRAWN, DRAWN)` gives the drawn ones instead.
        """
        dtm = self.dtm[..., 0 if strong_to_move else 1].reshape(-1)
        found = np.flatnonzero((dtm >= max(shortest, DRAWN)) & (dtm <= longest))
        found = found[np.argsort(dtm[found], kind="stable")]
        squares = np.stack(np.unravel_index(found, (64, 64, 64)), -1)
        return squares.astype(np.int16), dtm[found]


@functools.cache
def tablebase(material: str) -> Tablebase:
    """The endgame table of "KQvK" or "KRvK" ("KBvK" and "KNvK" are drawn throughout).

    Read from the user's cache folder, or built there within seconds when it is absent or damaged.
    """
    if material not in _MATERIALS:
        raise ValueError(f"material is {material!r}; accepted are {', '.join(_MATERIALS)}")
    path = cache_path(material)
    dtm = _read(path)
    if dtm is None:
        dtm = build(_MATERIALS[material])
        _write(path, dtm)
    dtm.setflags(write=False)
    return Tablebase(material, dtm)


def dtm_table(material: str) -> Int8[Array, "524288"]:
    """The endgame table as one flat array on the device, for `probe` inside jit.

    Index: ((king * 64 + piece) * 64 + bare) * 2 + (0 strong side to move, 1 bare king to move).
    """
    return jnp.asarray(tablebase(material).dtm.reshape(-1))


def probe(
    table: Int8[Array, "524288"],
    squares: Int[Array, "*b 3"],
    strong_to_move: bool | Bool[Array, "*b"],
) -> Int8[Array, "*b"]:
    """The distance to mate of positions, under jit; `ILLEGAL` where a square is off the board."""
    king, piece, bare = jnp.moveaxis(squares.astype(jnp.int32), -1, 0)
    index = ((king * 64 + piece) * 64 + bare) * 2 + jnp.where(strong_to_move, 0, 1)
    on_board = ((squares >= 0) & (squares < 64)).all(-1)
    return jnp.where(on_board, jnp.take(table, index, mode="clip"), ILLEGAL)


def perfect_defence(
    table: Int8[Array, "524288"],
    children: Int[Array, "*b S 3"],
    legal: Bool[Array, "*b S"],
    captured: Bool[Array, "*b S"],
) -> Float[Array, "*b S"]:
    """How the bare king defends best: it draws where it can, else it holds out the longest.

    `children` are the positions after each of its moves, `captured` marks moves that take the
    piece (their squares are not read). Returns equal probabilities over the best moves, zeros
    where there is no legal move, and NaN where a legal child is a position that the table calls
    illegal, since then the squares are wrong.
    """
    dtm = jnp.where(captured, DRAWN, probe(table, children, strong_to_move=True))
    score = jnp.where(dtm == DRAWN, LONGEST, dtm)
    best = legal & (score == jnp.where(legal, score, ILLEGAL).max(-1, keepdims=True))
    uniform = best / jnp.maximum(best.sum(-1, keepdims=True), 1)
    return jnp.where(_sound(dtm, legal), uniform, jnp.nan)


def optimal_moves(
    table: Int8[Array, "524288"],
    children: Int[Array, "*b S 3"],
    legal: Bool[Array, "*b S"],
) -> Bool[Array, "*b S"]:
    """The strong side's moves that mate the soonest; all of its legal moves where none wins.

    `children` are the positions after each move. No move is marked where a legal child is a
    position that the table calls illegal, since then the squares are wrong.
    """
    dtm = probe(table, children, strong_to_move=False)
    score = jnp.where(dtm == DRAWN, LONGEST, dtm)
    best = legal & (score == jnp.where(legal, score, LONGEST).min(-1, keepdims=True))
    return best & _sound(dtm, legal)


def _sound(dtm: Int8[Array, "*b S"], legal: Bool[Array, "*b S"]) -> Bool[Array, "*b 1"]:
    """True where every legal child is a legal position of the table."""
    return ~(legal & (dtm == ILLEGAL)).any(-1, keepdims=True)


def build(piece: str) -> Int8[np.ndarray, "64 64 64 2"]:
    """Works backwards from every mate: who mates in one more ply, who cannot avoid it.

    Retrograde analysis (Thompson, Retrograde Analysis of Certain Endgames, 1986) on whole boards
    of positions at once. Without pawns, a move taken back is a move of the same piece.
    """
    distinct, kings_apart, piece_guarded, check = _relations(piece)
    bare_legal = distinct & kings_apart
    strong_legal = bare_legal & ~check
    # Seen as the square that the bare king steps to: the piece stands there and nobody guards it.
    capture = np.eye(64, dtype=bool)[None] & ~piece_guarded
    mobile = _moved(strong_legal | capture, _BARE, "K", bare_legal)

    dtm = np.full((64, 64, 64, 2), ILLEGAL, np.int8)
    dtm[..., 0][strong_legal] = DRAWN
    dtm[..., 1][bare_legal] = DRAWN
    won = np.zeros_like(distinct)
    newly_lost = bare_legal & check & ~mobile
    plies = 0
    while newly_lost.any():
        dtm[..., 1][newly_lost] = plies
        mating = _moved(newly_lost, _KING, "K", distinct)
        mating |= _moved(newly_lost, _PIECE, piece, distinct)
        newly_won = mating & strong_legal & ~won
        dtm[..., 0][newly_won] = plies + 1
        won |= newly_won
        escapes = _moved((strong_legal & ~won) | capture, _BARE, "K", bare_legal)
        newly_lost = mobile & ~escapes & (dtm[..., 1] == DRAWN)
        plies += 2
    return dtm


def _relations(piece: str) -> tuple[Bool[np.ndarray, "64 64 64"], ...]:
    """Which positions have three men on three squares, kings apart, a guarded piece, a check."""
    files, ranks = np.divmod(np.arange(64), 8)
    distances = np.maximum(abs(files[:, None] - files), abs(ranks[:, None] - ranks))
    shape = (64, 64, 64)
    king_piece = np.broadcast_to(distances[:, :, None], shape)
    king_bare = np.broadcast_to(distances[:, None, :], shape)
    piece_bare = np.broadcast_to(distances[None], shape)
    distinct = (king_piece > 0) & (king_bare > 0) & (piece_bare > 0)
    # The bare king is attacked where the piece's own square, moved like the piece, arrives at it.
    check = _moved(piece_bare == 0, _BARE, piece, distinct)
    return distinct, king_bare > 1, king_piece <= 1, check


def _moved(
    mask: Bool[np.ndarray, "64 64 64"], axis: int, piece: str, free: Bool[np.ndarray, "64 64 64"]
) -> Bool[np.ndarray, "64 64 64"]:
    """The positions one move away from those of the mask, when one man moves like `piece`.

    `axis` says which man; every step must end in a position that is `free`.
    """
    directions, reach = _STEPS[piece]
    reached = np.zeros_like(mask)
    for direction in directions:
        ray = mask
        for _ in range(reach):
            ray = _stepped(ray, axis, direction) & free
            reached |= ray
    return reached


def _stepped(
    mask: Bool[np.ndarray, "64 64 64"], axis: int, direction: tuple[int, int]
) -> Bool[np.ndarray, "64 64 64"]:
    """The mask after one man has taken one step; positions whose man leaves the board vanish."""
    files, ranks = np.divmod(np.arange(64), 8)
    files, ranks = files - direction[0], ranks - direction[1]
    inside = (files >= 0) & (files < 8) & (ranks >= 0) & (ranks < 8)
    origin = np.where(inside, files * 8 + ranks, 0)
    return np.take(mask, origin, axis) & np.expand_dims(inside, [a for a in range(3) if a != axis])


def cache_path(material: str) -> Path:
    """Where the table of a material is kept: `$XDG_CACHE_HOME/azchess` or `~/.cache/azchess`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # unset, empty or relative, which the XDG specification ignores
        cache = Path.home() / ".cache"
    return cache / "azchess" / f"{material}-{_VERSION}.npz"


def _read(path: Path) -> Int8[np.ndarray, "64 64 64 2"] | None:
    """The cached table, or None where there is none or it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            dtm, checksum = arrays["dtm"], int(arrays["crc32"])
    except Exception:  # a damaged archive makes numpy raise nearly anything
        return None
    sound = dtm.shape == (64, 64, 64, 2) and dtm.dtype == np.int8
    return dtm if sound and zlib.crc32(dtm.tobytes()) == checksum else None


def _write(path: Path, dtm: Int8[np.ndarray, "64 64 64 2"]) -> None:
    """Keeps a table for the next process; without a writable cache it is built anew each time."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            beside = Path(folder) / path.name
            np.savez_compressed(beside, dtm=dtm, crc32=np.uint32(zlib.crc32(dtm.tobytes())))
            os.replace(beside, path)

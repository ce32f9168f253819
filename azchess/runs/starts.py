"""Where games begin: the game's own start, positions of a list or a book, or of an ending."""

import dataclasses
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int16

from azchess.evaluation.endings import ending_records
from azchess.evaluation.oracles import DRAWN, Tablebase, tablebase
from azchess.games.chess import ChessGame, records_from_fens, to_fen
from azchess.games.chess.books import book_fens
from azchess.games.chess.sampling import parse_material, sample_positions
from azchess.games.game import Game, Record
from azchess.learning.selfplay import Starts


@dataclasses.dataclass(frozen=True)
class StandardStart:
    """Games begin at the game's own start position."""

    def pool(self, game: Game) -> Starts:
        """No pool: the game's own start."""
        del game
        return Starts()


@dataclasses.dataclass(frozen=True)
class FenStarts:
    """Chess games begin at a position drawn from a list or a book of openings."""

    fens: tuple[str, ...] = ()
    """Positions in FEN."""
    path: str | None = None
    """A file of further positions: FEN or EPD, one to a line, or PGN, whose games' last positions
    are meant; also as .gz or .zip."""

    def read(self) -> "FenStarts":
        """The same starts without a file, so that a run's config holds all that it needs."""
        if self.path is None:
            return self
        return FenStarts(fens=(*self.fens, *book_fens(self.path)))

    def pool(self, game: Game) -> Starts:
        """The positions as records; raises ValueError for a FEN that is no legal position."""
        game = require_chess(game, self)
        fens = self.read().fens
        if not fens:
            raise ValueError("starts.fens is empty and starts.path names no file")
        records = records_from_fens(fens, game)
        check_starts(game, records)
        return Starts(records=records)


@dataclasses.dataclass(frozen=True)
class EndingStarts:
    """Chess games begin at a position of king and piece against king that is not yet mate.

    The pool is sorted by distance to mate, nearest first, so that `reach` is a curriculum; drawn
    positions are spread evenly over it.
    """

    materials: tuple[str, ...] = ("KQvK",)
    """Endings: KQvK, KRvK."""
    longest: int = 127
    """Most plies to mate."""
    either_side: bool = False
    """Whether the bare king may be to move; otherwise always the strong side."""
    drawn_share: float = 0.0
    """Share of the pool (at most 0.9) that is drawn: the bare king is to move and may take the
    piece. As often as among all positions it is 0.06; needs `either_side`."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.drawn_share <= 0.9:
            raise ValueError(f"starts.drawn_share = {self.drawn_share}: must be from 0 to 0.9")
        if self.drawn_share and not self.either_side:
            raise ValueError("starts.drawn_share: the bare king moves only with either_side = True")

    def pool(self, game: Game) -> Starts:
        """All positions that fit, as records."""
        require_chess(game, self)
        if not self.materials:
            raise ValueError("starts.materials is empty: KQvK and KRvK are endings that are won")
        random = np.random.default_rng(0)
        records, order = [], []
        for table in map(tablebase, self.materials):
            squares, plies, strong_to_move = self._positions(table, random)
            records.append(ending_records(table, squares, strong_to_move))
            order.append(plies)
        plies = np.concatenate(order)
        nearest = np.lexsort((random.random(len(plies)), plies))  # equally far ones in any order
        if not len(nearest):
            raise ValueError(f"no position fits starts = {self}")
        pool = jax.tree.map(lambda *x: jnp.concatenate(x)[nearest], *records)
        check_starts(game, pool)
        return Starts(records=pool)

    def _positions(
        self, table: Tablebase, random: np.random.Generator
    ) -> tuple[Int16[np.ndarray, "M 3"], Int[np.ndarray, "M"], Bool[np.ndarray, "M"]]:
        """One ending's squares, plies to mate (a won position's, where drawn) and side to move."""
        sides = (True, False) if self.either_side else (True,)
        won, distances = zip(
            *(table.positions(side, 1, self.longest) for side in sides), strict=True
        )
        squares, plies = np.concatenate(won), np.concatenate(distances)
        strong_to_move = np.repeat(sides, [len(part) for part in won])
        size = round(len(plies) * self.drawn_share / (1.0 - self.drawn_share))
        drawn, _ = table.positions(False, DRAWN, DRAWN)
        drawn = random.choice(drawn[takes_the_piece(drawn)], size)
        return (
            np.concatenate([squares, drawn]),
            np.concatenate([plies, random.choice(plies, size)]),
            np.concatenate([strong_to_move, np.zeros(size, bool)]),
        )


def takes_the_piece(squares: Int16[np.ndarray, "M 3"]) -> Bool[np.ndarray, "M"]:
    """Where the bare king stands next to the piece and the strong king does not guard it."""
    strong, piece, bare = (np.stack([place // 8, place % 8]) for place in squares.T)
    near, guarded = (np.abs(piece - king).max(axis=0) <= 1 for king in (bare, strong))
    return near & ~guarded


@dataclasses.dataclass(frozen=True)
class MaterialStarts:
    """Chess games begin at random legal positions of an ending, such as king and rook v king and
    pawn: see `azchess.games.chess.sampling.sample_positions`."""

    materials: tuple[str, ...] = ("KRvKP",)
    """Endings, white's men first: KQvK, KRvKP, KBNvK, KRPPvKRP."""
    count: int = 100_000
    """Positions in the pool, an equal share of each ending."""
    seed: int = 0
    """Other seeds draw other positions."""
    either_side: bool = True
    """Whether black may be to move; otherwise always white."""

    def __post_init__(self) -> None:
        if not self.materials:
            raise ValueError("starts.materials is empty: KQvK and KRvKP are endings")
        for material in self.materials:
            parse_material(material)
        for name in ("count", "seed"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 0:
                raise ValueError(f"starts.{name} = {getattr(self, name)}: must be a whole number")
        if self.count < len(self.materials):
            raise ValueError(
                f"starts.count = {self.count}: must be at least 1 for each of "
                f"{len(self.materials)} materials"
            )

    def pool(self, game: Game) -> Starts:
        """The positions as records, the endings mixed."""
        chess = require_chess(game, self)
        ends = np.linspace(0, self.count, len(self.materials) + 1).astype(int)
        records = [
            sample_positions(chess, material, size, (self.seed, index), self.either_side)
            for index, (material, size) in enumerate(
                zip(self.materials, np.diff(ends).tolist(), strict=True)
            )
        ]
        order = np.random.default_rng(self.seed).permutation(self.count)
        pool = jax.tree.map(lambda *x: jnp.concatenate(x)[order], *records)
        check_starts(game, pool)
        return Starts(records=pool)


CHECKED_AT_ONCE = 16_384
"""Starts whose moves are in memory at the same time while they are checked."""

StartConfig: TypeAlias = StandardStart | FenStarts | EndingStarts | MaterialStarts


def check_starts(game: Game, records: Record) -> None:
    """Raises ValueError for a start that is over already, or has too many moves for the slots."""

    def look(record: Record) -> tuple[Array, Array]:
        position = game.position(record)
        moves = game.moves(position)
        return game.status(position, moves).over, moves.count

    every = jax.jit(lambda records: jax.lax.map(look, records, batch_size=CHECKED_AT_ONCE))
    over, count = (np.asarray(column) for column in every(records))
    wrong = np.flatnonzero(over | (count > game.num_slots))
    if not len(wrong):
        return
    first = wrong[0]
    fen = to_fen(game.position(jax.tree.map(lambda leaf: leaf[first], records)))
    if over[first]:
        raise ValueError(f"starts: the game is over already, or cut by game.max_plies, in {fen}")
    raise ValueError(
        f"starts: {fen} has {count[first]} legal moves, more than game.num_slots = {game.num_slots}"
    )


def require_chess(game: Game, asked: object) -> ChessGame:
    """The game, which is chess.

    Raises ValueError where starts or suites that only chess has are asked of another game.
    """
    if not isinstance(game, ChessGame):
        raise ValueError(f"{type(asked).__name__}: only for chess, not for {game.name}")
    return game

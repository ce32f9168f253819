"""Where games begin: the standard start, a list of positions, or endings near mate."""

import dataclasses
import pathlib
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int16

from azchess.evaluation.endings import ending_records
from azchess.evaluation.oracles import DRAWN, tablebase
from azchess.games.chess import ChessGame, records_from_fens
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
    """Chess games begin at a position drawn from a list."""

    fens: tuple[str, ...] = ()
    """Positions in FEN."""
    path: str | None = None
    """A file with one FEN per line, in the place of `fens`."""

    def pool(self, game: Game) -> Starts:
        """The positions as records; raises ValueError for a FEN that is no legal position."""
        require_chess(game, self)
        fens = list(self.fens)
        if self.path is not None:
            lines = pathlib.Path(self.path).read_text(encoding="utf-8").splitlines()
            fens += [line.strip() for line in lines if line.strip()]
        if not fens:
            raise ValueError("starts.fens is empty and starts.path names no file")
        records = records_from_fens(fens)
        check_starts(game, fens, records)
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
    drawn: bool = False
    """Whether positions in which the bare king may take the piece are in the pool."""

    def pool(self, game: Game) -> Starts:
        """All positions that fit, as records."""
        require_chess(game, self)
        if not self.materials:
            raise ValueError("starts.materials is empty: KQvK and KRvK are endings that are won")
        random = np.random.default_rng(0)
        records, order = [], []

        def add(material: str, strong_to_move: bool, shortest: int, longest: int) -> None:
            table = tablebase(material)
            squares, plies = table.positions(strong_to_move, shortest, longest)
            if longest == DRAWN:
                squares = squares[takes_the_piece(squares)]
                plies = random.choice(np.concatenate(order), len(squares))
            order.append(plies)
            side = np.full(len(squares), strong_to_move)
            records.append(ending_records(table, squares, side))

        for material in self.materials:
            add(material, True, 1, self.longest)
            if self.either_side:
                add(material, False, 1, self.longest)
            if self.either_side and self.drawn:
                add(material, False, DRAWN, DRAWN)
        nearest = np.argsort(np.concatenate(order), kind="stable")
        if not len(nearest):
            raise ValueError(f"no position fits starts = {self}")
        pool = jax.tree.map(lambda *x: jnp.concatenate(x)[nearest], *records)
        return Starts(records=pool)


def takes_the_piece(squares: Int16[np.ndarray, "M 3"]) -> Bool[np.ndarray, "M"]:
    """Where the bare king stands next to the piece and the strong king does not guard it."""
    strong, piece, bare = (np.stack([place // 8, place % 8]) for place in squares.T)
    near, guarded = (np.abs(piece - king).max(axis=0) <= 1 for king in (bare, strong))
    return near & ~guarded


StartConfig: TypeAlias = StandardStart | FenStarts | EndingStarts


def check_starts(game: Game, names: list[str], records: Record) -> None:
    """Raises ValueError for a start that is over already, or has too many moves for the slots."""

    def look(record: Record) -> tuple[Array, Array]:
        position = game.position(record)
        moves = game.moves(position)
        return game.status(position, moves).over, moves.count

    over, count = jax.jit(jax.vmap(look))(records)
    for name, ended, moves in zip(names, over.tolist(), count.tolist(), strict=True):
        if ended:
            raise ValueError(f"starts: the game is over already in {name}")
        if moves > game.num_slots:
            raise ValueError(
                f"starts: {name} has {moves} legal moves, more than game.num_slots = "
                f"{game.num_slots}"
            )


def require_chess(game: Game, asked: object) -> None:
    """Raises ValueError where starts or suites that only chess has are asked of another game."""
    if not isinstance(game, ChessGame):
        raise ValueError(f"{type(asked).__name__}: only for chess, not for {game.name}")

"""Books of openings: positions from which engines begin their games."""

import pathlib

from azchess.games.chess.archive import read_text
from azchess.games.chess.epd import read_positions
from azchess.games.chess.pgn import last_positions


def book_fens(path: str | pathlib.Path) -> tuple[str, ...]:
    """The positions of a book, as FEN: those after the last moves of a PGN file's games, or the
    lines of any other file, FEN or EPD; .gz and .zip are unpacked.

    Raises ValueError for a file without positions, and for what cannot be read in it.
    """
    name, _ = read_text(path)
    if name.lower().endswith(".pgn"):
        fens = tuple(last_positions(path))
    else:
        fens = tuple(position.fen for position in read_positions(path))
    if not fens:
        raise ValueError(f"{path}: holds no position")
    return fens

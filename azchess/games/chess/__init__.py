"""Chess: board, legal moves, draw rules, tokens and notation."""

from azchess.games.chess.game import ChessGame
from azchess.games.chess.notation import (
    from_board,
    from_fen,
    label_to_move,
    move_to_label,
    records_from_fens,
    to_board,
    to_fen,
)
from azchess.games.chess.position import Position, Record, start

__all__ = [
    "ChessGame",
    "Position",
    "Record",
    "from_board",
    "from_fen",
    "label_to_move",
    "move_to_label",
    "records_from_fens",
    "start",
    "to_board",
    "to_fen",
]

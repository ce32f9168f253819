"""FEN and python-chess boards and moves for our positions and labels; works on the host."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, SupportsIndex, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

import chess
from azchess.games.chess import rules
from azchess.games.chess.game import ChessGame
from azchess.games.chess.labels import NUM_PLANES, PLANE_OF_STEP, geometry
from azchess.games.chess.position import (
    CODES,
    FROM_LEFT,
    FROM_RIGHT,
    OWN_KINGSIDE,
    OWN_QUEENSIDE,
    THEIR_KINGSIDE,
    THEIR_QUEENSIDE,
    Position,
    Record,
)

PROMOTED = [None, chess.ROOK, chess.BISHOP, chess.KNIGHT]
"""What a pawn becomes, by the kind of a label."""
CODE_OF_PIECE = {chess.PIECE_NAMES.index(name): code for name, code in CODES.items()}
PIECE_OF_CODE = {code: piece for piece, code in CODE_OF_PIECE.items()}
RIGHTS = [
    (OWN_KINGSIDE, True, 7),
    (OWN_QUEENSIDE, True, 0),
    (THEIR_KINGSIDE, False, 7),
    (THEIR_QUEENSIDE, False, 0),
]
"""The flag of a castling right, whether it is the mover's, and the rook's file."""
MAX_NUMBER = 32_767
"""The most plies that a record can count."""
MAX_LINE = 256
"""The most plies of a board's past that are read (the rules need 100)."""


@runtime_checkable
class HasPosition(Protocol):
    """A `State` of the pgx environment, for which pgx need not be imported here."""

    @property
    def position(self) -> Position: ...


def position_from_fen(fen: str, game: ChessGame | None = None) -> Position:
    """The position of a FEN, without a past.

    Raises ValueError for text that is no FEN and for positions that no game can reach, and says
    what is wrong; also for positions of more legal moves than the game has slots.
    """
    board = _legal_board(fen)
    slots = (ChessGame() if game is None else game).num_slots
    if (count := board.legal_moves.count()) > slots:
        raise ValueError(f"{fen} has {count} legal moves, more than num_slots = {slots}")
    return position_from_board(board, game)


def to_fen(state: Position | HasPosition) -> str:
    """The FEN of a state or position, an en passant square only where a capture is legal."""
    return to_board(state).fen()


def records_from_fens(fens: Sequence[str]) -> Record:
    """The positions of M FENs as records `[M]`, each standing for the first time.

    Raises ValueError as `position_from_fen` does.
    """
    return _records([_facts(_legal_board(fen)) for fen in fens])


def position_from_board(board: chess.Board, game: ChessGame | None = None) -> Position:
    """The position of a python-chess board, with its move stack as history and for repetitions.

    Raises ValueError for boards that these rules cannot hold: Chess960, a king missing.
    """
    game = ChessGame() if game is None else game
    line = [_facts(board)]
    board, needed = board.copy(), line[0].clock
    while board.move_stack and len(line) < MAX_LINE and len(line) <= max(needed, game.num_boards):
        board.pop()
        if len(line) < game.num_boards:
            needed = max(needed, len(line) + board.halfmove_clock)
        line.append(_facts(board))
    return _with_past(line, game)


def to_board(state: Position | HasPosition) -> chess.Board:
    """The state or position as a python-chess board, without the moves that led to it."""
    now: Record = jax.tree.map(np.asarray, _position(state).now)
    black = int(now.ply) % 2 == 1
    board = chess.Board(None)
    for square in range(64):
        board.set_piece_at(_chess_square(square, black), _piece(now, square))
    board.turn = not black
    for flag, own, file in RIGHTS:
        if now.castling & flag:
            board.castling_rights |= chess.BB_SQUARES[file if own != black else 56 + file]
    if now.en_passant:
        board.ep_square = _chess_square(8 * (int(now.en_passant) & 7) + 5, black)
    board.halfmove_clock = int(now.clock)
    board.fullmove_number = int(now.ply) // 2 + 1
    return board


def label_to_move(state: Position | HasPosition, label: SupportsIndex) -> chess.Move:
    """The python-chess move of a label; it is legal if the label is legal in the position."""
    now: Record = jax.tree.map(np.asarray, _position(state).now)
    origin, target, kind = (int(number) for number in geometry()[int(label)])
    promotion, piece = PROMOTED[kind], _piece(now, origin)
    if not kind and target % 8 == 7 and piece and piece.piece_type == chess.PAWN:
        promotion = chess.QUEEN
    black = int(now.ply) % 2 == 1
    return chess.Move(_chess_square(origin, black), _chess_square(target, black), promotion)


def move_to_label(state: Position | HasPosition, move: chess.Move) -> int:
    """The label of a python-chess move, castling being the king's two steps.

    Raises ValueError for moves that no chess piece can make; legality is not looked at.
    """
    black = int(_position(state).now.ply) % 2 == 1
    origin, target = _our_square(move.from_square, black), _our_square(move.to_square, black)
    step = (target // 8 - origin // 8, target % 8 - origin % 8)
    if step not in PLANE_OF_STEP or move.drop is not None:
        raise ValueError(f"{move.uci()} is not a move that a chess piece can make")
    if move.promotion in (None, chess.QUEEN):
        return NUM_PLANES * origin + PLANE_OF_STEP[step]
    if step[1] != 1 or target % 8 != 7 or move.promotion not in PROMOTED:
        raise ValueError(f"{move.uci()} is not a promotion that a pawn can make")
    return NUM_PLANES * origin + 3 * (PROMOTED.index(move.promotion) - 1) + step[0] % 3


def _position(state: Position | HasPosition) -> Position:
    return state if isinstance(state, Position) else state.position


def _our_square(square: int, black: bool) -> int:
    """From python-chess's squares (white's view, rank by rank) to the mover's, file by file."""
    return 8 * (square % 8) + (square // 8 ^ (7 if black else 0))


def _chess_square(square: int, black: bool) -> int:
    """The way back."""
    return 8 * (square % 8 ^ (7 if black else 0)) + square // 8


def _piece(record: Record, square: int) -> chess.Piece | None:
    """The piece on one of our squares."""
    bits = [bool(word >> (square % 32) & 1) for word in record.board[:, square // 32]]
    piece = PIECE_OF_CODE.get((bits[0], bits[1], bits[2]))
    return None if piece is None else chess.Piece(piece, bits[3] != (int(record.ply) % 2 == 1))


def _legal_board(fen: str) -> chess.Board:
    """Reads a FEN and refuses positions that no game can reach."""
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise ValueError(f"{fen!r} is not a FEN: {error}") from error
    status = board.status()
    if status:
        flags = [flag.name or "" for flag in chess.Status if flag in status]
        wrong = ", ".join(flag.lower().replace("_", " ") for flag in flags)
        raise ValueError(f"{fen!r} is not a legal chess position: {wrong}")
    return board


class _Facts(NamedTuple):
    """The fields of a record as plain numbers."""

    board: Sequence[Sequence[int]] = ((0, 0),) * 4
    castling: int = 0
    en_passant: int = 0
    repetitions: int = 0
    clock: int = 0
    ply: int = 0


def _facts(board: chess.Board) -> _Facts:
    """What a record says of a board, as if it stood there for the first time."""
    if board.chess960 or board.uci_variant != "chess":
        raise ValueError("only standard chess is played here, not Chess960 or another variant")
    if len(board.pieces(chess.KING, True)) != 1 or len(board.pieces(chess.KING, False)) != 1:
        raise ValueError(f"{board.fen()!r} must have one king on each side")
    if max(board.halfmove_clock, board.ply()) > MAX_NUMBER:
        raise ValueError(f"{board.fen()!r}: moves are counted up to {MAX_NUMBER} plies")
    black = not board.turn
    words = [[0, 0] for _ in range(4)]
    for square, piece in board.piece_map().items():
        ours = _our_square(square, black)
        planes = (*CODE_OF_PIECE[piece.piece_type], piece.color == board.turn)
        for plane, on in enumerate(planes):
            words[plane][ours // 32] |= on << (ours % 32)
    rights = board.clean_castling_rights()
    castling = sum(
        flag
        for flag, own, file in RIGHTS
        if rights & chess.BB_SQUARES[file if own != black else 56 + file]
    )
    en_passant = 0
    for move in board.generate_legal_ep():
        origin, target = (chess.square_file(s) for s in (move.from_square, move.to_square))
        en_passant |= target | (FROM_LEFT if origin < target else FROM_RIGHT)
    return _Facts(words, castling, en_passant, 1, board.halfmove_clock, board.ply())


def _records(facts: Sequence[_Facts]) -> Record:
    """Records `[M]`."""
    columns = [np.array(column) for column in zip(*facts, strict=True)]
    return Record(
        board=jnp.asarray(columns[0], jnp.uint32),
        castling=jnp.asarray(columns[1], jnp.uint8),
        en_passant=jnp.asarray(columns[2], jnp.int8),
        repetitions=jnp.asarray(columns[3], jnp.int8),
        clock=jnp.asarray(columns[4], jnp.int16),
        ply=jnp.asarray(columns[5], jnp.int16),
    )


_identities = jax.jit(jax.vmap(rules.identity))


def _with_past(line: list[_Facts], game: ChessGame) -> Position:
    """The position at the head of a line, the newest first."""
    # Padded to one length, so that it is compiled once.
    names = np.asarray(_identities(_records(line + [_Facts()] * (MAX_LINE - len(line)))))
    line = [
        facts._replace(
            repetitions=1
            + sum(
                np.array_equal(names[earlier], names[index])
                for earlier in range(index + 1, min(index + 1 + facts.clock, len(line)))
            )
        )
        for index, facts in enumerate(line)
    ]
    seen = np.zeros((game.memory, 2), np.uint32)
    for index in range(min(len(line) - 1, line[0].clock), 0, -1):
        seen[line[index].clock % game.memory] = names[index]
    boards = _records((line + [_Facts()] * game.num_boards)[: game.num_boards])
    return Position(
        now=jax.tree.map(lambda leaf: leaf[0], boards),
        past=jax.tree.map(lambda leaf: leaf[1:], boards) if game.num_boards > 1 else None,
        hash=jnp.asarray(names[0]),
        seen=jnp.asarray(seen),
    )

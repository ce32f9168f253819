"""FEN and python-chess boards and moves for our positions and labels; works on the host."""

import operator
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
    Position,
    Record,
)
from azchess.games.game import Moves

PROMOTED = [None, chess.ROOK, chess.BISHOP, chess.KNIGHT]
"""What a pawn becomes, by the kind of a label."""
CODE_OF_PIECE = {chess.PIECE_NAMES.index(name): code for name, code in CODES.items()}
PIECE_OF_CODE = {code: piece for piece, code in CODE_OF_PIECE.items()}
MAX_NUMBER = 20_000
"""The most plies that a board may bring along; records count to 32,767, and no game is longer."""
MAX_LINE = 256
"""The most plies of a board's past that are read, unless a game remembers more."""


@runtime_checkable
class HasPosition(Protocol):
    """A `State` of the pgx environment, for which pgx need not be imported here."""

    @property
    def position(self) -> Position: ...

    @property
    def moves(self) -> Moves: ...


def position_from_fen(fen: str, game: ChessGame | None = None) -> Position:
    """The position of a FEN, without a past; Chess960 also takes X-FEN and Shredder-FEN.

    Raises ValueError for text that is no FEN and for positions that no game can reach, and says
    what is wrong; also for positions of more legal moves than the game has slots.
    """
    game = ChessGame() if game is None else game
    board = _legal_board(fen, game)
    if (count := board.legal_moves.count()) > game.num_slots:
        raise ValueError(f"{fen} has {count} legal moves, more than num_slots = {game.num_slots}")
    return position_from_board(board, game)


def to_fen(state: Position | HasPosition, *, shredder: bool = False) -> str:
    """The FEN of a state or position; it names an en passant square only where a capture is legal.

    Castling rights are KQkq, and in Chess960 the rook's file where another rook stands outside it
    (X-FEN); with `shredder` they are the files of the rooks.
    """
    board = to_board(state, ChessGame(chess960=True))
    return board.shredder_fen() if shredder else board.fen()


def records_from_fens(fens: Sequence[str], game: ChessGame | None = None) -> Record:
    """The positions of M FENs as records `[M]`, each standing for the first time.

    Raises ValueError as `position_from_fen` does, but for the number of moves.
    """
    if not fens:
        raise ValueError("no FENs: at least one is needed")
    game = ChessGame() if game is None else game
    return _records([_facts(_legal_board(fen, game), game) for fen in fens])


def position_from_board(board: chess.Board, game: ChessGame | None = None) -> Position:
    """The position of a python-chess board, with its move stack as history and for repetitions.

    Raises ValueError for boards that these rules cannot hold: variants, a king missing, Chess960
    where the game is standard chess.
    """
    game = ChessGame() if game is None else game
    line = [_facts(board, game)]
    board, needed = board.copy(), line[0].clock
    most = _longest_line(game)
    while board.move_stack and len(line) < most and len(line) <= max(needed, game.num_boards):
        board.pop()
        if len(line) < game.num_boards:
            needed = max(needed, len(line) + board.halfmove_clock)
        line.append(_facts(board, game))
    return _with_past(line, game)


def to_board(state: Position | HasPosition, game: ChessGame | None = None) -> chess.Board:
    """The state or position as a python-chess board, without the moves that led to it.

    Only a board of Chess960 keeps the castling rights that standard chess does not know.
    """
    now: Record = jax.tree.map(np.asarray, _position(state).now)
    black = int(now.ply) % 2 == 1
    board = chess.Board(None, chess960=game is not None and game.chess960)
    for square in range(64):
        board.set_piece_at(_chess_square(square, black), _piece(now, square))
    board.turn = not black
    own, theirs = int(now.castling) & 0xFF, int(now.castling) >> 8
    white_files, black_files = (theirs, own) if black else (own, theirs)
    board.castling_rights = white_files | black_files << 56
    if now.en_passant:
        board.ep_square = _chess_square(8 * (int(now.en_passant) & 7) + 5, black)
    board.halfmove_clock = int(now.clock)
    board.fullmove_number = int(now.ply) // 2 + 1
    return board


def label_to_move(state: Position | HasPosition, label: SupportsIndex) -> chess.Move:
    """The python-chess move of a label; it is legal if the label is legal in the position.

    Castling is e1g1 in standard chess and e1h1 in Chess960, as in UCI. Raises ValueError for
    numbers that are no move's label, such as the -1 of an empty slot.
    """
    number = operator.index(label)
    if not 0 <= number < len(geometry()) or geometry()[number][0] == geometry()[number][1]:
        raise ValueError(f"{number} is not the label of a move")
    now: Record = jax.tree.map(np.asarray, _position(state).now)
    origin, target, kind = (int(entry) for entry in geometry()[number])
    promotion, piece = PROMOTED[kind], _piece(now, origin)
    if not kind and target % 8 == 7 and piece and piece.piece_type == chess.PAWN:
        promotion = chess.QUEEN
    black = int(now.ply) % 2 == 1
    return chess.Move(_chess_square(origin, black), _chess_square(target, black), promotion)


def move_to_label(
    state: Position | HasPosition, move: chess.Move, game: ChessGame | None = None
) -> int:
    """The label of a python-chess move; castling may be written as e1g1 or as e1h1 in any game.

    A position does not know whether it is one of Chess960: without `game` it is taken for standard
    chess, while a state has its legal moves. Raises ValueError for moves that no chess piece can
    make; legality is not looked at.
    """
    if game is not None or isinstance(state, Position):
        return _label(_position(state), move, game is not None and game.chess960)
    standard, chess960 = (_label(state.position, move, variant) for variant in (False, True))
    return chess960 if chess960 in np.asarray(state.moves.labels) else standard


def _label(position: Position, move: chess.Move, chess960: bool) -> int:
    black = int(position.now.ply) % 2 == 1
    origin, target = _our_square(move.from_square, black), _our_square(move.to_square, black)
    target = _castling_target(position, origin, target, chess960)
    step = (target // 8 - origin // 8, target % 8 - origin % 8)
    if step not in PLANE_OF_STEP or move.drop is not None:
        raise ValueError(f"{move.uci()} is not a move that a chess piece can make")
    if move.promotion in (None, chess.QUEEN):
        return NUM_PLANES * origin + PLANE_OF_STEP[step]
    if step[1] != 1 or target % 8 != 7 or move.promotion not in PROMOTED:
        raise ValueError(f"{move.uci()} is not a promotion that a pawn can make")
    return NUM_PLANES * origin + 3 * (PROMOTED.index(move.promotion) - 1) + step[0] % 3


def _castling_target(position: Position, origin: int, target: int, chess960: bool) -> int:
    """Where a castling king goes in the game's own notation; other moves' targets unchanged."""
    rooks = [8 * file for file in range(8) if int(position.now.castling) >> file & 1]
    if not rooks or origin % 8 or target % 8:
        return target
    piece = _piece(jax.tree.map(np.asarray, position.now), origin)
    if piece is None or piece.piece_type != chess.KING:
        return target
    if not chess960:
        return origin + (16 if target > origin else -16) if target in rooks else target
    towards = [rook for rook in rooks if (rook > origin) == (target > origin)]
    return towards[0] if towards and abs(target - origin) > 8 else target


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


def _legal_board(fen: str, game: ChessGame) -> chess.Board:
    """Reads a FEN and refuses positions that no game can reach."""
    try:
        board = chess.Board(fen, chess960=game.chess960)
    except ValueError as error:
        raise ValueError(f"{fen!r} is not a FEN: {error}") from error
    status = board.status()
    if status:
        flags = [flag.name or "" for flag in chess.Status if flag in status]
        wrong = ", ".join(flag.lower().replace("_", " ") for flag in flags)
        if not game.chess960 and chess.Board(fen, chess960=True).is_valid():
            wrong += " (they are those of Chess960: ChessGame(chess960=True))"
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


def _facts(board: chess.Board, game: ChessGame) -> _Facts:
    """What a record says of a board, as if it stood there for the first time."""
    if board.uci_variant != "chess":
        raise ValueError(f"only chess and Chess960 are played here, not {board.uci_variant}")
    if board.chess960 and not game.chess960:
        raise ValueError("a Chess960 board needs ChessGame(chess960=True), not standard chess")
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
    files = rights & 0xFF, rights >> 56
    castling = files[black] | files[not black] << 8
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
        castling=jnp.asarray(columns[1], jnp.uint16),
        en_passant=jnp.asarray(columns[2], jnp.int8),
        repetitions=jnp.asarray(columns[3], jnp.int8),
        clock=jnp.asarray(columns[4], jnp.int16),
        ply=jnp.asarray(columns[5], jnp.int16),
    )


_identities = jax.jit(jax.vmap(rules.identity))


def _longest_line(game: ChessGame) -> int:
    """The most plies, the position itself among them, that its fields and its past depend on."""
    return max(MAX_LINE, game.remembered + game.num_boards)


def _with_past(line: list[_Facts], game: ChessGame) -> Position:
    """The position at the head of a line, the newest first."""
    # Padded to one length, so that it is compiled once.
    padding = [_Facts()] * (_longest_line(game) - len(line))
    names = np.asarray(_identities(_records(line + padding)))
    line = [
        facts._replace(
            repetitions=1
            + sum(
                np.array_equal(names[earlier], names[index])
                for earlier in range(
                    index + 1, min(index + 1 + min(facts.clock, game.remembered), len(line))
                )
            )
        )
        for index, facts in enumerate(line)
    ]
    seen = np.zeros((game.remembered, 2), np.uint32)
    for index in range(min(len(line) - 1, line[0].clock), 0, -1):
        seen[line[index].clock % game.remembered] = names[index]
    boards = _records((line + [_Facts()] * game.num_boards)[: game.num_boards])
    return Position(
        now=jax.tree.map(lambda leaf: leaf[0], boards),
        past=jax.tree.map(lambda leaf: leaf[1:], boards) if game.num_boards > 1 else None,
        hash=jnp.asarray(names[0]),
        seen=jnp.asarray(seen),
    )

"""Lists of positions: FEN or EPD, one to a line, with operations such as the best move."""

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Mapping

import jax

import chess
from azchess.games.chess.archive import read_text
from azchess.games.chess.game import ChessGame
from azchess.games.chess.notation import records_from_fens
from azchess.games.chess.san import parse_move

CLOCKS = re.compile(r"(\d+)\s+(\d+)(?=[\s;]|$)")
"""What makes a FEN of an EPD's four fields: plies since a capture or pawn move, and the move."""
WORD = re.compile(r"""\s*(?:"(?P<quoted>[^"]*)"|(?P<end>;)|(?P<plain>[^\s;"]+))""")
OPCODE = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class EpdPosition:
    """A position and what its line says about it.

    `operations` holds the operands of each opcode as text, quotes taken off: `bm` (best moves) and
    `am` (moves to avoid) in SAN, `id` (a name), `c0` to `c9` (comments), `ce` (centipawns).
    """

    fen: str
    operations: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def labels(self, opcode: str, game: ChessGame | None = None) -> tuple[int, ...]:
        """The labels of an opcode's moves, such as "bm"; none where the line does not have it.

        Raises ValueError for moves that are not legal here.
        """
        moves = self.operations.get(opcode, ())
        if not moves:
            return ()
        game = ChessGame() if game is None else game
        record = jax.tree.map(lambda leaf: leaf[0], records_from_fens([self.fen], game))
        position = game.position(record)
        return tuple(parse_move(position, move, game) for move in moves)


def read_positions(path: str | pathlib.Path) -> Iterator[EpdPosition]:
    """The positions of a file, in its order; .gz and .zip are unpacked.

    Empty lines and lines that begin with # are passed over. Raises ValueError for a line that is
    no legal position, of standard chess or Chess960, or whose operations cannot be read, and gives
    file and line.
    """
    _, text = read_text(path)
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            try:
                yield parse_position(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def parse_position(line: str) -> EpdPosition:
    """The position of one line: a FEN or an EPD's four fields, and operations behind it.

    Clocks that an EPD does not give by `hmvc` and `fmvn` are those of a new game.
    """
    fields = line.split(maxsplit=4)
    if len(fields) < 4:
        raise ValueError(
            f"{line.strip()!r} is not a position: a FEN or EPD has four fields or more"
        )
    rest = fields[4] if len(fields) > 4 else ""
    clocks = CLOCKS.match(rest)
    operations = _operations(rest[clocks.end() :] if clocks else rest)
    if clocks:
        numbers = list(clocks.groups())
    else:
        numbers = []
        for opcode, default in (("hmvc", "0"), ("fmvn", "1")):
            operands = operations.get(opcode, (default,))
            if len(operands) != 1 or not operands[0].isdecimal():
                raise ValueError(f"{opcode} must have one number, not {' '.join(operands)!r}")
            numbers += operands
    fen = " ".join([*fields[:4], *numbers])
    _check(fen)
    return EpdPosition(fen, operations)


def _operations(text: str) -> dict[str, tuple[str, ...]]:
    """Operations, each an opcode, its operands and a semicolon."""
    operations: dict[str, tuple[str, ...]] = {}
    words: list[str] = []
    place, text = 0, text.rstrip() + ";"
    while place < len(text):
        word = WORD.match(text, place)
        if word is None:
            raise ValueError(f"the quotation mark in {text[place:-1].strip()!r} is not closed")
        place = word.end()
        if word["end"] is None:
            words.append(word["plain"] if word["quoted"] is None else word["quoted"])
        elif words:
            opcode, *operands = words
            if not OPCODE.fullmatch(opcode) or opcode in operations:
                wrong = "occurs twice" if opcode in operations else "is not an opcode, as bm or id"
                raise ValueError(f"{opcode!r} {wrong}")
            operations[opcode] = tuple(operands)
            words = []
    return operations


def _check(fen: str) -> None:
    """Raises ValueError for a position that no game can reach."""
    try:
        board = chess.Board(fen, chess960=True)
    except ValueError as error:
        raise ValueError(f"{fen!r} is not a FEN: {error}") from error
    if status := board.status():
        flags = [flag.name or "" for flag in chess.Status if flag in status]
        wrong = ", ".join(flag.lower().replace("_", " ") for flag in flags)
        raise ValueError(f"{fen!r} is not a legal chess position: {wrong}")

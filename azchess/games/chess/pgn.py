"""Games as players exchange them: PGN read into labels, and labels written as PGN.

Read strictly: what cannot be understood is an error that names file, game and line, where most
readers pass over it and go on with another game than was played. Variations, annotations such as
`!?` or `$1` and comments in front of the headers are read and dropped; comments on moves are kept.
Move numbers, + and #, and an x where nothing is taken, are not looked at: the moves count.
"""

import dataclasses
import functools
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

import jax
import numpy as np
from jaxtyping import Int16

import chess
from azchess.games.chess.archive import read_text
from azchess.games.chess.game import ChessGame
from azchess.games.chess.notation import move_to_label, records_from_fens
from azchess.games.chess.position import Position

RESULTS = ("1-0", "0-1", "1/2-1/2", "*")
"""White has won, black has won, drawn, not finished or not known."""
ROSTER = {
    "Event": "?",
    "Site": "?",
    "Date": "????.??.??",
    "Round": "?",
    "White": "?",
    "Black": "?",
}
"""The headers that every game has, besides the result, and how they say "not known"."""
DERIVED = ("Result", "SetUp", "FEN", "Variant")
"""Headers that say what the other fields of a `GameRecord` say."""
CHESS960 = ("chess960", "chess 960", "fischerandom", "fischerrandom", "fischer random")
STANDARD = ("standard", "chess", "classical", "normal", "from position")
"""Names of variants in lower case."""
COLUMNS = 79
"""The longest line that is written."""

HEADER = re.compile(r"[A-Za-z0-9][\w+#=:-]*")
TOKEN = re.compile(
    r"""
      \s+ | (?:^%[^\n]*) | \$\d+ | [!?]+ | \d+\.+ | \d+(?=\s) | \.+
    | \[\s*(?P<name>[A-Za-z0-9][\w+#=:-]*)\s*"(?P<value>(?:\\.|[^"\\\n])*)"\s*\]
    | \{(?P<comment>[^}]*)\} | ;(?P<rest>[^\n]*)
    | (?P<bracket>[()])
    | (?P<result>1-0|0-1|1/2-1/2|\*)(?![\w/-])
    | (?P<move>[\w-][\w=+#:@/-]*)
    """,
    re.VERBOSE | re.MULTILINE | re.ASCII,
)
"""The words of a PGN file. Those without a name are passed over."""


@dataclasses.dataclass(frozen=True)
class GameRecord:
    """A game of chess from its start to its end.

    `labels` are its T moves; `start` is where it began, as FEN. `headers` are those of the file
    but for `Result`, `SetUp`, `FEN` and `Variant`, which the other fields hold, and for those of
    the seven obligatory ones that are "?". `comments` is empty, or holds T + 1 texts: before the
    first move, then behind each; runs of white space in them become one blank.
    """

    labels: tuple[int, ...]
    result: str = "*"
    start: str = chess.STARTING_FEN
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    comments: tuple[str, ...] = ()
    chess960: bool = False

    def __post_init__(self) -> None:
        if self.result not in RESULTS:
            raise ValueError(f"result {self.result!r} must be one of {', '.join(RESULTS)}")
        if len(self.comments) not in (0, len(self.labels) + 1):
            raise ValueError(
                f"{len(self.comments)} comments for {len(self.labels)} moves: must be none, or one "
                "before the first move and one behind each"
            )
        for name, value in self.headers.items():
            if name in DERIVED:
                raise ValueError(f"header {name}: is not given, but written from the other fields")
            if not HEADER.fullmatch(name) or re.search(r"[\r\n]", value):
                raise ValueError(f'header {name!r}: {value!r} cannot be written as [Name "text"]')


def read_games(path: str | pathlib.Path, encoding: str = "utf-8") -> Iterator[GameRecord]:
    """The games of a PGN file, in its order; .gz and .zip are unpacked.

    The text of the file is held in memory, the games are made one by one. Raises ValueError for
    whatever is wrong in a game, and gives file, game and line.
    """
    _, text = read_text(path, encoding)
    for game, _ in _games(text, str(path)):
        yield game


def parse_games(text: str) -> Iterator[GameRecord]:
    """The games of a text in PGN; see `read_games`."""
    for game, _ in _games(text, "PGN"):
        yield game


def last_positions(path: str | pathlib.Path) -> Iterator[str]:
    """The positions, as FEN, after the last moves of a file's games: a book of openings."""
    _, text = read_text(path)
    for _, board in _games(text, str(path)):
        yield board.fen()


def stack_labels(games: Sequence[GameRecord]) -> Int16[np.ndarray, "T B"]:
    """The moves of many games, -1 behind the last one of each."""
    longest = max((len(game.labels) for game in games), default=0)
    labels = np.full((longest, len(games)), -1, np.int16)
    for index, game in enumerate(games):
        labels[: len(game.labels), index] = game.labels
    return labels


def games_to_pgn(games: Iterable[GameRecord]) -> str:
    """Games in PGN's export format, with an empty line behind each.

    Records that were read are the same after writing and reading. Raises ValueError for a label
    that is not a legal move, and for a comment that holds a closing brace.
    """
    return "".join(_written(game) for game in games)


class _Reader:
    """A game while it is read: what has been seen of it since the last result."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.board: chess.Board | None = None
        self.labels: list[int] = []
        self.comments: list[str] = [""]
        self.depth = 0

    @property
    def begun(self) -> bool:
        return bool(self.headers or self.labels)

    def header(self, name: str, value: str) -> None:
        if self.board is not None or name in self.headers:
            raise ValueError("another game begins, but this one has no result at its end")
        self.comments = [""]
        self.headers[name] = re.sub(r'\\(["\\])', r"\1", value)

    def comment(self, text: str) -> None:
        if not self.depth:
            self.comments[-1] = " ".join([*self.comments[-1].split(), *text.split()])

    def bracket(self, bracket: str) -> None:
        self.depth += 1 if bracket == "(" else -1
        if self.depth < 0:
            raise ValueError("a variation is closed that was not opened")

    def move(self, text: str) -> None:
        if self.depth:
            return
        self.board = board = self.board or self._start()
        try:
            move = board.parse_san(text)
        except ValueError as error:
            kinds = {chess.IllegalMoveError: "is not legal", chess.AmbiguousMoveError: "is unclear"}
            wrong = kinds.get(type(error), "is not a move")
            raise ValueError(f"{_number(board, True)} {text} {wrong} in {board.fen()}") from error
        if not move:
            raise ValueError(f"{_number(board, True)} {text}: a player may not pass")
        self.labels.append(_label(board, move))
        board.push(move)
        self.comments.append("")

    def finish(self, result: str) -> tuple[GameRecord, chess.Board]:
        """The game, and the board after its last move; Result and the last word must agree."""
        if not self.begun:
            raise ValueError(f"{result} stands alone, without headers or moves")
        board = self.board or self._start()
        header = self.headers.get("Result", "*").replace("?", "*")
        if "*" not in (header, result) and header != result:
            raise ValueError(f"the header says {header}, but the moves end with {result}")
        said = {header, result} - {"*"}
        if board.is_checkmate() and said and (won := board.result()) not in said:
            raise ValueError(f"the moves end with mate, {won}, but the result is {said.pop()}")
        known = self.headers.items()
        headers = {k: v for k, v in known if k not in DERIVED and ROSTER.get(k) != v}
        game = GameRecord(
            labels=tuple(self.labels),
            result=header if result == "*" else result,
            start=self.headers.get("FEN", chess.STARTING_FEN),
            headers=headers,
            comments=tuple(self.comments) if any(self.comments) else (),
            chess960=board.chess960,
        )
        return game, board

    def _start(self) -> chess.Board:
        variant = self.headers.get("Variant", "Standard")
        if variant.lower() not in (*STANDARD, *CHESS960):
            raise ValueError(f"the variant {variant} is not played here: only chess and Chess960")
        return _board(self.headers.get("FEN", chess.STARTING_FEN), variant.lower() in CHESS960)


def _games(text: str, source: str) -> Iterator[tuple[GameRecord, chess.Board]]:
    """The games of a text and the boards after their last moves."""
    reader, count, place = _Reader(), 1, 0

    def fail(wrong: str, error: Exception | None = None) -> NoReturn:
        line = text.count("\n", 0, place) + 1
        raise ValueError(f"{source}, game {count} (line {line}): {wrong}") from error

    while place < len(text):
        token = TOKEN.match(text, place)
        if token is None:
            what = text[place:].split(maxsplit=1)[0]
            unclosed = {"{": "a comment is not closed", "[": 'this is no header [Name "text"]'}
            fail(unclosed.get(what[0], f"{what!r} is no part of a game"))
        finished = None
        try:
            match token.lastgroup:
                case "value":
                    reader.header(token["name"], token["value"])
                case "comment" | "rest":
                    reader.comment(token[token.lastgroup])
                case "bracket":
                    reader.bracket(token["bracket"])
                case "move":
                    reader.move(token["move"])
                case "result" if not reader.depth:
                    finished = reader.finish(token["result"])
        except ValueError as error:
            fail(str(error), error)
        if finished is not None:
            yield finished
            reader, count = _Reader(), count + 1
        place = token.end()
    if reader.depth:
        fail("a variation is not closed")
    if reader.begun:
        fail("the file ends before the game has a result")


def _board(fen: str, chess960: bool) -> chess.Board:
    try:
        board = chess.Board(fen, chess960=chess960)
    except ValueError as error:
        raise ValueError(f"{fen!r} is not a FEN: {error}") from error
    if not board.is_valid():
        variant = "Chess960" if chess960 else "chess"
        raise ValueError(f"{fen!r} is not a legal position of {variant}")
    return board


@functools.cache
def _sides() -> tuple[Position, Position]:
    """A position with black to move, and one with white; nobody may castle."""
    records = records_from_fens([f"4k3/8/8/8/8/8/8/4K3 {side} - - 0 1" for side in "bw"])
    game = ChessGame()
    rows = [jax.tree.map(lambda leaf, row=row: leaf[row], records) for row in range(2)]
    black, white = (jax.tree.map(np.asarray, game.position(row)) for row in rows)
    return black, white


def _label(board: chess.Board, move: chess.Move) -> int:
    """The label of a legal move, by its squares and by who moves: any position will do.

    python-chess writes castling as our rules do: the king's two steps, in Chess960 its way to the
    rook's square.
    """
    return move_to_label(_sides()[board.turn], move)


def _number(board: chess.Board, always: bool) -> str:
    """What stands in front of a move: its number, always for white."""
    if board.turn:
        return f"{board.fullmove_number}."
    return f"{board.fullmove_number}..." if always else ""


def _written(game: GameRecord) -> str:
    """One game in PGN."""
    board = _board(game.start, game.chess960)
    headers = {**ROSTER, "Result": game.result, **game.headers}
    if game.chess960:
        headers["Variant"] = "Chess960"
    if game.chess960 or game.start != chess.STARTING_FEN:
        headers |= {"SetUp": "1", "FEN": game.start}
    lines = []
    for name, value in headers.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{name} "{escaped}"]')
    words = _movetext(game, board)
    wrapped = textwrap.wrap(
        " ".join(words), COLUMNS, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*lines, "", *wrapped, "", ""])


def _movetext(game: GameRecord, board: chess.Board) -> Iterator[str]:
    comments = [" ".join(text.split()) for text in game.comments] or [""] * (len(game.labels) + 1)
    if any("}" in comment for comment in comments):
        raise ValueError("a comment cannot be written in PGN: it holds a closing brace")
    if comments[0]:
        yield f"{{{comments[0]}}}"
    again = True
    for ply, label in enumerate(game.labels):
        move = next((move for move in board.legal_moves if _label(board, move) == label), None)
        if move is None:
            raise ValueError(f"label {label} at ply {ply} is not a legal move in {board.fen()}")
        yield from filter(None, [_number(board, again), board.san(move)])
        board.push(move)
        again = bool(comments[ply + 1])
        if again:
            yield f"{{{comments[ply + 1]}}}"
    yield game.result

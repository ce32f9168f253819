"""The board behind `azchess play`: a game against a run's network in the terminal."""

import pathlib
import random
from collections.abc import Callable
from typing import Literal

from rich.console import Console

from azchess.runs import folder
from azchess.runs.analysis import Advice, table
from azchess.runs.config import with_preset
from azchess.runs.session import Session

COLOURS = ("white", "black", "random")


def play(
    run_dir: str | pathlib.Path,
    *,
    simulations: int | None = None,
    colour: Literal["white", "black", "random"] = "white",
    fen: str | None = None,
    preset: str | None = None,
    input: Callable[[str], str] = input,
    console: Console | None = None,
) -> None:
    """Plays against the newest network of a run until the player leaves.

    simulations: of each search; None for the run's own.
    colour: the player's; white is who makes the first move in other games, too.
    fen: where the game begins; None for the run's own starts.
    preset: the name of a search with all its knobs; None for the run's own.

    Raises ValueError for a folder that is not a run's, for a preset that there is not, and for a
    FEN or simulations that cannot be.
    """
    seat = seat_of(colour)
    seed = random.randrange(2**31)
    loaded = folder.load(run_dir)
    if preset is not None:
        loaded = loaded._replace(config=with_preset(loaded.config, preset))
    session = Session(loaded, simulations=simulations, fen=fen, seed=seed)
    terminal = Terminal(session, seat, input, Console() if console is None else console)
    try:
        terminal.run()
    except (EOFError, KeyboardInterrupt):
        terminal.say("")
    terminal.say("Goodbye.")


def seat_of(colour: str) -> int:
    """The seat of a colour: 0 for white, 1 for black, either for random. Raises ValueError."""
    if colour not in COLOURS:
        raise ValueError(f"colour = {colour!r}: must be one of {', '.join(COLOURS)}")
    return random.randrange(2) if colour == "random" else COLOURS.index(colour)


class Terminal:
    """Reads what the player types, and shows the board and what the engine does."""

    def __init__(
        self, session: Session, seat: int, ask: Callable[[str], str], console: Console
    ) -> None:
        self.session, self.seat, self.ask, self.console = session, seat, ask, console
        self.flipped = False

    def run(self) -> None:
        """Takes turns with the player until `quit`."""
        self.say(f"You play {self.session.notation.sides[self.seat]}; `help` lists the commands.")
        self.show()
        while True:
            if not self.session.over and self.session.view.mover != self.seat:
                self.reply()
                continue
            text = self.ask("over> " if self.session.over else "your move> ").strip()
            if text.lower() in ("quit", "exit"):
                return
            if text:
                self.obey(text)

    def obey(self, text: str) -> None:
        """Carries out a command or makes a move; says what is wrong with it."""
        name, _, rest = text.partition(" ")
        try:
            if name.lower() in COMMANDS:
                COMMANDS[name.lower()][0](self, rest.strip())
                return
            self.session.push(text)
        except ValueError as error:
            self.say(str(error))
            return
        if self.session.over:
            self.show()

    def say(self, text: str) -> None:
        """Prints a line as it is."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self) -> None:
        """Prints the board, and check or the end of the game."""
        session = self.session
        first_below = (self.seat == 0) != self.flipped
        letters = self.console.options.ascii_only
        self.say(f"\n{session.picture(first_below, letters)}\n")
        if session.over:
            self.say(f"{session.result()}.")
        elif session.notation.in_check(session.position):
            self.say("Check!")

    def search(self) -> Advice:
        """Searches the position on the board; the first search of all is compiled."""
        with self.console.status("thinking (compiling, the first time)"):
            return self.session.advice()

    def reply(self) -> None:
        """The engine moves."""
        advice = self.search()
        move = advice.best
        self.session.push(move.label)
        visits = f"{move.visits} of {advice.visits} visits"
        if advice.kept:
            visits += f", {advice.kept} kept from before"
        self.say(f"azchess plays {move.name} (its value {advice.value:+.2f}, {visits})")
        self.show()

    def undo(self, _: str) -> None:
        """Takes back the player's last move and the reply."""
        self.session.undo(self.seat)
        self.show()

    def hint(self, _: str) -> None:
        """Prints what the search thinks of each move."""
        advice = self.search()
        self.console.print(table(advice.result, advice.names))
        win, draw, loss = (f"{100 * share:.1f} %" for share in advice.wdl)
        self.say(
            f"value {advice.value:+.3f}   win {win}   draw {draw}   loss {loss}   "
            f"{advice.plies_left:.0f} plies left"
        )
        self.say(f"line: {' '.join(advice.line)}")

    def moves(self, _: str) -> None:
        """Lists the legal moves."""
        session = self.session
        names = [session.notation.name(session.position, label) for label in session.legal]
        self.say("  ".join(names) if names else "there are no moves")

    def fen(self, fen: str) -> None:
        """Prints the FEN, or sets one up."""
        if not fen:
            self.say(self.session.notation.fen(self.session.position))
            return
        self.session.new(fen)
        self.show()

    def flip(self, _: str) -> None:
        """Turns the board round."""
        self.flipped = not self.flipped
        self.show()

    def new(self, colour: str) -> None:
        """Begins another game."""
        seat = seat_of(colour.lower()) if colour else self.seat
        self.session.new()
        self.seat = seat
        self.show()

    def resign(self, _: str) -> None:
        """Gives up."""
        self.session.resign(self.seat)
        self.say(f"{self.session.result()}.")

    def help(self, _: str) -> None:
        """Lists the commands."""
        self.say("Write a move as in `moves`, in chess also as in e2e4 or e7e8q, or:")
        for name, (_method, words) in COMMANDS.items():
            self.say(f"  {name:8}{words}")
        self.say("  quit    leave (Ctrl-D, Ctrl-C)")


COMMANDS: dict[str, tuple[Callable[[Terminal, str], None], str]] = {
    "undo": (Terminal.undo, "take back your last move and the reply"),
    "hint": (Terminal.hint, "what the search thinks of each move"),
    "moves": (Terminal.moves, "the legal moves"),
    "fen": (Terminal.fen, "the position in FEN; `fen FEN` sets one up"),
    "flip": (Terminal.flip, "turn the board round"),
    "new": (Terminal.new, "another game; `new black` changes sides"),
    "resign": (Terminal.resign, "give up"),
    "help": (Terminal.help, "this list"),
}

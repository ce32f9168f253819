"""What a search thinks of a position, in words and numbers for a player."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from azchess.games.game import Position
from azchess.runs.notation import Notation, advance
from azchess.search.result import SearchResult

SHOWN = 8
"""The moves that a table lists at least, besides all that were visited."""


class Candidate(NamedTuple):
    """A legal move in the eyes of the search, seen from its player; see `SearchResult`.

    `bonus` is U; `policy` the move's share of the policy to learn; `wdl` and `plies_left` are 0
    where the move is unvisited.
    """

    label: int
    name: str
    visits: int
    q: float
    prior: float
    bonus: float
    policy: float
    wdl: tuple[float, ...]
    plies_left: float


@dataclasses.dataclass(frozen=True, eq=False)
class Advice:
    """What the search thinks of one position, seen from the player to move.

    `result` is without a batch axis; `names` are those of the legal moves in the order of their
    slots; `line` names the moves that the search expects; `kept` counts the visits that were there
    from earlier searches of the game.
    """

    result: SearchResult
    names: Sequence[str]
    line: Sequence[str]
    kept: int = 0

    @property
    def moves(self) -> list[Candidate]:
        """All legal moves, in the order of their slots."""
        result, decision = self.result, self.result.decision
        return [
            Candidate(
                label=int(decision.labels[slot]),
                name=name,
                visits=int(decision.visits[slot]),
                q=float(decision.q[slot]),
                prior=float(decision.prior[slot]),
                bonus=float(result.bonus[slot]),
                policy=float(decision.policy[slot]),
                wdl=tuple(result.wdl[slot].tolist()),
                plies_left=float(result.moves_left[slot]),
            )
            for slot, name in enumerate(self.names)
        ]

    @property
    def candidates(self) -> list[Candidate]:
        """All legal moves, the most visited first."""
        return sorted(self.moves, key=lambda move: (-move.visits, -move.prior))

    @property
    def best(self) -> Candidate:
        """The move that the search would play."""
        return self.moves[int(self.result.decision.slot)]

    @property
    def visits(self) -> int:
        """The number of simulations."""
        return int(self.result.decision.visits.sum())

    @property
    def value(self) -> float:
        """The search's value of the position, in [-1, 1]."""
        return float(self.result.decision.value)

    @property
    def wdl(self) -> tuple[float, ...]:
        """Shares of wins, draws and losses among all evaluations."""
        return tuple(self.result.decision.wdl.tolist())

    @property
    def plies_left(self) -> float:
        """Plies to the end of the game, a mean over all evaluations."""
        return float(self.result.plies_left)


def table(result: SearchResult, names: Sequence[str], least: int = SHOWN) -> Table:
    """The moves of one position, the most visited first: all that were visited, and `least` others.

    N visits, Q, prior P, bonus U, the policy to learn, wins / draws / losses and plies to the end;
    shares are in percent, and * marks the move that the search would play. `result` is without a
    batch axis; `names` are those of the legal moves in the order of their slots.
    """
    advice = Advice(result=result, names=names, line=())
    best = advice.best
    shown = Table(title=f"{advice.visits} simulations")
    for column in ("move", "N", "Q", "P", "U", "policy", "W / D / L", "plies"):
        shown.add_column(column, justify="left" if column == "move" else "right", no_wrap=True)
    for rank, move in enumerate(advice.candidates):
        if rank < least or move.visits:
            shown.add_row(
                move.name + (" *" if move == best else ""),
                str(move.visits),
                f"{move.q:+.3f}" if move.visits else "-",
                f"{100 * move.prior:.1f}",
                f"{move.bonus:+.3f}",
                f"{100 * move.policy:.1f}",
                " / ".join(f"{100 * part:.0f}" for part in move.wdl) if move.visits else "-",
                f"{move.plies_left:.0f}" if move.visits else "-",
            )
    return shown


def line_names(notation: Notation, position: Position, labels: Sequence[int]) -> list[str]:
    """The names of moves made one after the other from a position; -1 ends the line."""
    names = []
    for label in labels:
        if label < 0:
            break
        names.append(notation.name(position, label))
        position = advance(notation.game, position, np.int32(label))
    return names

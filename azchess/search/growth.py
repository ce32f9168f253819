"""The static part of a search, whatever its rules: how its trees grow."""

import dataclasses

from azchess.search.edges import Ties
from azchess.search.node import Chance


@dataclasses.dataclass(frozen=True)
class Growth:
    """How trees grow: the static part of a search, whatever its rules."""

    simulations: int = 32
    """Positions evaluated below the root per move (AlphaZero: 800)."""
    _: dataclasses.KW_ONLY
    max_depth: int | None = None
    """Longest line in plies; None for no limit."""
    leaves: int = 1
    """Positions of each game that are evaluated together (Lc0: minibatch-size)."""
    virtual_loss: bool = False
    """Visits in flight count as losses, and not as visits alone as in Lc0."""
    chance: Chance = "sampled"
    """Dice are `sampled` at each visit, or `spread` evenly by their probabilities; `exact` spreads
    them and values a new chance node by all its outcomes."""
    ties: Ties = "rank"
    """After score and prior the lower `rank` decides, or the `notation` of the moves; or chance
    alone, `random`, as the texts on bandits and UCT have it."""
    solver: bool = False
    """Proven wins, losses and draws go up the trees (MCTS-Solver): see `azchess.search.proof`."""
    proven_first: bool = True
    """Moves proven won go before all others, and those proven lost after them; False: all moves by
    their scores (Lc0). Only trees that carry bounds have proofs."""
    two_fold_draws: bool = False
    """A position that comes back within a line is a draw (Lc0: two-fold-draws); see `repeated`."""

    def __post_init__(self) -> None:
        for name in ("simulations", "leaves"):
            if getattr(self, name) < 1:
                raise ValueError(f"search.{name} = {getattr(self, name)}: must be at least 1")
        if self.max_depth is not None and self.max_depth < 1:
            raise ValueError(f"search.max_depth = {self.max_depth}: must be at least 1, or None")

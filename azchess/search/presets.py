"""Searches with the names that the field knows them by, each with its constants and source."""

import dataclasses
import re
from typing import Any

from azchess.search.grill import Grill
from azchess.search.gumbel import Gumbel
from azchess.search.knobs import SearchKnobs
from azchess.search.lc0 import Lc0
from azchess.search.muzero import MuZeroPuct
from azchess.search.phases import PhaseGumbel
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct
from azchess.search.rave import Rave
from azchess.search.uct import Uct


@dataclasses.dataclass(frozen=True)
class Preset:
    """A search and its numbers as someone has published them; printed, it says what they are.

    `formula` is written with the names of the fields and knobs that it reads, whose values are the
    preset's `constants`. The number of simulations is no part of a preset.
    """

    name: str
    search: TreeSearch
    knobs: SearchKnobs
    formula: str
    source: str

    @property
    def constants(self) -> dict[str, Any]:
        """Fields and knobs that the formula names, and those that are not as usual."""
        words = set(re.findall(r"\w+", self.formula))
        values = {}
        for part, usual in ((self.search, type(self.search)()), (self.knobs, SearchKnobs())):
            for field in dataclasses.fields(part):
                value = getattr(part, field.name)
                named = field.name in words or value != getattr(usual, field.name)
                if named and field.name != "simulations":
                    values[field.name] = value
        return values

    def __str__(self) -> str:
        constants = ", ".join(f"{name} {value}" for name, value in self.constants.items())
        rows = {"formula": self.formula, "constants": constants, "source": self.source}
        rows = {"search": type(self.search).__name__} | rows
        lines = [f"  {title:11}{text}" for title, text in rows.items()]
        return "\n".join([self.name, *lines])


PUCT = (
    "Q + (c_init + c_factor log((1 + N + c_base) / c_base)) P sqrt(N) / (1 + n); "
    "unvisited: Q = fpu; root: P mixed with noise_fraction of Dir(noise_alpha)"
)
REDUCED = (
    "Q + (c_init + c_factor log((1 + N + c_base) / c_base)) P sqrt(N) / (1 + n); "
    "unvisited: Q = fpu_parent Q(node) - fpu_reduction sqrt(P of the visited moves)"
)
HALVING = (
    "root: halving of the best `considered` by gumbel_scale x Gumbel noise + logits + sigma(Q); "
    "below: softmax(logits + sigma(Q)) - n / (1 + N); sigma(Q) = (c_visit + max n) c_scale Q"
)

ALPHAZERO = Preset(
    name="alphazero",
    search=Puct(),
    knobs=SearchKnobs(c_init=1.25, c_base=19652.0, fpu=0.0),
    formula=PUCT,
    source="Silver et al. 2018, Science 362, Methods and pseudocode; an unvisited move counts 0",
)
ALPHAZERO_PAPER_FPU = Preset(
    name="alphazero_paper_fpu",
    search=Puct(),
    knobs=SearchKnobs(c_init=1.25, c_base=19652.0, fpu=-1.0),
    formula=PUCT,
    source="the same; an unvisited move counts as lost, as one of its authors reported (ELF#140)",
)
NN_CHESS = Preset(
    name="nn_chess",
    search=Puct(ties="notation"),
    knobs=SearchKnobs(c_init=1.5, c_factor=0.0, fpu=0.0),
    formula=(
        "Q + c_init P sqrt(N) / (1 + n); unvisited: Q = fpu; in self-play P mixed at the root with "
        "noise_fraction of Dir(noise_alpha)"
    ),
    source="nn-chess, How nn-chess thinks, section 2",
)
"""PUCT with a constant c. Ties of Q + U, and of visits in the end, go to the higher
prior, then to the UCI that comes first in the alphabet, on the board as it stands (so that colours
do not mirror each other in ties). The text also describes the limit c -> 0 as breaking ties of Q
"on N, then on prior": that is read as what the vanishing U = c P sqrt(N) / (1 + n) does as long as
c > 0, among equal priors, and not as a further key; at c = 0 the prior decides."""
LC0 = Preset(
    name="lc0",
    search=Lc0(),
    knobs=SearchKnobs(
        c_init=1.745,
        c_base=38739.0,
        c_factor=3.894,
        fpu_parent=1.0,
        fpu_reduction=0.33,
        policy_temperature=1.359,
        moves_left_slope=0.0027,
        noise_fraction=0.0,
    ),
    formula=f"{REDUCED}; Q with draw_score, and the worth of moves left",
    source="Lc0 v0.32, defaults of its UCI engine, whose `go nodes N` counts the root",
)
LC0_SELFPLAY = Preset(
    name="lc0_selfplay",
    search=Lc0(two_fold_draws=False, sticky_endgames=False),
    knobs=SearchKnobs(
        c_init=1.2,
        c_base=38739.0,
        c_factor=0.0,
        fpu_parent=1.0,
        fpu_reduction=0.0,
        noise_fraction=0.25,
        noise_alpha=0.3,
        moves_left_slope=0.0027,
    ),
    formula=f"{REDUCED}; root: P mixed with noise_fraction of Dir(noise_alpha)",
    source="Lc0 v0.32, defaults of selfplay",
)
KATAGO = Preset(
    name="katago",
    search=Puct(target="pruned"),
    knobs=SearchKnobs(
        c_init=1.1,
        c_factor=0.0,
        fpu_parent=1.0,
        fpu_reduction=0.2,
        root_fpu_reduction=0.0,
        forced_visits=2.0,
        noise_fraction=0.25,
        noise_total=10.83,
        root_temperature=1.03,
    ),
    formula=(
        f"{REDUCED}; root: at least sqrt(forced_visits P N) visits, which the policy to learn "
        "leaves out"
    ),
    source="Wu 2020, Accelerating self-play learning in Go, sections 2 and 3.2",
)
MUZERO_MCTX = Preset(
    name="muzero_mctx",
    search=MuZeroPuct(),
    knobs=SearchKnobs(),
    formula=(
        "Q' + (c_init + c_factor log((2 + N + c_base) / c_base)) P sqrt(N + 1) / (1 + n), "
        "Q' rescaled to [0, 1] at each node"
    ),
    source="Schrittwieser et al. 2020, appendix B; mctx.muzero_policy, mctx 0.0.71: its defaults",
)
GUMBEL_PAPER = Preset(
    name="gumbel_paper",
    search=Gumbel(considered=16),
    knobs=SearchKnobs(gumbel_scale=1.0, c_visit=50.0, c_scale=1.0),
    formula=f"{HALVING}, Q in [0, 1]",
    source="Danihelka et al. 2022, ICLR: board games, Q unvisited as in appendix D",
)
GUMBEL_PHASES = Preset(
    name="gumbel_phases",
    search=PhaseGumbel(considered=16),
    knobs=SearchKnobs(gumbel_scale=1.0, c_visit=50.0, c_scale=1.0),
    formula=f"{HALVING}, Q in [0, 1]; the moves of a phase are searched side by side",
    source="Danihelka et al. 2022, ICLR: algorithms 1 and 2, scores read at the ends of phases",
)
GUMBEL_MCTX = Preset(
    name="gumbel_mctx",
    search=Gumbel(considered=16, rescale_values=True),
    knobs=SearchKnobs(gumbel_scale=1.0, c_visit=50.0, c_scale=0.1),
    formula=f"{HALVING}, Q rescaled to [0, 1] among the moves of a node (rescale_values)",
    source="mctx.gumbel_muzero_policy, mctx 0.0.71: its defaults",
)
GRILL = Preset(
    name="grill",
    search=Grill(),
    knobs=SearchKnobs(c_init=1.25, c_base=19652.0),
    formula=(
        "moves and targets by lambda P / (alpha - Q), which sums to 1; lambda = "
        "(c_init + c_factor log((1 + N + c_base) / c_base)) sqrt(N) / (A + N)"
    ),
    source="Grill et al. 2020, ICML, section 3: act, search and learn",
)
UCT = Preset(
    name="uct",
    search=Uct(ties="random"),
    knobs=SearchKnobs(c_uct=8**0.5, noise_fraction=0.0),
    formula="Q + c_uct sqrt(ln N / n), unvisited moves first; for values by play-outs",
    source="Kocsis and Szepesvari 2006, ECML; Auer et al. 2002, figure 1: sqrt(2) on [0, 1]",
)
UCB1_TUNED = Preset(
    name="ucb1_tuned",
    search=Uct(tuned=True, ties="random"),
    knobs=SearchKnobs(c_uct=1.0, noise_fraction=0.0),
    formula="Q + c_uct sqrt(ln N / n min(1, V)), V = variance + sqrt(32 ln N / n)",
    source="Auer et al. 2002, Machine Learning 47, section 4, scaled to [-1, 1]",
)
RAVE = Preset(
    name="rave",
    search=Rave(ties="random"),
    knobs=SearchKnobs(rave_visits=1000.0, noise_fraction=0.0),
    formula="(1 - b) Q + b AMAF, b = sqrt(rave_visits / (3 N + rave_visits))",
    source="Gelly and Silver 2011, Artificial Intelligence 175: MC-RAVE",
)

PRESETS = (
    ALPHAZERO,
    ALPHAZERO_PAPER_FPU,
    NN_CHESS,
    LC0,
    LC0_SELFPLAY,
    KATAGO,
    MUZERO_MCTX,
    GUMBEL_PAPER,
    GUMBEL_PHASES,
    GUMBEL_MCTX,
    GRILL,
    UCT,
    UCB1_TUNED,
    RAVE,
)
"""All presets; a new one is a constant above, and a line here."""


def preset_named(name: str) -> Preset:
    """The preset of that name. Raises ValueError with all names for another."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    names = ", ".join(preset.name for preset in PRESETS)
    raise ValueError(f"preset = {name!r}: must be one of {names}")

"""Searches of the field by name: what each engine or paper searches with, and its numbers."""

import dataclasses
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

PUCT = "Q + c(N) P sqrt(N) / (1 + n), c(N) = c_init + c_factor log((1 + N + c_base) / c_base)"
LC0 = f"{PUCT}, plus moves-left utility, Q with the draw score"
GUMBEL = "root: halving by g + logits + sigma(Q); below: pi'(a) - n / (1 + N)"


@dataclasses.dataclass(frozen=True)
class Preset:
    """A search and the knobs to call it with; printed, its formula, its numbers and its source."""

    name: str
    search: TreeSearch
    knobs: SearchKnobs
    formula: str
    source: str

    def __str__(self) -> str:
        simulations = f"simulations={self.search.simulations}"
        options = ", ".join([simulations, *differences(self.search, skip="simulations")])
        knobs = ", ".join(differences(self.knobs)) or "the defaults"
        return (
            f"{self.name}: {self.formula}\n"
            f"search: {type(self.search).__name__}({options})\n"
            f"knobs: {knobs}\nsource: {self.source}"
        )


def differences(config: Any, skip: str = "") -> list[str]:
    """The fields of a dataclass that are not as by default, as they are written in a call."""
    return [
        f"{field.name}={getattr(config, field.name)!r}"
        for field in dataclasses.fields(config)
        if field.name != skip and getattr(config, field.name) != field.default
    ]


def alphazero(simulations: int = 800) -> Preset:
    """AlphaZero in chess (Silver et al. 2018): PUCT; an unvisited move is worth 0, a draw."""
    return Preset("alphazero", Puct(simulations), SearchKnobs(), PUCT, "Silver et al. 2018")


def alphazero_paper_fpu(simulations: int = 800) -> Preset:
    """AlphaZero in chess, and an unvisited move is a loss.

    The paper does not say what an unvisited move is worth; its authors have said so since.
    """
    return Preset(
        "alphazero_paper_fpu", Puct(simulations), SearchKnobs(fpu=-1.0), PUCT, "Silver et al. 2018"
    )


def nn_chess(simulations: int = 100, c_puct: float = 1.5) -> Preset:
    """PUCT with a constant c, as nn-chess explains it: Q + c P sqrt(N) / (1 + n), no noise.

    N is the sum of child visits, an unvisited move has Q = 0, Q is the mean in [-1, 1], and draws
    are worth 0. Ties of Q + U go to the higher prior, then to the UCI that comes first in the
    alphabet, on the board as it stands (so that colours do not mirror each other in ties). The most
    visited move is played; equal visits are decided in the same way. nn-chess also describes the
    limit c -> 0 as breaking ties of Q "on N, then on prior": that is read as what the vanishing U =
    c P sqrt(N) / (1 + n) does as long as c > 0, among equal priors, and not as a further key; at c
    = 0 the prior decides. The root's own evaluation is none of the simulations.
    """
    knobs = SearchKnobs(c_init=c_puct, c_factor=0.0, fpu=0.0)
    search = Puct(simulations, ties="notation")
    formula = "Q + c P sqrt(N) / (1 + n)"
    return Preset("nn_chess", search, knobs.greedy(), formula, "nn-chess, How nn-chess thinks, 2")


def lc0(simulations: int = 800) -> Preset:
    """Lc0 as its UCI engine plays by default (v0.32): no noise, policy temperature 1.359.

    Its `go nodes N` counts the root's own evaluation: N - 1 simulations.
    """
    knobs = SearchKnobs(
        c_init=1.745,
        c_base=38739.0,
        c_factor=3.894,
        fpu_parent=1.0,
        fpu_reduction=0.33,
        policy_temperature=1.359,
        moves_left_slope=0.0027,
        moves_left_most=0.0345,
        moves_left_threshold=0.8,
        moves_left_constant=0.0,
        moves_left_scaled=1.6521,
        moves_left_quadratic=-0.6521,
    )
    return Preset("lc0", Lc0(simulations), knobs.greedy(), LC0, "Lc0 v0.32, UCI defaults")


def lc0_selfplay(simulations: int = 800) -> Preset:
    """Lc0 as it plays itself by default (v0.32): a constant c, no reduction, and noise."""
    knobs = SearchKnobs(
        c_init=1.2,
        c_base=38739.0,
        c_factor=0.0,
        fpu_parent=1.0,
        fpu_reduction=0.0,
        noise_fraction=0.25,
        noise_alpha=0.3,
        moves_left_slope=0.0027,
    )
    search = Lc0(simulations, two_fold_draws=False, sticky_endgames=False)
    return Preset("lc0_selfplay", search, knobs, LC0, "Lc0 v0.32, defaults of selfplay")


def katago(simulations: int = 600) -> Preset:
    """KataGo's self-play search (Wu 2020, sections 2 and 3.2): forced playouts, pruned targets.

    c = 1.1, an unvisited move is worth the parent's value less 0.2 sqrt(visited prior mass), and
    just the parent's value at the root; Dirichlet noise of total concentration 10.83, after a
    softmax temperature of 1.03.
    """
    knobs = SearchKnobs(
        c_init=1.1,
        c_factor=0.0,
        fpu_parent=1.0,
        fpu_reduction=0.2,
        root_fpu_reduction=0.0,
        forced_visits=2.0,
        noise_fraction=0.25,
        noise_total=10.83,
        root_temperature=1.03,
    )
    search = Puct(simulations, target="pruned")
    formula = f"{PUCT}; root: at least sqrt(k P N) visits, taken off the target again"
    return Preset("katago", search, knobs, formula, "Wu 2020, sections 2 and 3.2")


def muzero_mctx(simulations: int = 50) -> Preset:
    """MuZero as `mctx.muzero_policy` has it by default: Q rescaled to [0, 1] at each node."""
    formula = "Q' + c(N + 1) P sqrt(N + 1) / (1 + n), Q' rescaled to [0, 1]"
    source = "Schrittwieser et al. 2020, appendix B; mctx"
    return Preset("muzero_mctx", MuZeroPuct(simulations), SearchKnobs(), formula, source)


def gumbel_paper(simulations: int = 200) -> Preset:
    """Gumbel AlphaZero in chess and Go (Danihelka et al. 2022): Q in [0, 1] as it is, c_scale 1."""
    source = "Danihelka et al. 2022, algorithms 1 and 2, eq. 14"
    return Preset("gumbel_paper", Gumbel(simulations), SearchKnobs(), GUMBEL, source)


def gumbel_phases(simulations: int = 200) -> Preset:
    """The same, read at the ends of phases as in the paper, a phase's moves evaluated together."""
    source = "Danihelka et al. 2022, algorithms 1 and 2, eq. 14"
    return Preset("gumbel_phases", PhaseGumbel(simulations), SearchKnobs(), GUMBEL, source)


def gumbel_mctx(simulations: int = 50) -> Preset:
    """Gumbel as `mctx.gumbel_muzero_policy` has it by default: Q rescaled, c_scale 0.1."""
    search = Gumbel(simulations, rescale_values=True)
    source = "Danihelka et al. 2022; mctx, qtransform_completed_by_mix_value"
    return Preset("gumbel_mctx", search, SearchKnobs(c_scale=0.1), GUMBEL, source)


def grill(simulations: int = 50) -> Preset:
    """MCTS as regularised policy optimisation (Grill et al. 2020), ALL: act, search and learn."""
    formula = "pi-bar = lambda P / (alpha - Q), lambda = c(N) sqrt(N) / (A + N)"
    return Preset("grill", Grill(simulations), SearchKnobs(), formula, "Grill et al. 2020")


def uct(simulations: int = 1000) -> Preset:
    """UCT with UCB1's constant (Kocsis and Szepesvari 2006; Auer et al. 2002), for play-outs."""
    knobs = SearchKnobs(c_uct=8**0.5).greedy()
    formula = "Q + c sqrt(ln N / n), unvisited moves first"
    source = "Kocsis and Szepesvari 2006; Auer et al. 2002, figure 1"
    return Preset("uct", Uct(simulations, ties="random"), knobs, formula, source)


def ucb1_tuned(simulations: int = 1000) -> Preset:
    """UCT with UCB1-Tuned in the place of UCB1 (Auer et al. 2002, section 4)."""
    knobs = SearchKnobs(c_uct=1.0).greedy()
    formula = "Q + c sqrt(ln N / n min(1, V)), V = variance + sqrt(32 ln N / n)"
    search = Uct(simulations, tuned=True, ties="random")
    return Preset("ucb1_tuned", search, knobs, formula, "Auer et al. 2002, section 4")


def rave(simulations: int = 1000) -> Preset:
    """MC-RAVE with the hand-selected schedule and k = 1,000 (Gelly and Silver 2011)."""
    formula = "(1 - beta) Q + beta A, beta = sqrt(k / (3 N + k))"
    search = Rave(simulations, ties="random")
    source = "Gelly and Silver 2011, section 4"
    return Preset("rave", search, SearchKnobs(rave_visits=1000.0).greedy(), formula, source)


PRESETS = (
    alphazero,
    alphazero_paper_fpu,
    nn_chess,
    lc0,
    lc0_selfplay,
    katago,
    muzero_mctx,
    gumbel_paper,
    gumbel_phases,
    gumbel_mctx,
    grill,
    uct,
    ucb1_tuned,
    rave,
)


def preset(name: str, simulations: int | None = None) -> Preset:
    """The preset of that name, with other simulations if given. Raises ValueError for no such."""
    for make in PRESETS:
        if make.__name__ == name:
            return make() if simulations is None else make(simulations)
    names = ", ".join(make.__name__ for make in PRESETS)
    raise ValueError(f"there is no search preset {name}; there are {names}")

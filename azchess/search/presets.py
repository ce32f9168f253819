"""Searches of the field by name: what each engine or paper searches with, and its numbers."""

from typing import NamedTuple

from azchess.search.knobs import SearchKnobs
from azchess.search.lc0 import Lc0
from azchess.search.policy import TreeSearch
from azchess.search.puct import Puct


class Preset(NamedTuple):
    """A search and the knobs to call it with."""

    search: TreeSearch
    knobs: SearchKnobs


def alphazero(simulations: int = 800) -> Preset:
    """AlphaZero in chess (Silver et al. 2018): PUCT, and an unvisited move is a loss.

    The paper does not say what an unvisited move is worth; its authors have said so since.
    """
    return Preset(Puct(simulations), SearchKnobs(fpu=-1.0))


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
    return Preset(Puct(simulations, ties="notation"), knobs.greedy())


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
    return Preset(Lc0(simulations), knobs.greedy())


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
    return Preset(search, knobs)


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
    return Preset(Puct(simulations, target="pruned"), knobs)

"""The numbers of a search, as values that may change without compiling anything anew."""

import dataclasses
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Num

from azchess.pytree import pytree

Knob: TypeAlias = float | int | Num[Array, "..."]
"""A scalar, or one value per game `[B]`."""

T = TypeVar("T")

ANY = float("inf")
RANGES = {
    "discount": (0.0, 1.0),
    "budget": (1.0, ANY),
    "full_share": (0.0, 1.0),
    "fast_budget": (1.0, ANY),
    "temperature": (0.0, ANY),
    "temperature_plies": (0.0, ANY),
    "temperature_decay": (0.0, ANY),
    "temperature_end": (0.0, ANY),
    "value_cutoff": (0.0, 2.0),
    "noise_fraction": (0.0, 1.0),
    "noise_alpha": (1e-3, ANY),
    "noise_total": (1e-3, ANY),
    "policy_temperature": (1e-3, ANY),
    "root_temperature": (1e-3, ANY),
    "c_init": (0.0, ANY),
    "c_base": (1.0, ANY),
    "c_factor": (0.0, ANY),
    "fpu": (-1.0, 1.0),
    "fpu_parent": (0.0, 1.0),
    "fpu_reduction": (0.0, 2.0),
    "forced_visits": (0.0, ANY),
    "draw_score": (-1.0, 1.0),
    "moves_left_slope": (0.0, ANY),
    "moves_left_most": (0.0, 1.0),
    "moves_left_threshold": (0.0, 1.0),
    "gumbel_scale": (0.0, ANY),
    "c_visit": (0.0, ANY),
    "c_scale": (0.0, ANY),
    "c_uct": (0.0, ANY),
    "c_prior": (0.0, ANY),
    "rave_visits": (0.0, ANY),
    "rave_bias": (0.0, 2.0),
}


@pytree
class SearchKnobs:
    """Numbers of search and move choice, each a scalar or one value per game `[B]`.

    A policy reads those that its formula has. Paper's values stand beside the defaults.
    """

    discount: Knob = 1.0
    """Worth of a win one ply later, relative to now (AlphaZero: 1)."""
    budget: Knob | None = None
    """Simulations of this game, at most the search's own number; None for all of them."""
    full_share: Knob = 1.0
    """Share of self-play's moves that are searched in full and learned from (KataGo: 0.25)."""
    fast_budget: Knob = 100.0
    """Simulations of the other moves, without noise (KataGo: 100 beside 600)."""

    temperature: Knob = 1.0
    """Self-play draws its first moves from policy^(1/temperature) (AlphaZero: 1)."""
    temperature_plies: Knob = 30.0
    """Plies of a self-play game that are drawn so (AlphaZero: 30 moves in Go and chess)."""
    temperature_decay: Knob = 0.0
    """Plies over which it then falls in a straight line towards 0 (Lc0: tempdecay-moves, 0)."""
    temperature_end: Knob = 0.0
    """Least temperature from then on, 0 for the search's own choice (Lc0: temp-endgame, 0)."""
    value_cutoff: Knob = 2.0
    """No move is drawn whose Q is further below the best one's (Lc0: temp-value-cutoff / 50, 2)."""
    visit_offset: Knob = 0.0
    """Added to each visited move's share of the visits, in visits (Lc0: temp-visit-offset, 0)."""

    noise_fraction: Knob = 0.25
    """Share of Dirichlet noise in the root prior (AlphaZero: 0.25); 0 in evaluation."""
    noise_alpha: Knob = 0.3
    """Concentration of the noise (AlphaZero: 0.3 in chess)."""
    noise_total: Knob | None = None
    """Sum of the concentrations over the moves, in place of `noise_alpha` (KataGo: 10.83)."""
    policy_temperature: Knob = 1.0
    """Softmax temperature of all priors (Lc0: policy-softmax-temp, 1.359)."""
    root_temperature: Knob = 1.0
    """Further softmax temperature of the root's prior (KataGo: 1.25 falling to 1.1)."""

    c_init: Knob = 1.25
    """PUCT exploration constant (AlphaZero: 1.25; Lc0: cpuct, 1.745)."""
    c_base: Knob = 19652.0
    """PUCT exploration growth (AlphaZero: 19652; Lc0: cpuct-base, 38739)."""
    c_factor: Knob = 1.0
    """Weight of that growth (AlphaZero: 1; Lc0: cpuct-factor, 3.894); 0 for a constant c."""
    fpu: Knob = 0.0
    """First-play urgency: Q of an unvisited move (AlphaZero, as reported: -1, a loss)."""
    fpu_parent: Knob = 0.0
    """Share of the node's mean value that is added to it (Lc0's reduction: 1)."""
    fpu_reduction: Knob = 0.0
    """Taken off it, times the root of the visited moves' prior mass (Lc0: fpu-value, 0.33)."""
    root_c_init: Knob | None = None
    """`c_init` at the root; None, here and below, for the same as elsewhere."""
    root_c_base: Knob | None = None
    """`c_base` at the root."""
    root_c_factor: Knob | None = None
    """`c_factor` at the root."""
    root_fpu: Knob | None = None
    """`fpu` at the root."""
    root_fpu_parent: Knob | None = None
    """`fpu_parent` at the root."""
    root_fpu_reduction: Knob | None = None
    """`fpu_reduction` at the root."""
    forced_visits: Knob = 0.0
    """k of the k P N visits that a root move gets at least, squared (KataGo: 2)."""

    draw_score: Knob = 0.0
    """Worth of a draw to the root's mover (Lc0: draw-score, 0)."""
    moves_left_slope: Knob = 0.0
    """Worth of a ply of game length, for who is ahead (Lc0: moves-left-slope, 0.0027)."""
    moves_left_most: Knob = 0.0345
    """Most that game length may matter (Lc0: moves-left-max-effect, 0.0345)."""
    moves_left_threshold: Knob = 0.8
    """Least |Q| at which it matters (Lc0: moves-left-threshold, 0.8)."""
    moves_left_constant: Knob = 0.0
    """Constant part of its weight (Lc0: moves-left-constant-factor, 0)."""
    moves_left_scaled: Knob = 1.6521
    """Part linear in |Q| (Lc0: moves-left-scaled-factor, 1.6521)."""
    moves_left_quadratic: Knob = -0.6521
    """Part quadratic in |Q| (Lc0: moves-left-quadratic-factor, -0.6521)."""

    gumbel_scale: Knob = 1.0
    """Scale of the Gumbel noise at the root (Danihelka et al. 2022: 1); 0 in evaluation."""
    c_visit: Knob = 50.0
    """Visits added to the largest count when Q is scaled (Danihelka et al. 2022: 50)."""
    c_scale: Knob = 1.0
    """Scale of Q against logits (Danihelka et al. 2022: 1 in board games; mctx: 0.1)."""

    c_uct: Knob = 1.4142135
    """UCT's exploration constant for values in [-1, 1] (UCB1: the root of 8; UCB1-Tuned: 1)."""
    c_prior: Knob = 0.0
    """Weight of the prior as a progressive bias (Chaslot et al. 2008 tune theirs)."""
    rave_visits: Knob = 1000.0
    """Visits of a node at which a move's own mean and its all-moves-as-first weigh alike."""
    rave_bias: Knob = 0.1
    """Error of all-moves-as-first that no number of games removes, for values in [-1, 1]."""

    def at_root(self) -> "SearchKnobs":
        """The knobs as the root's rule reads them: what is set for the root takes its place."""
        own = {
            field.name.removeprefix("root_"): getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name.startswith(("root_c_", "root_fpu"))
        }
        return dataclasses.replace(
            self, **{name: value for name, value in own.items() if value is not None}
        )

    def greedy(self) -> "SearchKnobs":
        """The same search without noise, forced visits or sampled moves, as in play."""
        return dataclasses.replace(
            self,
            noise_fraction=0.0,
            forced_visits=0.0,
            gumbel_scale=0.0,
            temperature_plies=0.0,
            temperature_decay=0.0,
            temperature_end=0.0,
        )


def check_knobs(knobs: SearchKnobs) -> None:
    """Raises ValueError for a value out of its range; only for knobs that are Python numbers."""
    for field in dataclasses.fields(knobs):
        name = field.name
        low, high = RANGES.get(name, RANGES.get(name.removeprefix("root_"), (-ANY, ANY)))
        value = getattr(knobs, name)
        if isinstance(value, int | float) and not low <= value <= high:
            raise ValueError(f"knobs.search.{name} = {value}: must be between {low} and {high}")


def per_game(knobs: T, batch: int) -> T:
    """The knobs with one float32 value per game, `[B]`. Raises ValueError for other lengths."""

    def spread(path: tuple[object, ...], value: object) -> Array:
        value = jnp.asarray(value, jnp.float32)
        if value.shape not in ((), (batch,)):
            name = jax.tree_util.keystr(path, simple=True)
            raise ValueError(
                f"knob {name} has shape {value.shape}: must be a number or one per game, ({batch},)"
            )
        return jnp.broadcast_to(value, (batch,))

    return jax.tree_util.tree_map_with_path(spread, knobs)


def columns(knobs: T) -> T:
    """Knobs `[B]` as `[B, 1]`, beside the scores `[B, S]` of a rule."""
    return jax.tree.map(lambda value: value[:, None], knobs)

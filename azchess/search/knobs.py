"""The numbers of a search, as values that may change without compiling anything anew."""

import dataclasses
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from azchess.pytree import pytree

Knob: TypeAlias = float | int | Float[Array, "..."]
"""A scalar, or one value per game `[B]`."""

T = TypeVar("T")


@pytree
class SearchKnobs:
    """Numbers of search and move choice, each a scalar or one value per game `[B]`.

    A policy reads those that its formula has. Paper's values stand beside the defaults.
    """

    discount: Knob = 1.0
    """Worth of a win one ply later, relative to now (AlphaZero: 1)."""
    temperature: Knob = 1.0
    """Self-play draws its first moves from policy^(1/temperature) (AlphaZero: 1)."""
    temperature_plies: Knob = 30.0
    """Plies of a self-play game that are drawn so (AlphaZero: 30 moves in Go and chess)."""
    c_init: Knob = 1.25
    """PUCT exploration constant (AlphaZero: 1.25)."""
    c_base: Knob = 19652.0
    """PUCT exploration growth (AlphaZero: 19652)."""
    fpu: Knob = 0.0
    """First-play urgency: Q of an unvisited move (AlphaZero, as reported: -1, a loss)."""
    noise_fraction: Knob = 0.25
    """Share of Dirichlet noise in the root prior (AlphaZero: 0.25); 0 in evaluation."""
    noise_alpha: Knob = 0.3
    """Concentration of the noise (AlphaZero: 0.3 in chess)."""
    gumbel_scale: Knob = 1.0
    """Scale of the Gumbel noise at the root (Danihelka et al. 2022: 1); 0 in evaluation."""
    c_visit: Knob = 50.0
    """Visits added to the largest count when Q is scaled (Danihelka et al. 2022: 50)."""
    c_scale: Knob = 1.0
    """Scale of Q against logits (Danihelka et al. 2022: 1 in board games; mctx: 0.1)."""

    def greedy(self) -> "SearchKnobs":
        """The same search without noise and without sampled moves, as in play and evaluation."""
        return dataclasses.replace(
            self, noise_fraction=0.0, gumbel_scale=0.0, temperature_plies=0.0
        )


def check_knobs(knobs: SearchKnobs) -> None:
    """Raises ValueError for a value out of its range; only for knobs that are Python numbers."""
    ranges = {
        "discount": (0.0, 1.0),
        "temperature": (0.0, float("inf")),
        "temperature_plies": (0.0, float("inf")),
        "c_init": (0.0, float("inf")),
        "c_base": (1.0, float("inf")),
        "fpu": (-1.0, 1.0),
        "noise_fraction": (0.0, 1.0),
        "noise_alpha": (1e-3, float("inf")),
        "gumbel_scale": (0.0, float("inf")),
        "c_visit": (0.0, float("inf")),
        "c_scale": (0.0, float("inf")),
    }
    for name, (low, high) in ranges.items():
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

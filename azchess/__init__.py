"""AlphaZero research as one XLA program: vectorised games, search, self-play and training."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from azchess.runs.folder import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # Imported when first used, so that `import azchess` alone stays light.
    if name == "load":
        from azchess.runs.folder import load

        return load
    raise AttributeError(f"module 'azchess' has no attribute {name!r}")

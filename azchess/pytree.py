"""`@pytree`: frozen dataclasses of arrays that jax maps over."""

import dataclasses
from collections.abc import Iterable
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def pytree(cls: type[T]) -> type[T]:
    """Makes a class a frozen, keyword-only dataclass whose fields are the children of a pytree.

    Rebuilding a tree skips `__init__`, so that `jax.tree.map` may put anything (masks, shapes,
    None) in the place of arrays although the fields' shapes are checked on construction.
    """
    cls = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
    names = tuple(field.name for field in dataclasses.fields(cls))  # pyright: ignore[reportArgumentType]

    def flatten(tree: T) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(tree, name) for name in names), None

    def flatten_with_keys(tree: T) -> tuple[tuple[tuple[Any, Any], ...], None]:
        keys = (jax.tree_util.GetAttrKey(name) for name in names)
        return tuple(zip(keys, flatten(tree)[0], strict=True)), None

    def unflatten(_: None, children: Iterable[Any]) -> T:
        tree = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(tree, name, child)
        return tree

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls

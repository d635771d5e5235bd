"""Values whose fields are attributes and items alike: `a.summary.tau1.mean`, `a.summary["tau1"]["mean"]`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from keyhole.files import json_text

Unbounded = Annotated[float, BeforeValidator(lambda value: float("inf") if value is None else value)]
"""A number that may be infinite, which JSON writes as null."""


class Readable(Mapping[str, Any]):
    """A dataclass whose fields are items too."""

    def __getitem__(self, name: str) -> Any:
        return self._items()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())

    def _items(self) -> dict[str, Any]:
        return vars(self)


class ReadableModel(BaseModel, Readable):
    """A block of JSON. A field that was not given is no item and is not written."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what `to_json` was called on; ValueError if a field is unknown, missing or of another type."""
        return cls.model_validate_json(text, strict=True)

    def to_json(self) -> str:
        """Return the text of the file: null stands for NaN and infinities."""
        return json_text(self)

    # A mapping yields its keys; pydantic's own iterator yields pairs.
    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self._items())

    def _items(self) -> dict[str, Any]:
        given = ((name, field.alias or name) for name, field in type(self).model_fields.items())
        return {alias: getattr(self, name) for name, alias in given if name in self.model_fields_set}

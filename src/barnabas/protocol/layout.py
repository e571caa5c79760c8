"""What one version of a schema looks like: its fields in wire order, its tagged fields, those it lacks."""

from dataclasses import dataclass
from functools import cache

from barnabas.protocol.schema import Field, Struct, resolved
from barnabas.protocol.wire import Wire


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct in one version."""

    cls: type[Struct]
    version: int
    flexible: bool
    fields: tuple[Field, ...]
    tagged: tuple[Field, ...]
    """Tagged fields of this version by ascending tag."""
    absent: tuple[Field, ...]

    def of(self, field: Field) -> "Layout":
        """The layout of a field's struct, in the same version."""
        assert field.struct is not None
        return layout_of(field.struct, self.version, flexible=self.flexible)

    def size_min(self) -> int:
        """The fewest bytes that an instance can take; bounds the count an array may claim."""
        return self.flexible + sum(map(self._field_size_min, self.fields))

    def _field_size_min(self, field: Field) -> int:
        if field.is_nullable(self.version) and field.struct and not field.is_array:
            return 1
        if not field.is_array and isinstance(field.kind, Wire):
            return field.kind.size if field.kind.code else self._length_size(field)
        return self._length_size(field) if field.is_array else self.of(field).size_min()

    def element_size_min(self, field: Field) -> int:
        """The fewest bytes that an element of an array can take."""
        if not isinstance(field.kind, Wire):
            return self.of(field).size_min()
        return field.kind.size if field.kind.code else (1 if self.flexible else 2)

    def _length_size(self, field: Field) -> int:
        if self.flexible:
            return 1
        return 2 if isinstance(field.kind, Wire) and field.kind.name == "string" and not field.is_array else 4

    def carries_records(self) -> bool:
        """Whether a field in here, however deep, holds record batches."""
        return any(
            self.of(field).carries_records() if field.struct else field.kind.name == "records"  # type: ignore[union-attr]
            for field in (*self.fields, *self.tagged)
        )


@cache
def layout_of(cls: type[Struct], version: int, *, flexible: bool) -> Layout:
    """The layout of a class in a version of the message that it belongs to."""
    fields = resolved(cls).values()
    present = [field for field in fields if version in field.versions]
    tagged = sorted((field for field in present if field.tag is not None), key=lambda field: field.tag or 0)
    return Layout(
        cls,
        version,
        flexible,
        tuple(field for field in present if field.tag is None),
        tuple(tagged),
        tuple(field for field in fields if version not in field.versions),
    )

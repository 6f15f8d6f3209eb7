"""The cases of all families. A family's module has `checks()`, cases of every kernel in small shapes, and `timings(rows)`, cases of
published models' shapes with that many tokens."""

from cases import activation, attention, experts, norm, positions, rope, rows

FAMILIES = {
    "rows": rows, "norm": norm, "rope": rope, "activation": activation, "experts": experts, "attention": attention,
    "positions": positions,
}


def module_of(family, kernel):
    """The module of kernels/cuda that a kernel is compiled in."""
    if family in ("attention", "positions"):
        return "attention_plain" if kernel.startswith("plain_") else "attention"
    return family


def checks(family):
    return list(FAMILIES[family].checks())


def timings(family, rows):
    return list(FAMILIES[family].timings(rows))


def chosen(case, family, names):
    """Whether one of the names is the family or a prefix of the kernel's name; without names all cases."""
    return not names or family in names or any(case.kernel.startswith(name) for name in names)

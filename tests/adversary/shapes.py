"""Shapes: makers of plays for any route. Importing the modules of shapes fills `SHAPES`."""

SHAPES = {}
# Shapes only for routes that take a body.
OF_POSTS = set()
# Shapes whose requests are expensive: each is a separate attack (`schedules.products`).
PRODUCTS = set()


def shape(maker):
    """Registers a maker of plays from a draft: one, a list, or None where the shape does not fit."""
    SHAPES[maker.__name__] = maker
    return maker


def posts(maker):
    OF_POSTS.add(maker.__name__)
    return shape(maker)


def product(maker):
    PRODUCTS.add(maker.__name__)
    return posts(maker)


def plays(name, draft):
    """The plays of a shape for a draft's route."""
    if name in OF_POSTS and draft.route.body is None:
        return []
    made = SHAPES[name](draft)
    return made if isinstance(made, list) else [made] if made is not None else []

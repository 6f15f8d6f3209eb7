"""Orders of attacks on one server, each as (name, function)."""

import http2_scenarios
import key_scenarios
import mix
import scenarios
import shapes
import specials
from routes import ROUTES

# Random attacks between two floods, in a run of hours.
BETWEEN = 25
# Name prefixes of attacks that are omitted once the time is over.
FILLERS = ("random-", "alone_")
FLOODS = {make.__name__: make for make in (*scenarios.ALL, *http2_scenarios.ALL, *key_scenarios.ALL)}


def calmly(field, run):
    """Runs an attack once the memory of earlier ones is freed."""
    async def run_calmly():
        await field.calm()
        await run()
    return run_calmly


def plain(field, attack):
    return attack.name, lambda: field.run(attack)


def flood(field, seed, make):
    return make.__name__, calmly(field, lambda: field.run(make(seed, field.limits)))


def floods(field, seed, makers):
    return (flood(field, seed, make) for make in makers)


def products(field, seed, names=None):
    """Each shape of products on three groups of routes with different bounds: one vector per input, many vectors per input,
    tokenization."""
    groups = {"": [route for route in ROUTES if route.values == 1], "_of_tokens": [route for route in ROUTES if route.values > 1],
              "_of_tokenizers": [route for route in ROUTES if route.is_tokenizer]}
    for name in names or sorted(shapes.PRODUCTS):
        for group, routes in groups.items():
            attack = mix.together(seed, name + group, [name], routes)
            yield attack.name, calmly(field, lambda attack=attack: field.run(attack))


def some_products(*names):
    """Products of these names; without a group's suffix, only on the routes with one vector per input."""
    return lambda field, seed: ((name, run) for name, run in products(field, seed) if name in names)


def products_one_by_one(field, seed):
    """Each shape of products on each route alone, whose bound is tight."""
    for name in sorted(shapes.PRODUCTS):
        for route in ROUTES:
            attack = mix.together(seed, f"alone_{name}{route.path.replace('/', '_')}", [name], [route])
            if attack.plays:
                yield attack.name, calmly(field, lambda attack=attack: field.run(attack))


def randoms(field, seed):
    """Endless random attacks, with an occasional flood."""
    number, makers = 0, list(FLOODS.values())
    while True:
        yield plain(field, mix.mixed(seed, number, ROUTES))
        number += 1
        if number % BETWEEN == 0:
            yield flood(field, seed, makers[number // BETWEEN % len(makers)])


def everything(field, seed):
    """Floods that need a tight bound, every shape, the other floods, some products and attacks by key, then random ones."""
    yield from in_order(field, seed, some_products("one_text_for_all", "many_small_values"), [key_scenarios.all_together])
    yield from randoms(field, seed)


def everything_slowly(field, seed):
    """The same schedule with all products, and attacks by key one by one."""
    yield from in_order(field, seed, products, key_scenarios.ALL)
    yield from randoms(field, seed)


def in_order(field, seed, some, by_key):
    yield from floods(field, seed, (*scenarios.FIRST, *http2_scenarios.FIRST))

    async def start_slow_readers():
        field.start(scenarios.readers_below_any_rate(seed, field.limits))
    yield "start_slow_readers", start_slow_readers
    yield from (plain(field, attack) for attack in mix.matrix(seed, ROUTES))
    yield "slow_readers_end", field.join
    yield from floods(field, seed, (*scenarios.LAST, *http2_scenarios.LAST))
    yield from some(field, seed)
    yield from floods(field, seed, by_key)
    for run in (specials.guesses, specials.stalled_log):
        yield run.__name__, calmly(field, lambda run=run: run(field, seed))


def shapes_only(field, seed):
    """Every shape, then random attacks, for a model with other routes."""
    yield from (plain(field, attack) for attack in mix.matrix(seed, ROUTES))
    yield from (plain(field, mix.mixed(seed, number, ROUTES)) for number in range(10**9))


def all_but_shapes(field, seed):
    """Products, also one by one, attacks by key, then random attacks."""
    yield from products(field, seed)
    yield from floods(field, seed, key_scenarios.ALL)
    yield from products_one_by_one(field, seed)
    yield from randoms(field, seed)


def only(field, seed, name):
    """The attack of this name; `random` is all random ones."""
    if name == "random":
        yield from (plain(field, mix.mixed(seed, number, ROUTES)) for number in range(10**9))
    elif name.startswith("random-"):
        yield plain(field, mix.mixed(seed, int(name.removeprefix("random-")), ROUTES))
    elif name in FLOODS:
        yield flood(field, seed, FLOODS[name])
    else:
        for other, run in (*products(field, seed), *products_one_by_one(field, seed), *before_randoms(everything(field, seed))):
            if other == name:
                yield other, run
                return
        raise SystemExit(f"no attack is called {name}")


def before_randoms(attacks):
    for name, run in attacks:
        if name.startswith("random-"):
            return
        yield name, run

"""Random numbers: seeds, states, generators of a device and of one's own."""

import pytest
import torch
from conftest import ON_CPU

D = "flagos"
THROWS = {
    "rand": lambda g: torch.rand(8, device=D, generator=g),
    "randn": lambda g: torch.randn(8, device=D, generator=g),
    "randint": lambda g: torch.randint(100, (8,), device=D, generator=g),
    "randperm": lambda g: torch.randperm(50, device=D, generator=g),
    "uniform_": lambda g: torch.empty(8, device=D).uniform_(generator=g),
    "normal_": lambda g: torch.empty(8, device=D).normal_(generator=g),
    "bernoulli": lambda g: torch.bernoulli(torch.full((64,), 0.5, device=D), generator=g),
    "multinomial": lambda g: torch.multinomial(torch.ones(50, device=D), 8, generator=g),
    "exponential_": lambda g: torch.empty(8, device=D).exponential_(generator=g),
    "normal": lambda g: torch.normal(torch.zeros(8, device=D), 1.0, generator=g),
    "poisson": lambda g: torch.poisson(torch.full((32,), 3.0, device=D), generator=g),
}


def other():
    return torch.Generator(device=D).manual_seed(7)


@pytest.mark.parametrize("name", THROWS)
def test_seed_and_state(name):
    throw = THROWS[name]
    for generator in (None, other()):
        seed = torch.manual_seed if generator is None else generator.manual_seed
        seed(3)
        first, second = throw(generator), throw(generator)
        assert first.device.type == D and not torch.equal(first, second)
        seed(3)
        assert torch.equal(throw(generator), first) and torch.equal(throw(generator), second)


def test_own_generator():
    generator = other()
    assert generator.device == torch.device(D, 0) and generator.initial_seed() == 7
    state = generator.get_state()
    value = torch.rand(3, device=D, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.rand(3, device=D, generator=generator), value)
    twin = other()
    assert torch.equal(torch.rand(3, device=D, generator=twin), value)
    before = torch.flagos.get_rng_state()
    torch.rand(3, device=D, generator=twin)
    assert torch.equal(torch.flagos.get_rng_state(), before)
    assert generator.seed() == generator.initial_seed()
    clone = twin.clone_state()
    assert torch.equal(torch.rand(2, device=D, generator=clone), torch.rand(2, device=D, generator=twin))


def test_a_generator_of_another_device_is_refused():
    for wrong in (torch.Generator(), torch.Generator("cpu")):
        with pytest.raises(RuntimeError, match="[Gg]enerator|device"):
            torch.rand(3, device=D, generator=wrong)
        with pytest.raises(RuntimeError, match="[Gg]enerator|device"):
            torch.empty(3, device=D).normal_(generator=wrong)
    with pytest.raises(RuntimeError, match="[Gg]enerator|device"):
        torch.rand(3, generator=torch.Generator(device=D))


def test_module():
    flagos = torch.flagos
    flagos.manual_seed(11)
    assert flagos.initial_seed() == 11
    state = flagos.get_rng_state()
    assert state.device.type == "cpu" and state.dtype is torch.uint8
    value = torch.rand(3, device=D)
    flagos.set_rng_state(state)
    assert torch.equal(torch.rand(3, device=D), value)
    everything = flagos.get_rng_state_all()
    assert len(everything) == flagos.device_count()
    value = torch.rand(3, device=D)
    flagos.set_rng_state_all(everything)
    assert torch.equal(torch.rand(3, device=D), value)
    flagos.manual_seed_all(12)
    assert len(flagos.default_generators) == flagos.device_count()
    assert flagos.default_generators[0].initial_seed() == 12
    flagos.seed()
    first = flagos.initial_seed()
    flagos.seed_all()
    assert flagos.initial_seed() != first


def test_fork_rng():
    torch.manual_seed(4)
    here, there = torch.get_rng_state(), torch.flagos.get_rng_state()
    with torch.random.fork_rng(device_type=D):
        torch.rand(3, device=D)
        torch.rand(3)
    assert torch.equal(torch.get_rng_state(), here) and torch.equal(torch.flagos.get_rng_state(), there)


def test_the_numbers_do_not_depend_on_the_route(program):
    text = """
    import torch_fl, torch
    torch.manual_seed(9)
    x = torch.rand(4, device="flagos")
    y = torch.nn.functional.dropout(torch.ones(64, device="flagos"), 0.5)
    z = torch.randn(4, device="flagos")
    print(x.tolist(), y.tolist(), z.tolist())
    """
    assert program(text).ok() == program(text).ok()
    if ON_CPU:  # kernels of the CPU either way
        routed = program(text, FLAGOS_OP_uniform_="cpu", FLAGOS_OP_bernoulli_="cpu", FLAGOS_OP_normal_="cpu").ok()
        assert routed == program(text).ok()


def test_dropout_follows_the_seed():
    layer = torch.nn.Dropout(0.5)
    torch.manual_seed(1)
    first = layer(torch.ones(1000, device=D))
    torch.manual_seed(1)
    assert torch.equal(layer(torch.ones(1000, device=D)), first)
    assert 300 < (first == 0).sum().item() < 700
    torch.flagos.manual_seed(1)
    assert torch.equal(layer(torch.ones(1000, device=D)), first)

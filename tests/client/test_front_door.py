"""What `from penstock import ...` offers."""

import types

import penstock


def test_everything_public_is_in_all_and_everything_in_all_is_there():
    public = {
        name
        for name, value in vars(penstock).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert public == set(penstock.__all__)


def test_the_front_door_stays_narrow():
    assert len(penstock.__all__) <= 14
    assert len(set(penstock.__all__)) == len(penstock.__all__)


def test_everything_offered_says_what_it_is():
    assert all(getattr(penstock, name).__doc__ for name in penstock.__all__)

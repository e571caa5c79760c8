"""Settings of running brokers, as tests look at them."""


def shown(admin, resource, key):
    """The value of a key and where it comes from."""
    entry = admin.configs.describe(resource)[resource][key]
    return entry.value, entry.source

from hypothesis import settings

# The same examples on every machine and every run; how long one takes says nothing about whether it is right.
settings.register_profile("attncli", derandomize=True, database=None, deadline=None, max_examples=25)
settings.load_profile("attncli")

"""Read YAML with line numbers, apply overrides, and validate with pydantic models. Nothing here imports torch."""

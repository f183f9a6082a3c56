"""Read YAML with line numbers, apply overrides, and validate with pydantic models, without loading torch early."""

"""YAML to validated models: reading with line numbers, overrides, the models, and the JSON Schema. No torch here."""

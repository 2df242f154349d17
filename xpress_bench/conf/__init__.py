"""Default settings as YAML. Names in them go through the registries; nothing here can import code."""

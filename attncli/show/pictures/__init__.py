"""Pictures drawn by matplotlib: their looks, panels, colours and files."""

"""How results are seen: in the terminal, as pictures, as a page and in a notebook."""

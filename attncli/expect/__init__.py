"""Expectations of a result: asked before the work, judged after it, said in words."""

"""From a pile of runs to a submission: a plan first, then a new tree; the input is never changed.

`planning.plan` reads a tree and says, step by step, what a prepared one would hold and why; it
writes nothing. `acting.carry_out` makes that tree. Everything between is pure: a `draft.Draft` goes
through one function for each kind of chore.
"""

"""The page: the whole job in a browser on the machine of its user.

The server imports nothing heavy and touches no data. What reads data (`desk`) and what estimates (`fit`) are processes
of their own, so that the page answers at once, a run can be stopped, and memory is given back.
"""

"""What runs on a node and makes it one: it joins the cluster, says that it is alive, and says how it is.

Small on purpose: an emulated node has little memory and a slow processor, so the agent loads the standard library and
nothing of the rest of this package. What needs more, making keys (`trust`), is done in a child that ends.
"""

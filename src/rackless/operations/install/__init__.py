"""A cluster that installs itself: its folder of assets, the bootstrap machine, waiting, gathering, taking it away."""

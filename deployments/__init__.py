"""Work pools, containers and example specs; shipped with the package, so that `understudy deploy` finds them."""

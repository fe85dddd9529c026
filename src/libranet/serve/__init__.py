"""`libranet serve`: the page and its HTTP interface. Media are decoded and restored in other processes."""

//! `hearth-worker`: the zygote, and the workers forked from it.

fn main() {}
